"""The SVGD generative loss: the corrected one, and that the literal one has no negative phase."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.losses import (
    contrastive_divergence_loss,
    nearest_neighbour_entropy,
    svgd_generative_loss,
)

EPS = np.finfo(np.float32).eps
RNG = np.random.default_rng(3)
POSITIVE = RNG.normal(2.0, 3.0, 5).astype(np.float32)
NEGATIVE = RNG.normal(-1.0, 3.0, 8).astype(np.float32)


@functools.partial(jax.jit, static_argnames="variant")
def value_and_grads(positive, negative, smoothing, variant, particle_entropy=None):
    return jax.value_and_grad(svgd_generative_loss, argnums=(0, 1), has_aux=True)(
        positive, negative, smoothing=smoothing, variant=variant, particle_entropy=particle_entropy
    )


@pytest.mark.parametrize("smoothing", [0.5, 1.0, 7.0])
@pytest.mark.parametrize("entropy", [None, -2.5])
def test_corrected_is_contrastive_divergence_over_the_smoothing(smoothing, entropy):
    (loss, metrics), gradients = value_and_grads(
        POSITIVE, NEGATIVE, smoothing, "corrected", entropy
    )
    divergence = contrastive_divergence_loss(jnp.asarray(-POSITIVE), jnp.asarray(-NEGATIVE))[0]
    want = divergence / smoothing + (entropy or 0.0)
    np.testing.assert_allclose(loss, want, rtol=0, atol=16 * EPS * 10 / smoothing)
    np.testing.assert_allclose(gradients[0], np.full(5, -1 / (5 * smoothing)), rtol=4 * EPS)
    np.testing.assert_allclose(gradients[1], np.full(8, 1 / (8 * smoothing)), rtol=4 * EPS)
    assert ("particle_entropy" in metrics) == (entropy is not None)


@pytest.mark.parametrize("smoothing", [0.5, 1.0, 7.0])
def test_literal_has_no_negative_phase(smoothing):
    """The entropy estimate is minus the negative phase: what is left is -mean f(x)/alpha."""
    (loss, _), (to_positive, to_negative) = value_and_grads(
        POSITIVE, NEGATIVE, smoothing, "literal"
    )
    (other, _), _ = value_and_grads(POSITIVE, 100 * NEGATIVE, smoothing, "literal")
    want = -np.mean(POSITIVE, dtype=np.float64) / smoothing
    np.testing.assert_allclose(loss, want, rtol=8 * EPS)
    assert loss == other
    np.testing.assert_array_equal(to_negative, np.zeros(8))
    np.testing.assert_allclose(to_positive, np.full(5, -1 / (5 * smoothing)), rtol=4 * EPS)


def test_literal_runs_away_where_corrected_stands():
    """A constant added to f is no change of the model, yet the literal loss falls with it."""
    losses = {}
    for variant in ("corrected", "literal"):
        base = value_and_grads(POSITIVE, NEGATIVE, 2.0, variant)[0][0]
        moved = value_and_grads(POSITIVE + 1024, NEGATIVE + 1024, 2.0, variant)[0][0]
        losses[variant] = float(moved - base)
    # f + 1024 is rounded to 1024 eps.
    assert abs(losses["corrected"]) < 8 * 1024 * EPS
    assert abs(losses["literal"] + 512) < 8 * 1024 * EPS


def test_with_the_particles_own_entropy_it_is_the_negative_log_likelihood():
    """f = -x^2/2 over alpha is N(0, alpha): its own variance and entropy close the bound."""
    alpha, data = 2.0, np.array([0.5, -2.0, 3.0])
    particles = np.sqrt(alpha) * np.array([1.0, -1.0])
    entropy = 0.5 * np.log(2 * np.pi * np.e * alpha)
    loss, _ = svgd_generative_loss(
        jnp.asarray(-0.5 * data**2, jnp.float32),
        jnp.asarray(-0.5 * particles**2, jnp.float32),
        smoothing=alpha,
        particle_entropy=entropy,
    )
    want = 0.5 * np.mean(data**2) / alpha + 0.5 * np.log(2 * np.pi * alpha)
    np.testing.assert_allclose(loss, want, rtol=8 * EPS)


def test_the_entropy_carries_no_gradient():
    """Not even to parameters that the particles were computed from."""

    def loss(scale):
        particles = scale * jnp.array([[0.0], [1.0], [3.0]])
        entropy = nearest_neighbour_entropy(particles)
        return svgd_generative_loss(
            jnp.zeros(2), jnp.zeros(3), smoothing=1.0, particle_entropy=entropy
        )[0]

    assert jax.grad(loss)(2.0) == 0.0
    np.testing.assert_allclose(loss(2.0) - loss(1.0), np.log(2.0), rtol=16 * EPS)


@pytest.mark.parametrize("variant", ["corrected", "literal"])
def test_metrics(variant):
    (_, metrics), _ = value_and_grads(POSITIVE, NEGATIVE, 3.0, variant, 1.5)
    want = {
        "positive_log_density": POSITIVE.mean(dtype=np.float64),
        "negative_log_density": NEGATIVE.mean(dtype=np.float64),
        "log_density_gap": POSITIVE.mean(dtype=np.float64) - NEGATIVE.mean(dtype=np.float64),
        "smoothing": 3.0,
        "particle_entropy": 1.5,
    }
    assert set(metrics) == set(want)
    for name, value in want.items():
        np.testing.assert_allclose(metrics[name], value, atol=8 * 10 * EPS, err_msg=name)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"smoothing": 0.0}, ValueError, "smoothing must be positive"),
        ({"smoothing": jnp.ones(2)}, ValueError, "smoothing must be a scalar"),
        ({"variant": "thesis"}, ValueError, "variant must be one of corrected, literal"),
        ({"particle_entropy": jnp.ones(2)}, ValueError, "particle_entropy must be a scalar"),
        ({"positive_log_density": jnp.zeros((2, 2))}, ValueError, "positive_log_density"),
        ({"negative_log_density": jnp.arange(2)}, TypeError, "negative_log_density"),
    ],
)
def test_bad_input(change, error, match):
    good = {"positive_log_density": jnp.zeros(2), "negative_log_density": jnp.zeros(2)}
    with pytest.raises(error, match=match):
        svgd_generative_loss(**{**good, "smoothing": 1.0, **change})
