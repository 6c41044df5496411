"""Learning gradients from exact samples, against finite differences of the exact log evidence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from latent_problems import (
    MODEL,
    OBSERVATIONS,
    assert_means,
    energy_penalty_by_hand,
    evidence_by_differences,
    exact_draws,
    exact_metrics,
    exact_moments,
    make_params,
    standard_errors,
)

from ebmjax.latent import (
    frozen_prior_loss,
    power_schedule,
    telescoped_loss,
    tempered_loss,
    vanilla_loss,
)

NUM_INTERVALS, EXPONENT = 3, 2.0
NUM_DRAWS = 4000
LADDER_LOSSES = [tempered_loss, telescoped_loss, frozen_prior_loss]
X = jnp.asarray(OBSERVATIONS, jnp.float32)
LATENTS = jax.random.normal(jax.random.key(10), (3, 2, 2))
PRIOR = jax.random.normal(jax.random.key(11), (5, 2))
LADDER = jnp.array([0.0, 0.5, 1.0])


def learning_gradients(loss_fn, params, power_latents, prior_latents, powers):
    """Minus the loss's gradient for each independent draw, shape (draws, num_params)."""
    x = jnp.asarray(OBSERVATIONS)

    def gradient(power_latents, prior_latents):
        if loss_fn is vanilla_loss:
            arguments = (power_latents[-1], prior_latents)
        else:
            arguments = (power_latents, prior_latents, powers)
        gradient = jax.grad(lambda p: loss_fn(p, MODEL, x, *arguments)[0])(params)
        return -ravel_pytree(gradient)[0]

    return np.asarray(jax.jit(jax.vmap(gradient))(power_latents, prior_latents))


def tempered_definition(params, powers):
    """The docstring's definition at exact moments, by hand and in numpy."""
    mean, covariance = map(np.asarray, exact_moments(params, powers))
    second = covariance + mean[..., :, None] * mean[..., None, :]
    weight, bias = map(np.asarray, params.generator)
    precision = 1 / MODEL.likelihood_scale**2
    d_weight, d_bias = [], []
    for m, s in zip(mean, second, strict=True):
        residual = OBSERVATIONS - m @ weight.T - bias
        outer = (OBSERVATIONS - bias)[:, :, None] * m[:, None, :] - weight @ s
        d_weight.append(precision * outer.mean(0))
        d_bias.append(precision * residual.mean(0))
    generator = [np.trapezoid(d, np.asarray(powers), axis=0) for d in (d_weight, d_bias)]
    prior = -0.5 * (second[-1] - second[0]).mean(0), (mean[-1] - mean[0]).mean(0)
    return np.concatenate([np.ravel(array) for array in (*prior, *generator)])


@pytest.mark.parametrize("loss_fn", [vanilla_loss, telescoped_loss])
def test_unbiased_estimators_match_differences_of_the_exact_evidence(loss_fn):
    """Prior and generator parameters alike, within 5 standard errors of 4000 exact draws."""
    with jax.enable_x64(True):
        params, powers = make_params(), power_schedule(NUM_INTERVALS, EXPONENT)
        draws = exact_draws(jax.random.key(0), params, powers, num_draws=NUM_DRAWS)
        gradients = learning_gradients(loss_fn, params, *draws, powers)
        exact = evidence_by_differences(params)
    errors = standard_errors(gradients)
    assert np.all(np.abs(gradients.mean(0) - exact) < 5 * errors)
    # The test has teeth: the errors are small against the gradient they are to tell from zero.
    assert np.linalg.norm(errors) < 0.1 * np.linalg.norm(exact)


def test_tempered_matches_its_definition_and_is_biased_as_said():
    with jax.enable_x64(True):
        params, powers = make_params(), power_schedule(NUM_INTERVALS, EXPONENT)
        draws = exact_draws(jax.random.key(1), params, powers, num_draws=NUM_DRAWS)
        gradients = learning_gradients(tempered_loss, params, *draws, powers)
        defined = tempered_definition(params, powers)
        exact = evidence_by_differences(params)
    errors = standard_errors(gradients)
    assert np.all(np.abs(gradients.mean(0) - defined) < 5 * errors)
    num_prior = params.prior.precision.size + params.prior.shift.size
    # The contrast of the prior is the exact gradient; 1e-7 is that of the differences.
    np.testing.assert_allclose(defined[:num_prior], exact[:num_prior], atol=1e-7)
    bias = np.abs(defined - exact)[num_prior:]
    assert np.max(bias / errors[num_prior:]) > 50


@pytest.mark.parametrize("loss_fn", [vanilla_loss, *LADDER_LOSSES])
def test_no_gradient_enters_a_sample(loss_fn):
    """Latents that depend on the parameters give the gradient of the same latents as constants."""
    params, powers = make_params(), power_schedule(2, 1.0)
    offsets = jax.random.normal(jax.random.key(2), (3, 2, 2))
    x = jnp.asarray(OBSERVATIONS, jnp.float32)

    def loss(params, source):
        latents = offsets + jnp.sum(source.prior.shift) + jnp.sum(source.generator.weight)
        if loss_fn is vanilla_loss:
            return loss_fn(params, MODEL, x, latents[-1], latents[0])[0]
        return loss_fn(params, MODEL, x, latents, latents[0], powers)[0]

    frozen = jax.grad(lambda p: loss(p, params))(params)
    attached = jax.grad(lambda p: loss(p, p))(params)
    jax.tree.map(np.testing.assert_array_equal, attached, frozen)


def test_telescoped_rests_on_the_ends_alone():
    """Equal to vanilla at the last power, whatever became of the chains between."""
    params, powers = make_params(), power_schedule(2, 1.0)
    latents = jax.random.normal(jax.random.key(3), (3, 2, 2)).at[1].set(jnp.nan)
    prior, x = latents[0], jnp.asarray(OBSERVATIONS, jnp.float32)
    telescoped = jax.value_and_grad(telescoped_loss, has_aux=True)(
        params, MODEL, x, latents, prior, powers
    )
    vanilla = jax.value_and_grad(vanilla_loss, has_aux=True)(params, MODEL, x, latents[-1], prior)
    assert telescoped[0][0] == vanilla[0][0]
    jax.tree.map(np.testing.assert_array_equal, telescoped[1], vanilla[1])
    np.testing.assert_array_equal(
        np.isnan(telescoped[0][1]["mean_log_likelihoods"]), [False, True, False]
    )


def test_frozen_prior_trains_the_generator_as_tempered_does_and_the_prior_not_at_all():
    """The prior's gradient is zero to the last bit, as in the published code."""
    arguments = (MODEL, X, LATENTS, PRIOR, power_schedule(2, 2.0))
    frozen = jax.grad(lambda p: frozen_prior_loss(p, *arguments)[0])(make_params())
    tempered = jax.grad(lambda p: tempered_loss(p, *arguments)[0])(make_params())
    jax.tree.map(np.testing.assert_array_equal, frozen.generator, tempered.generator)
    jax.tree.map(lambda g: np.testing.assert_array_equal(g, np.zeros_like(g)), frozen.prior)
    assert all(np.all(np.asarray(g) != 0) for g in jax.tree.leaves(tempered))


@pytest.mark.parametrize("loss_fn", [vanilla_loss, *LADDER_LOSSES])
def test_penalty_on_energies_by_hand(loss_fn):
    """It adds its own value and gradient and nothing to the metrics, whatever the loss."""
    params, weight = make_params(), 0.3
    latents = LATENTS[-1] if loss_fn is vanilla_loss else LATENTS
    powers = [] if loss_fn is vanilla_loss else [power_schedule(2, 2.0)]

    def evaluate(energy_l2):
        return jax.value_and_grad(loss_fn, has_aux=True)(
            params, MODEL, X, latents, PRIOR, *powers, energy_l2=energy_l2
        )

    (plain, metrics), gradient = evaluate(0.0)
    (penalised, same_metrics), penalised_gradient = evaluate(weight)
    value, expected = energy_penalty_by_hand(params, LATENTS[-1], PRIOR)
    # The losses are of order 10, the gradients too: 1e-5 is ten times float32's rounding of them.
    np.testing.assert_allclose(penalised - plain, weight * value, atol=1e-5)
    change = jax.tree.map(lambda a, b: a - b, penalised_gradient, gradient)
    np.testing.assert_allclose(change.prior.precision, weight * expected.precision, atol=1e-5)
    np.testing.assert_allclose(change.prior.shift, weight * expected.shift, atol=1e-5)
    jax.tree.map(lambda g: np.testing.assert_array_equal(g, 0 * g), change.generator)
    jax.tree.map(np.testing.assert_array_equal, same_metrics, metrics)
    with pytest.raises(ValueError, match="energy_l2 must be zero or more"):
        evaluate(-1.0)


@pytest.mark.parametrize("loss_fn", LADDER_LOSSES)
def test_metrics_are_the_exact_means(loss_fn):
    """From exact draws, within 5 standard errors of the closed forms, on events of three axes."""
    with jax.enable_x64(True):
        params, powers = make_params(), power_schedule(NUM_INTERVALS, EXPONENT)
        power_latents, prior_latents = exact_draws(
            jax.random.key(4), params, powers, num_draws=NUM_DRAWS
        )
        # Of one, three and one entries: none of the ends counts them all.
        images = jnp.asarray(OBSERVATIONS)[:, None, :, None]
        model = MODEL._replace(generator_fn=lambda p, z: MODEL.generator_fn(p, z)[None, :, None])
        metrics = jax.jit(
            jax.vmap(lambda along, prior: loss_fn(params, model, images, along, prior, powers)[1])
        )(power_latents, prior_latents)
        expected = exact_metrics(params, powers)
    assert metrics.keys() == expected.keys()
    for name, values in metrics.items():
        assert_means(values, expected[name])


@pytest.mark.parametrize("loss_fn", LADDER_LOSSES)
@pytest.mark.parametrize(
    ("latents", "prior", "powers", "message"),
    [
        (LATENTS[:2], PRIOR, LADDER, r"3 powers and 2 observations.*got \(2, 2, 2\)"),
        (LATENTS, PRIOR[:, :1], LADDER, r"prior_latents must have shape \(num_prior, 2\)"),
        (LATENTS, PRIOR, LADDER[::-1], "increase strictly"),
        (LATENTS[1:], PRIOR, LADDER[1:], "run from 0"),
    ],
)
def test_latents_that_do_not_fit_are_refused(loss_fn, latents, prior, powers, message):
    with pytest.raises(ValueError, match=message):
        loss_fn(make_params(), MODEL, jnp.asarray(OBSERVATIONS), latents, prior, powers)
