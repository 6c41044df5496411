"""The robust objective against the published formulas, its arguments and what it rests on."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, logsumexp, softmax

from ebmjax.losses import beta_objective_loss, contrastive_divergence_loss

EPS = np.finfo(np.float32).eps
VARIANTS = ["default", "no_positive", "batch_corrected", "true_objective"]
RNG = np.random.default_rng(0)
# Rounded to float32 once, so that the float64 references see the very numbers the library sees.
POSITIVE = np.float32(RNG.normal(0.5, 2.0, 6)).astype(np.float64)
NEGATIVE = np.float32(RNG.normal(-0.5, 2.0, 5)).astype(np.float64)


@functools.partial(jax.jit, static_argnames=("variant", "allow_negative"))
def value_and_grads(positive, negative, beta, variant, output_scale=1.0, allow_negative=True):
    """(loss, metrics), (gradient to the positives, gradient to the negatives), all traced."""
    return jax.value_and_grad(beta_objective_loss, argnums=(0, 1), has_aux=True)(
        positive,
        negative,
        beta=beta,
        variant=variant,
        output_scale=output_scale,
        allow_negative=allow_negative,
    )


def run(variant, beta, positive=POSITIVE, negative=NEGATIVE, output_scale=1.0):
    arrays = (jnp.asarray(positive, jnp.float32), jnp.asarray(negative, jnp.float32))
    return value_and_grads(*arrays, beta, variant, output_scale)


def published_weights(positive, negative, b):
    """w+_i, each positive alone among all negatives, and w_j, as section 3 and Eq. 8 define."""
    w_plus = expit(b * positive - logsumexp(b * negative))
    return w_plus, softmax(b * negative)


def published_gradient(variant, positive, negative, b):
    """Minus the ascent direction that the paper prints, spelt out term by term.

    Row i of ``directions`` is grad f(x+_i) - sum_j w_j grad f(x-_j) in the coordinates
    (f(x+_1), ..., f(x+_N), f(x-_1), ..., f(x-_M)).
    """
    n = len(positive)
    w_plus, w = published_weights(positive, negative, b)
    directions = np.concatenate([np.eye(n), np.tile(-w, (n, 1))], axis=1)
    if variant == "default":
        ascent = np.mean((1 - w_plus)[:, None] * directions, axis=0)
    elif variant == "no_positive":
        ascent = directions.mean(axis=0)
    elif variant == "batch_corrected":
        ascent = np.mean(1 - w_plus) * directions.mean(axis=0)
    else:
        a, b = slice(0, n // 2), slice(n // 2, n)
        ascent = 0.5 * np.mean(1 - w_plus[b]) * directions[a].mean(axis=0)
        ascent += 0.5 * np.mean(1 - w_plus[a]) * directions[b].mean(axis=0)
    return -ascent[:n], -ascent[n:]


def published_value(variant, positive, negative, b):
    """Alg. 1 as printed; Eq. 23 with the mean in place of the sum for "no_positive"."""
    if variant == "no_positive":
        return (logsumexp(b * negative) - np.log(len(negative))) / b - positive.mean()
    stacked = np.stack([b * positive, np.full(len(positive), logsumexp(b * negative))])
    return logsumexp(stacked, axis=0).mean() / b - positive.mean()


def tolerance(positive, negative, b):
    """Relative error of exp(b v): eps x the largest |b v|, a few times over for the sums."""
    spread = np.ptp(np.concatenate([positive, negative]))
    return 16 * EPS * (1 + abs(b) * spread)


@pytest.mark.parametrize("b", [1e-6, 0.1, 0.9, -0.5])
@pytest.mark.parametrize("variant", VARIANTS)
def test_gradient_is_the_published_one(variant, b):
    _, got = run(variant, b)
    want = published_gradient(variant, POSITIVE, NEGATIVE, b)
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance(POSITIVE, NEGATIVE, b), atol=0)


@pytest.mark.parametrize("b", [1e-3, 0.1, 0.9, -0.5])
@pytest.mark.parametrize("variant", VARIANTS)
def test_value_is_algorithm_1(variant, b):
    (loss, metrics), _ = run(variant, b)
    family = "no_positive" if variant == "no_positive" else "default"
    want = published_value(family, POSITIVE, NEGATIVE, b)
    # The constant log(M + 1) / b dominates the rounding of a loss with a small b.
    constant = 0.0 if family == "no_positive" else np.log(len(NEGATIVE) + 1) / b
    spread = np.ptp(np.concatenate([POSITIVE, NEGATIVE]))
    np.testing.assert_allclose(loss, want, rtol=0, atol=8 * EPS * (abs(constant) + spread))
    np.testing.assert_allclose(
        metrics["objective"], want - constant, rtol=0, atol=16 * EPS * spread
    )


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("make", [lambda b: b, jnp.float32], ids=["static", "array"])
@pytest.mark.parametrize("beta", [0.0, -0.0, 1e-40])
def test_beta_zero_is_contrastive_divergence(variant, make, beta):
    arrays = jnp.asarray(POSITIVE, jnp.float32), jnp.asarray(NEGATIVE, jnp.float32)

    def divergence(positive, negative):
        return contrastive_divergence_loss(-positive, -negative)[0]

    want, want_gradients = jax.value_and_grad(divergence, argnums=(0, 1))(*arrays)
    (loss, metrics), gradients = value_and_grads(*arrays, make(beta), variant)
    spread = np.ptp(np.concatenate([POSITIVE, NEGATIVE]))
    np.testing.assert_allclose(loss, want, rtol=0, atol=8 * EPS * spread)
    np.testing.assert_allclose(metrics["objective"], want, rtol=0, atol=8 * EPS * spread)
    for ours, theirs in zip(gradients, want_gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=4 * EPS)


def test_monitors():
    b = 0.5
    (_, metrics), _ = run("default", b)
    w_plus, w = published_weights(POSITIVE, NEGATIVE, b)
    rtol = tolerance(POSITIVE, NEGATIVE, b)
    # 1 - mean(1 - w+) is absolute to eps.
    np.testing.assert_allclose(metrics["positive_weight"], w_plus.mean(), rtol=rtol, atol=EPS)
    fraction = 1 / np.sum(w**2) / len(w)
    np.testing.assert_allclose(metrics["effective_sample_fraction"], fraction, rtol=2 * rtol)
    of_positives = np.mean(1 - w_plus) ** 2 / np.mean((1 - w_plus) ** 2)
    np.testing.assert_allclose(metrics["effective_positive_fraction"], of_positives, rtol=2 * rtol)
    gap = POSITIVE.mean() - NEGATIVE.mean()
    np.testing.assert_allclose(metrics["log_density_gap"], gap, rtol=0, atol=16 * EPS)
    np.testing.assert_allclose(metrics["positive_log_density"], POSITIVE.mean(), atol=8 * EPS)
    np.testing.assert_allclose(metrics["negative_log_density"], NEGATIVE.mean(), atol=8 * EPS)


def test_a_hopeless_negative_is_ignored_and_a_hopeless_batch_lets_go():
    far = NEGATIVE.copy()
    far[2] = -np.inf  # outside the support, as densities.within_box says it
    (loss, _), (_, to_negative) = run("default", 0.5, negative=far)
    assert np.isfinite(loss)
    assert to_negative[2] == 0
    assert np.all(np.delete(to_negative, 2) > 0)

    # All negatives far below: 1 - w+ = M exp(b (f- - f+)), alike to both phases although it is
    # far below eps, where 1 - w+ computed as a difference would be 0.
    (_, metrics), (to_positive, to_negative) = run("default", 0.5, np.zeros(2), np.full(3, -80.0))
    kept = 3 * np.exp(-40.0)
    rtol = tolerance(np.zeros(1), np.full(1, -80.0), 0.5)
    np.testing.assert_allclose(to_positive, np.full(2, -kept / 2), rtol=rtol)
    np.testing.assert_allclose(to_negative, np.full(3, kept / 3), rtol=rtol)
    assert metrics["positive_weight"] == 1.0
    assert metrics["effective_positive_fraction"] == pytest.approx(1.0, rel=1e-6)
    # Weights that underflow still compare: of two positives the one 60 nats higher does not count.
    (_, metrics), _ = run("default", 0.5, np.array([400.0, 520.0]), np.zeros(3))
    assert metrics["effective_positive_fraction"] == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize("variant", VARIANTS)
def test_output_scale_is_the_objective_of_the_scaled_density_over_the_scale(variant):
    """(1/o) L(o f; beta) = L(f; beta o): JEM's units, with beta* = beta o on the bare f."""
    o, beta = 256.0, 2.0**-9  # powers of two, so that o f is exact
    (scaled, metrics), gradients = run(variant, beta, output_scale=o)
    (of, _), of_gradients = run(variant, beta, o * POSITIVE, o * NEGATIVE)
    spread = np.ptp(np.concatenate([POSITIVE, NEGATIVE]))
    np.testing.assert_allclose(scaled, of / o, rtol=8 * EPS, atol=8 * EPS * spread)
    for ours, theirs in zip(gradients, of_gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=16 * EPS)
    np.testing.assert_allclose(
        metrics["log_density_gap"], POSITIVE.mean() - NEGATIVE.mean(), atol=16 * EPS
    )


@pytest.mark.parametrize("num_negatives", [1, 2, 3])
@pytest.mark.parametrize("b", [0.5, -0.5])
def test_the_default_rests_where_reweighted_negatives_are_the_data(num_negatives, b):
    """exp(b f) = data / sampler on four points: over all batches, the gradient's mean is 0.

    Without the positive among them that is so only as their number grows: of one, the weight is 1.
    """
    data, sampler = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.4, 0.1, 0.3, 0.2])
    f = jnp.asarray(np.log(data / sampler) / b, jnp.float32)
    batches = np.array(list(itertools.product(range(4), repeat=1 + num_negatives)))
    chances = data[batches[:, 0]] * np.prod(sampler[batches[:, 1:]], axis=1)

    def mean_loss(f, variant):
        def loss(batch):
            return beta_objective_loss(
                f[batch[:1]], f[batch[1:]], beta=b, variant=variant, allow_negative=True
            )[0]

        return jnp.sum(jnp.asarray(chances, jnp.float32) * jax.vmap(loss)(jnp.asarray(batches)))

    gradient = jax.jit(jax.grad(mean_loss), static_argnums=1)
    # A sum of terms below 1 in float32.
    np.testing.assert_allclose(gradient(f, "default"), np.zeros(4), atol=1e-6)
    assert np.max(np.abs(gradient(f, "no_positive"))) > 0.01


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"beta": 1.0}, ValueError, "beta must lie in"),
        ({"beta": -0.1}, ValueError, "allow_negative"),
        ({"beta": np.nan}, ValueError, "beta must lie in"),
        ({"beta": -np.inf, "allow_negative": True}, ValueError, "beta must lie in"),
        ({"beta": jnp.zeros(2)}, ValueError, "beta must be a scalar"),
        ({"variant": "eq8"}, ValueError, "variant must be one of"),
        ({"output_scale": 0.0}, ValueError, "output_scale must be positive"),
        ({"variant": "true_objective", "positive": jnp.zeros(3)}, ValueError, "even count"),
    ],
)
def test_bad_input(arguments, error, match):
    arguments = {"beta": 0.1, "positive": jnp.zeros(2), "negative": jnp.zeros(3), **arguments}
    positive, negative = arguments.pop("positive"), arguments.pop("negative")
    with pytest.raises(error, match=match):
        beta_objective_loss(positive, negative, **arguments)
