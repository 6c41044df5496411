"""The log evidence by every method, where it is known in closed form."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import data, evaluate, evidence, latent
from ebmjax.evaluate import _evidence

MODEL = latent.LinearGaussian(likelihood_scale=0.5)
PARAMS = MODEL.params(
    0.5 * jnp.eye(2), jnp.array([0.5, 0.0]), jnp.array([[1.0, 0.4], [0.0, 0.8]]), jnp.zeros(2)
)
# "Images" of two pixels, as the linear model makes them.
TEST = np.array([[255, 0], [130, 60]], np.uint8)
SIZES = {"latent_dim": 2, "num_chains": 400, "num_intervals": 8, "num_steps": 20, "step_size": 0.15}
OBSERVATIONS = data.to_signed_unit(jnp.asarray(TEST))


def found_by(method, params=PARAMS, **settings):
    options = SIZES | settings
    return evaluate.evidence(jax.random.key(0), params, MODEL, TEST, methods=(method,), **options)


# Each method alone, in default runs: tests/latent.
@pytest.mark.slow
@pytest.mark.parametrize("method", _evidence.METHODS)
def test_a_method_finds_the_evidence_of_every_image(method):
    (found,) = found_by(method).values()
    exact = [MODEL.log_evidence(PARAMS, x) for x in OBSERVATIONS]
    assert abs(exact[0] - exact[1]) > 0.2  # nats apart: neither can stand for the other
    assert found["log_evidence"].shape == found["standard_error"].shape == (2,)
    assert np.all(found["standard_error"] < 0.1)
    assert np.all(np.abs(found["log_evidence"] - np.array(exact)) < 5 * found["standard_error"])
    np.testing.assert_allclose(found["mean"], found["log_evidence"].mean(), rtol=1e-6)


def test_a_sum_with_divergences_knows_its_error():
    """Exact draws, four for each dimension: the error covers the spread of 300 repeats.

    That spread is known to 1 / sqrt(2 * 299), 4 % of it: 5 of those below. The jackknife may err
    upwards, because fewer chains fit worse, but not twofold.
    """
    d, num_chains, powers = 6, 24, latent.power_schedule(4, 3.0)
    weight = jnp.asarray(np.random.default_rng(3).normal(size=(8, d)), jnp.float32)
    params = MODEL.params(jnp.zeros((d, d)), jnp.zeros(d), weight, jnp.zeros(8))
    x = jnp.linspace(-1.0, 1.0, 8)

    @jax.jit
    def repeats(keys):
        of_power = functools.partial(MODEL.power_posterior, params, x)
        mean, covariance = jax.vmap(of_power)(powers)
        factor = jnp.linalg.cholesky(covariance)
        log_likelihood = jax.vmap(jax.vmap(lambda z: latent.log_likelihood(params, MODEL, z, x)))

        def one(key):
            noise = jax.random.normal(key, (len(powers), num_chains, d))
            nodes = mean[:, None] + jnp.einsum("pij,pnj->pni", factor, noise)
            values = log_likelihood(nodes)
            trapezium = evidence.thermodynamic_log_evidence(values, powers)
            return _evidence.with_divergences(nodes, values, powers), trapezium

        return jax.lax.map(one, keys)

    found, trapezium = repeats(jax.random.split(jax.random.key(0), 300))
    exact = MODEL.log_evidence(params, x)
    spread = found.value.std(ddof=1)
    assert abs(found.value.mean() - exact) < 5 * spread / 300**0.5
    typical, of_trapezium = (
        jnp.sqrt(jnp.mean(one.standard_error**2)) for one in (found, trapezium)
    )
    assert 0.8 * spread < typical < 2.0 * spread
    assert of_trapezium < 0.8 * spread


def test_methods_have_random_numbers_of_their_own(monkeypatch):
    """So that where they agree it is no coincidence of their noise."""

    def method(key, problem):
        del key, problem
        return lambda key, image: evidence.Estimate(jax.random.normal(key), jnp.zeros(()))

    monkeypatch.setattr(_evidence, "METHODS", {"one": method, "other": method})
    found = evaluate.evidence(
        jax.random.key(0), PARAMS, MODEL, TEST, methods=("one", "other"), **SIZES
    )
    assert len(np.unique([found[name]["log_evidence"] for name in ("one", "other")])) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"methods": ("ais", "exact")}, r"methods must be of .*, got \['exact'\]"),
        ({"num_chains": 8}, "num_chains must be at least 16 .* got 8"),
        ({"methods": ("smc",), "num_chains": 20}, "a multiple of 8, got 20"),
        ({"num_steps": 0}, "num_steps must be an integer of at least 1"),
    ],
)
def test_settings_that_no_method_can_use_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        evaluate.evidence(jax.random.key(0), PARAMS, MODEL, TEST, **SIZES | settings)
