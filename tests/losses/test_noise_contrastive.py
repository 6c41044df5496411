"""Noise-contrastive estimation finds the data's density with its constant."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ebmjax.losses import noise_contrastive_loss


def quantiles(scale, num):
    """Points that stand for N(0, scale^2): its quantiles at the middles of equal shares."""
    return scale * stats.norm.ppf((np.arange(num) + 0.5) / num)


@pytest.mark.parametrize("ratio", [1, 4])
def test_the_constant_tends_to_the_true_log_partition_function(ratio):
    """For data N(0, 0.5^2) and -E = -a x^2 / 2 - c the minimum is a = 4, c = log sqrt(2 pi / 4).

    Quantiles are draws without noise; with 4,000 of them the moments are off by less than 1e-3.
    """
    data, noise = quantiles(0.5, 4000), quantiles(1.0, 4000 * ratio)
    log_q = stats.norm.logpdf

    def loss_fn(theta):
        a, c = theta
        ratios = [jnp.asarray(-log_q(x)) - 0.5 * a * x**2 - c for x in (data, noise)]
        return noise_contrastive_loss(*ratios)[0]

    with jax.enable_x64(True):
        newton = jax.jit(
            lambda x: x - jnp.linalg.solve(jax.hessian(loss_fn)(x), jax.grad(loss_fn)(x))
        )
        theta = jnp.array([2.0, 0.0], jnp.float64)
        for _ in range(12):
            theta = newton(theta)
        a, c = np.asarray(theta)
    assert a == pytest.approx(4.0, rel=5e-3)
    assert c == pytest.approx(0.5 * np.log(2 * np.pi / 4.0), abs=5e-3)


def test_value_by_hand():
    loss, metrics = noise_contrastive_loss(jnp.array([2.0]), jnp.array([-1.0, 1.0]))
    u_data, u_noise = 2.0 - np.log(2), np.array([-1.0, 1.0]) - np.log(2)
    expected = np.log1p(np.exp(-u_data)) + 2 * np.mean(np.log1p(np.exp(u_noise)))
    assert float(loss) == pytest.approx(expected, rel=1e-6)
    assert float(metrics["noise_accuracy"]) == pytest.approx(2 / 3)
