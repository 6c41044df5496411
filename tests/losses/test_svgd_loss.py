"""The SVGD generative loss: the corrected one, and that the literal one has no negative phase."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.losses import (
    contrastive_divergence_loss,
    svgd_generative_loss,
)

EPS = np.finfo(np.float32).eps
RNG = np.random.default_rng(3)
POSITIVE = RNG.normal(2.0, 3.0, 5).astype(np.float32)
NEGATIVE = RNG.normal(-1.0, 3.0, 8).astype(np.float32)


@functools.partial(jax.jit, static_argnames="variant")
def value_and_grads(positive, negative, smoothing, variant):
    return jax.value_and_grad(svgd_generative_loss, argnums=(0, 1), has_aux=True)(
        positive, negative, smoothing=smoothing, variant=variant
    )


@pytest.mark.parametrize("smoothing", [0.5, 7.0])
def test_corrected_is_contrastive_divergence_over_the_smoothing(smoothing):
    (loss, metrics), gradients = value_and_grads(POSITIVE, NEGATIVE, smoothing, "corrected")
    divergence = contrastive_divergence_loss(jnp.asarray(-POSITIVE), jnp.asarray(-NEGATIVE))[0]
    want = divergence / smoothing
    np.testing.assert_allclose(loss, want, rtol=0, atol=16 * EPS * 10 / smoothing)
    np.testing.assert_allclose(gradients[0], np.full(5, -1 / (5 * smoothing)), rtol=4 * EPS)
    np.testing.assert_allclose(gradients[1], np.full(8, 1 / (8 * smoothing)), rtol=4 * EPS)
    means = [part.mean(dtype=np.float64) for part in (POSITIVE, NEGATIVE)]
    names = ["positive_log_density", "negative_log_density", "log_density_gap", "smoothing"]
    assert set(metrics) == set(names)
    for name, value in zip(names, [*means, means[0] - means[1], smoothing], strict=True):
        np.testing.assert_allclose(metrics[name], value, atol=8 * 10 * EPS, err_msg=name)


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
