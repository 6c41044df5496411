"""The generative losses of joint models by configuration: one meaning of penalty and smoothing."""

import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import losses
from ebmjax.recipes.joint.parts import GENERATIVE_LOSSES, objective
from experiments.configs import jem_digits

POSITIVE, NEGATIVE = jnp.array([2.0, -1.0, 0.5]), jnp.array([-3.0, 2.0])
BETA, SCALE, ALPHA = 0.2, 3.0, 4.0


def value_of(name, alpha, **overrides):
    config = jem_digits.get_config()
    config.loss.update(name=name, beta=BETA, output_scale=SCALE, **overrides)
    return objective(config).generative_loss(POSITIVE, NEGATIVE, jnp.float32(alpha))


@pytest.mark.parametrize("alpha", [1.0, ALPHA])
@pytest.mark.parametrize("name", GENERATIVE_LOSSES)
def test_penalty_and_means_are_of_f_whatever_the_smoothing(name, alpha):
    bare, _ = value_of(name, alpha, energy_l2=0.0)
    value, metrics = value_of(name, alpha, energy_l2=0.1)
    squares = np.mean(np.square(POSITIVE)) + np.mean(np.square(NEGATIVE))
    assert float(metrics["energy_l2"]) == pytest.approx(0.1 * squares)
    assert float(value - bare) == pytest.approx(0.1 * squares, rel=1e-6)
    if name == "contrastive_divergence":
        found = -metrics["positive_energy"], -metrics["negative_energy"], metrics["energy_gap"]
    else:
        names = ("positive_log_density", "negative_log_density", "log_density_gap")
        found = tuple(metrics[name] for name in names)
    assert [float(mean) for mean in found] == pytest.approx([0.5, -0.5, 1.0])


def test_smoothing_is_the_temperature_of_every_loss():
    """For p(x) proportional to exp(f / alpha), contrastive divergence in nats is that of f / 4."""
    expected = float(jnp.mean(NEGATIVE) - jnp.mean(POSITIVE)) / ALPHA
    for name in ("contrastive_divergence", "svgd"):
        value, _ = value_of(name, ALPHA, energy_l2=0.0)
        assert float(value) == pytest.approx(expected, abs=1e-6)
    value, _ = value_of("beta", ALPHA, energy_l2=0.0)
    of_f, _ = losses.beta_objective_loss(POSITIVE, NEGATIVE, beta=BETA, output_scale=SCALE / ALPHA)
    assert float(value) == pytest.approx(float(of_f) / ALPHA, rel=1e-6)
