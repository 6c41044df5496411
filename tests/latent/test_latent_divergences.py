"""Divergences along a ladder: of given Gaussians, and without the bias of fitted ones."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import latent

REPEATS = 4000


def ladder(d, is_diagonal):
    """Three Gaussians, each half as wide as the one before, and none round."""
    rng = np.random.default_rng(d)
    roots = np.tril(rng.normal(size=(3, d, d))) + 2.0 * np.eye(d)
    if is_diagonal:
        roots = roots * np.eye(d)
    return rng.normal(size=(3, d)), roots * np.array([1.0, 0.5, 0.25])[:, None, None]


def draws(mean, root, n, num_repeats):
    """Shape (rungs, repeats, n, d)."""
    rungs, d = mean.shape
    noise = np.random.default_rng(1).normal(size=(rungs, num_repeats, n, d))
    return jnp.asarray(mean[:, None, None] + np.einsum("rij,rknj->rkni", root, noise))


@functools.partial(jax.jit, static_argnames="covariance")
def both_divergences(samples, covariance):
    """Returns the divergences with and without the correction for fitted moments."""
    moments = latent.gaussian_moments(samples, covariance=covariance)
    fitted = latent.fitted_divergences(samples, covariance=covariance)
    return fitted, latent.adjacent_divergences(*moments)


def errors_in_deviations(values, exact):
    """Errors of the means over the repeats, the second axis, in standard errors."""
    values, exact = np.asarray(values), np.asarray(exact)
    return (values.mean(1) - exact) / (values.std(1, ddof=1) / np.sqrt(values.shape[1]))


@pytest.mark.parametrize(
    ("covariance", "d", "n"), [("full", 1, 9), ("full", 3, 12), ("full", 8, 40), ("diagonal", 4, 9)]
)
def test_fitted_divergences_are_unbiased(covariance, d, n):
    """Within 5 standard errors of 4,000 repeats, where the plug-in ones are 10 and more away."""
    mean, root = ladder(d, covariance == "diagonal")
    with jax.enable_x64(True):
        exact = latent.adjacent_divergences(
            jnp.asarray(mean), jnp.asarray(root @ np.swapaxes(root, -1, -2))
        )
        samples = draws(mean, root, n, REPEATS)
        fitted, plugged = both_divergences(samples, covariance)
    for value, biased, truth in zip(fitted, plugged, exact, strict=True):
        assert np.all(np.abs(errors_in_deviations(value, truth)) < 5.0)
        assert np.all(errors_in_deviations(biased, truth) > 10.0)


@pytest.mark.slow
def test_the_evidence_from_fitted_divergences_is_unbiased():
    """The linear-Gaussian model with exact draws: a few of them, at four powers, suffice."""
    d, n, num_repeats = 6, 16, 2000
    rng = np.random.default_rng(3)
    with jax.enable_x64(True):
        model = latent.linear_gaussian_model(likelihood_scale=0.5)
        params = latent.LatentParams(
            prior=latent.QuadraticPrior(
                precision=jnp.diag(jnp.linspace(0.2, 2.0, d)), shift=jnp.asarray(rng.normal(size=d))
            ),
            generator=latent.LinearGenerator(
                weight=jnp.asarray(rng.normal(size=(d, d))), bias=jnp.zeros(d)
            ),
        )
        x = jnp.asarray(rng.normal(size=d))
        powers = latent.power_schedule(3, 3.0)
        exact = latent.linear_gaussian_log_evidence(params, model, x)
        mean, covariance = jax.vmap(
            functools.partial(latent.linear_gaussian_power_posterior, params, model, x)
        )(powers)
        samples = draws(np.asarray(mean), np.linalg.cholesky(covariance), n, num_repeats)
        one = functools.partial(latent.log_likelihood, params, model)
        energies = jax.vmap(jax.vmap(jax.vmap(lambda z: one(z, x))))(samples).mean(axis=2)

        def evidence(divergences):
            forward, backward = divergences
            return latent.log_evidence(energies, powers, kl_forward=forward, kl_backward=backward)

        fitted = evidence(latent.fitted_divergences(samples))
        plugged = evidence(latent.adjacent_divergences(*latent.gaussian_moments(samples)))
        assert abs(errors_in_deviations(fitted[None], exact)[0]) < 5.0
        assert errors_in_deviations(plugged[None], exact)[0] > 10.0


def test_shrunk_covariances_have_no_correction():
    samples = jax.random.normal(jax.random.key(0), (3, 2, 4, 6))
    for fitted, plugged in zip(*both_divergences(samples, "shrunk"), strict=True):
        np.testing.assert_array_equal(fitted, plugged)


@pytest.mark.parametrize(
    ("shape", "covariance", "message"),
    [
        ((2, 7, 5), "full", r"at least 8 draws each in 5 dimensions.*got \(2, 7, 5\)"),
        ((2, 3, 5), "diagonal", "at least 4 draws"),
        ((1, 9, 2), "full", "at least two rungs"),
        ((2, 9, 2), "round", "one of.*'round'"),
        ((9, 2), "full", "at least two rungs"),
    ],
)
def test_too_few_draws_are_refused(shape, covariance, message):
    with pytest.raises(ValueError, match=message):
        latent.fitted_divergences(jnp.zeros(shape), covariance=covariance)


DRAWS = np.random.default_rng(0).normal(size=(3, 2, 12, 4)).astype(np.float32)


def singular(kind):
    """``DRAWS`` with a second rung that no Gaussian has."""
    draws = DRAWS.copy()
    if kind == "coincident":
        draws[1, 1] = draws[1, 1, :1]
    elif kind == "few":
        draws[1, 0, 4:] = draws[1, 0, :1]  # four different points span three dimensions
    elif kind == "dependent":
        draws[1, 1, :, 3] = 1e3 * (draws[1, 1, :, 0] - 2.0 * draws[1, 1, :, 1])
    else:
        draws[1, 1, :, 2] = 5.0
    return jnp.asarray(draws)


@pytest.mark.parametrize(
    ("kind", "covariance"),
    [
        ("coincident", "full"),
        ("coincident", "diagonal"),
        ("coincident", "shrunk"),
        ("few", "full"),
        ("dependent", "full"),
        ("constant", "full"),
        ("constant", "diagonal"),
    ],
)
def test_draws_with_a_singular_covariance_are_refused(kind, covariance):
    with pytest.raises(ValueError, match=f"rung 1 have a singular covariance='{covariance}'"):
        latent.fitted_divergences(singular(kind), covariance=covariance)
    with pytest.raises(ValueError, match="rung 1 "):  # in any units
        latent.fitted_divergences(1e-6 * singular(kind), covariance=covariance)


@pytest.mark.parametrize(
    ("kind", "covariance"), [("few", "diagonal"), ("dependent", "shrunk"), ("constant", "shrunk")]
)
def test_another_covariance_carries_them(kind, covariance):
    for found in latent.fitted_divergences(singular(kind), covariance=covariance):
        assert np.all(np.isfinite(found))


def test_diverged_draws_give_nan_and_compiled_programs_too():
    draws = jnp.asarray(DRAWS).at[1, 1, 3].set(jnp.nan)
    for found in latent.fitted_divergences(draws):
        assert np.isnan(found).tolist() == [[False, True], [False, True]]
    for found in jax.jit(latent.fitted_divergences)(singular("coincident")):
        assert not np.isfinite(found[:, 1]).any()


def test_adjacent_divergences_are_those_of_the_pairs():
    generator = np.random.default_rng(7)
    mean = jnp.asarray(generator.normal(size=(4, 3, 2)), jnp.float32)
    roots = jnp.asarray(generator.normal(size=(4, 3, 2, 5)), jnp.float32)
    covariance = roots @ jnp.swapaxes(roots, -1, -2)
    forward, backward = latent.adjacent_divergences(mean, covariance)
    assert forward.shape == backward.shape == (3, 3)
    # The same arithmetic on the same factors, batched differently: a few roundings apart.
    for i in range(3):
        here, there = (mean[i], covariance[i]), (mean[i + 1], covariance[i + 1])
        np.testing.assert_allclose(forward[i], latent.gaussian_kl(*here, *there), rtol=1e-5)
        np.testing.assert_allclose(backward[i], latent.gaussian_kl(*there, *here), rtol=1e-5)


@pytest.mark.parametrize(
    ("mean_shape", "covariance_shape"), [((1, 2), (1, 2, 2)), ((3, 2), (2, 2, 2)), ((3,), (3, 3))]
)
def test_adjacent_divergences_refuse_other_shapes(mean_shape, covariance_shape):
    with pytest.raises(ValueError, match="adjacent_divergences needs means"):
        latent.adjacent_divergences(jnp.zeros(mean_shape), jnp.ones(covariance_shape))


def test_many_divergences_at_once_come_back():
    """Two batched factorisations at once have blocked each other for ever on two CPU threads."""
    samples = jax.random.normal(jax.random.key(0), (11, 32, 64, 16))
    divergences = jax.jit(latent.fitted_divergences)
    for _ in range(20):
        forward, backward = jax.block_until_ready(divergences(samples))
    assert jnp.all(jnp.isfinite(forward))
    assert jnp.all(jnp.isfinite(backward))
