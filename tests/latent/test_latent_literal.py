"""The thesis's printed sum: how far it is from the log evidence, exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import latent

MODEL = latent.linear_gaussian_model(base_scale=1.3, likelihood_scale=0.6)
X = np.array([1.5, -0.8])


def make_terms(num_intervals, exponent):
    params = latent.LatentParams(
        latent.QuadraticPrior(jnp.array([[0.7, 0.2], [0.2, 0.3]]), jnp.array([0.8, -0.4])),
        latent.LinearGenerator(jnp.array([[1.0, -0.5], [0.3, 0.9]]), jnp.array([0.1, -0.2])),
    )
    powers, x = latent.power_schedule(num_intervals, exponent), jnp.asarray(X)
    terms = jax.jit(latent.linear_gaussian_terms, static_argnums=1)(params, MODEL, x, powers)
    return powers, terms, float(latent.linear_gaussian_log_evidence(params, MODEL, x))


# float64 throughout; sums of a dozen terms of some ten nats through solves of condition below 100.
TOLERANCE = 1e-11


@pytest.mark.parametrize("exponent", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("num_intervals", [1, 5])
def test_it_is_too_large_by_the_backward_divergences(num_intervals, exponent):
    with jax.enable_x64(True):
        powers, (energies, forward, backward), exact = make_terms(num_intervals, exponent)
        value = latent.literal_log_evidence(
            energies, powers, kl_forward=forward, kl_backward=backward
        )
        excess = float(jnp.sum(backward))
        assert excess > 0.01
        np.testing.assert_allclose(value, exact + excess, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0, 2.0])
def test_it_is_a_riemann_sum_weighted_between_trapezium_and_right_hand(weight):
    with jax.enable_x64(True):
        powers, (energies, forward, backward), _ = make_terms(5, 2.0)
        trapezium = np.trapezoid(np.asarray(energies), np.asarray(powers))
        right_hand = float(jnp.sum(jnp.diff(powers) * energies[1:]))
        value = latent.literal_log_evidence(
            energies, powers, kl_forward=forward, kl_backward=backward, kl_weight=weight
        )
        expected = (1 - weight) * trapezium + weight * right_hand
        np.testing.assert_allclose(value, expected, rtol=0, atol=TOLERANCE)
        correct = latent.log_evidence(
            energies, powers, kl_forward=forward, kl_backward=backward, kl_weight=weight
        )
        np.testing.assert_allclose(value - correct, weight * backward.sum(), atol=TOLERANCE)


def test_its_error_falls_only_as_one_over_the_intervals():
    """Doubling the intervals of an even ladder halves the right-hand sum's error, to first order.

    The next term is that of the trapezium rule, smaller by about 1 / num_intervals = 1 %.
    """
    with jax.enable_x64(True):
        excess = []
        for num_intervals in (100, 200):
            _, terms, _ = make_terms(num_intervals, 1.0)
            excess.append(float(terms.kl_backward.sum()))
        assert abs(excess[0] / excess[1] - 2.0) < 0.1


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="kl_backward must have one entry per interval"):
        latent.literal_log_evidence(
            jnp.zeros(2), jnp.array([0.0, 1.0]), kl_forward=jnp.zeros(1), kl_backward=jnp.zeros(2)
        )
