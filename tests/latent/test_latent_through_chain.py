"""The pathwise gradient against differences of the same program and the chains' own law."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from latent_problems import (
    MODEL,
    OBSERVATIONS,
    assert_means,
    by_differences,
    chain_laws,
    divergence,
    evidence_by_differences,
    exact_energy,
    make_params,
    mean_log_likelihoods,
    standard_errors,
)

from ebmjax import latent
from ebmjax.samplers import mala, sgld

X = jnp.asarray(OBSERVATIONS, jnp.float32)
ULA = latent.LatentChains(
    2, functools.partial(sgld, step_size=0.2), 3, functools.partial(sgld, step_size=0.1), 4
)
MALA = latent.LatentChains(
    2, functools.partial(mala, step_size=0.6), 3, functools.partial(mala, step_size=0.3), 4
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chains", "options"),
    [
        pytest.param(ULA, {}, marks=pytest.mark.slow),
        (ULA._replace(warm_start=True), {"num_chains": 4, "kl_weight": 0.7}),
        (MALA, {"num_chains": 5, "kl_weight": 1.0, "kl_covariance": "full"}),
    ],
)
def test_gradient_is_the_derivative_of_the_very_program(chains, options):
    """Differences with the key held; both are of order 1e-9, and the gradient of order 10."""
    with jax.enable_x64(True):
        params, powers = make_params(), latent.power_schedule(2, 2.0)

        def loss(params):
            observations = jnp.asarray(OBSERVATIONS)
            return latent.through_chain_loss(
                jax.random.key(0), params, MODEL, observations, powers, chains, **options
            )[0]

        gradient = ravel_pytree(jax.jit(jax.grad(loss))(params))[0]
        differences = by_differences(loss, params)
    np.testing.assert_allclose(gradient, differences, atol=1e-7 * np.linalg.norm(differences))


def expected_loss(params, powers, steps, kl_weight, kind):
    """The loss's expectation under the chains' own law, in numpy: fits add no bias."""
    mean, covariance = chain_laws(params, powers, steps)
    along = mean_log_likelihoods(params, mean, covariance)
    total = np.trapezoid(along, np.asarray(powers), axis=0)
    for i in range(len(powers) - 1):
        for j in range(2):
            p, q = ((mean[k, j], covariance[k, j]) for k in (i, i + 1))
            forward, backward = (divergence(*o, kind) for o in ((p, q), (q, p)))
            total[j] += kl_weight * 0.5 * (forward - backward)
    return -np.mean(total)


def expected_gradient(params, *arguments):
    """Central differences of the above: of order 1e-10, as in ``by_differences``."""
    flat, unravel = ravel_pytree(params)
    flat = np.asarray(flat, np.float64)
    return np.array(
        [
            np.subtract(
                *(expected_loss(unravel(flat + sign * step), *arguments) for sign in (1, -1))
            )
            / 2e-5
            for step in 1e-5 * np.eye(flat.size)
        ]
    )


def replicas(params, powers, num_draws, chains, **options):
    """Loss, metrics and gradient (num_draws, num_params) of independent keys."""

    def one(key):
        (loss, metrics), gradient = jax.value_and_grad(
            lambda p: latent.through_chain_loss(
                key, p, MODEL, jnp.asarray(OBSERVATIONS), powers, chains, **options
            ),
            has_aux=True,
        )(params)
        return loss, metrics, ravel_pytree(gradient)[0]

    return jax.tree.map(
        np.asarray, jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), num_draws))
    )


# The one with divergences by default; each compiles for ten seconds and more.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kl_weight", "kind"),
    [
        (0.7, "full"),
        pytest.param(0.0, "full", marks=pytest.mark.slow),
        pytest.param(2.0, "diagonal", marks=pytest.mark.slow),
    ],
)
def test_unbiased_for_the_law_of_short_chains(kl_weight, kind):
    """Loss, gradient and metrics within 5 standard errors of closed forms after 3 and 4 steps."""
    num_chains, steps = 9, [(0.2, 3), (0.1, 4)]
    with jax.enable_x64(True):
        params, powers = make_params(), latent.power_schedule(2, 2.0)
        options = {"num_chains": num_chains, "kl_weight": kl_weight, "kl_covariance": kind}
        loss, metrics, gradients = replicas(params, powers, 1000, ULA, **options)
        arguments = (powers, steps, kl_weight, kind)
        expected, value = expected_gradient(params, *arguments), expected_loss(params, *arguments)
        mean, covariance = chain_laws(params, powers, steps)
    assert_means(gradients, expected)
    assert_means(loss, value)
    assert np.linalg.norm(standard_errors(gradients)) < 0.1 * np.linalg.norm(expected)
    along = mean_log_likelihoods(params, mean, covariance).mean(1)
    assert_means(metrics["mean_log_likelihoods"], along)
    scale = MODEL.likelihood_scale
    squares = -2 * scale**2 * (along[-1] + 1.5 * np.log(2 * np.pi * scale**2))
    assert_means(metrics["reconstruction_error"], squares / 3)
    for name, i in (("prior_energy", 0), ("posterior_energy", -1)):
        energies = [exact_energy(params, mean[i, j], covariance[i, j]) for j in (0, 1)]
        assert_means(metrics[name], np.mean(energies))


@pytest.mark.slow
def test_long_chains_and_divergences_give_the_gradient_of_the_evidence():
    """Within 5 standard errors and what closed forms leave, the bias of the step."""
    num_chains, steps = 100, [(0.1, 60), (0.02, 200)]
    with jax.enable_x64(True):
        params, powers = make_params(), latent.power_schedule(2, 2.0)
        _, _, gradients = replicas(
            params, powers, 40,
            latent.LatentChains(
                2,
                functools.partial(sgld, step_size=0.1), 60,
                functools.partial(sgld, step_size=0.02), 200,
            ),
            num_chains=num_chains, kl_weight=1.0, kl_covariance="full",
        )  # fmt: skip
        exact = -evidence_by_differences(params)
        corrected = expected_gradient(params, powers, steps, 1.0, "full")
        trapezium = expected_gradient(params, powers, steps, 0.0, "full")
    bias = np.linalg.norm(corrected - exact)
    assert_means(gradients, exact, np.abs(corrected - exact))
    assert bias < 0.1 * np.linalg.norm(exact)
    # Two intervals are few: without the divergences the same chains are far off.
    assert np.linalg.norm(trapezium - exact) > 5 * bias


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_chains": 0}, "num_chains must be an integer of at least 1"),
        ({"kl_weight": 1.0}, "num_chains must be an integer of at least 2"),
        ({"kl_weight": 1.0, "num_chains": 4, "kl_covariance": "full"}, "at least 5 draws each"),
    ],
)
def test_bad_input_is_refused(changes, message):
    options = {"powers": latent.power_schedule(1, 1.0), "chains": ULA, **changes}
    call = functools.partial(latent.through_chain_loss, model=MODEL, **options)
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(
            lambda key: call(key, params=make_params(), observations=X), jax.random.key(0)
        )
