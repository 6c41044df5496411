"""The log evidence by every method of an evaluation, where it is known in closed form."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import digits
from test_thermo_monitor import MODEL, PARAMS, TEST

from ebmjax import data, latent
from ebmjax.recipes.latent import evidence as thermo_evidence
from ebmjax.recipes.latent.checks import EVIDENCE_EXPONENT

SIZES = {
    "model.latent_dim": 2,
    "eval.evidence_images": 2,
    "eval.evidence_chains": 400,
    "eval.evidence_intervals": 8,
    "eval.evidence_steps": 20,
    "eval.evidence_step_size": 0.15,
}
OBSERVATIONS = data.to_signed_unit(jnp.asarray(TEST[:2]))
# The second repeat's model is another.
REPEATS = [PARAMS, PARAMS._replace(prior=PARAMS.prior._replace(shift=jnp.array([-0.5, 0.3])))]


@pytest.fixture(scope="module")
def compared():
    methods = tuple(thermo_evidence.METHODS)
    keys = list(jax.random.split(jax.random.key(0), len(REPEATS)))
    config = digits(**SIZES, **{"eval.evidence_methods": methods})
    return thermo_evidence.compare(keys, REPEATS, MODEL, TEST, config)


# Each method alone, in default runs: tests/latent.
@pytest.mark.slow
def test_all_methods_are_offered(compared):
    assert compared.keys() == {"thermodynamic", "stepping_stone", "ais", "smc"}


@pytest.mark.slow
@pytest.mark.parametrize("method", thermo_evidence.METHODS)
def test_a_method_finds_the_evidence_of_every_repeat_and_image(method, compared):
    exact = np.array(
        [
            [latent.linear_gaussian_log_evidence(one, MODEL, x) for x in OBSERVATIONS]
            for one in REPEATS
        ]
    )
    found = compared[method]
    assert found["log_evidence"].shape == found["standard_error"].shape == (2, 2)
    # Two images and two models, nats apart: none can stand for another.
    assert np.ptp(exact, axis=0).min() > 0.2 < np.ptp(exact, axis=1).min()
    assert np.all(found["standard_error"] < 0.1)
    assert np.all(np.abs(found["log_evidence"] - exact) < 5 * found["standard_error"])
    np.testing.assert_allclose(found["mean"], found["log_evidence"].mean(axis=1), rtol=1e-6)


def test_a_sum_with_divergences_knows_its_error():
    """Exact draws, four for each dimension: the error covers the spread of 300 repeats.

    That spread is known to 1 / sqrt(2 * 299), 4 % of it: 5 of those below. The jackknife may err
    upwards, because fewer chains fit worse, but not twofold.
    """
    d, num_chains, powers = 6, 24, latent.power_schedule(4, 3.0)
    weight = jnp.asarray(np.random.default_rng(3).normal(size=(8, d)), jnp.float32)
    prior = latent.QuadraticPrior(jnp.zeros((d, d)), jnp.zeros(d))
    params = latent.LatentParams(prior, latent.LinearGenerator(weight, jnp.zeros(8)))
    x = jnp.linspace(-1.0, 1.0, 8)

    @jax.jit
    def repeats(keys):
        of_power = functools.partial(latent.linear_gaussian_power_posterior, params, MODEL, x)
        mean, covariance = jax.vmap(of_power)(powers)
        factor = jnp.linalg.cholesky(covariance)
        log_likelihood = jax.vmap(jax.vmap(lambda z: latent.log_likelihood(params, MODEL, z, x)))

        def one(key):
            noise = jax.random.normal(key, (len(powers), num_chains, d))
            nodes = mean[:, None] + jnp.einsum("pij,pnj->pni", factor, noise)
            values = log_likelihood(nodes)
            trapezium = latent.thermodynamic_log_evidence(values, powers)
            return thermo_evidence.with_divergences(nodes, values, powers), trapezium

        return jax.lax.map(one, keys)

    found, trapezium = repeats(jax.random.split(jax.random.key(0), 300))
    exact = latent.linear_gaussian_log_evidence(params, MODEL, x)
    spread = found.value.std(ddof=1)
    assert abs(found.value.mean() - exact) < 5 * spread / 300**0.5
    typical, of_trapezium = (
        jnp.sqrt(jnp.mean(one.standard_error**2)) for one in (found, trapezium)
    )
    assert 0.8 * spread < typical < 2.0 * spread
    assert of_trapezium < 0.8 * spread


def test_methods_have_random_numbers_of_their_own(monkeypatch):
    """So that where they agree it is no coincidence of their noise."""

    def method(key, params, model, observations, config):
        del params, model, config
        return latent.Estimate(jax.random.normal(key, (len(observations),)), jnp.zeros(()))

    monkeypatch.setattr(thermo_evidence, "METHODS", {"one": method, "other": method})
    config = digits(**SIZES, **{"eval.evidence_methods": ("one", "other")})
    found = thermo_evidence.compare([jax.random.key(0)], [PARAMS], MODEL, TEST, config)
    assert len(np.unique([found[name]["log_evidence"] for name in ("one", "other")])) == 4


@pytest.mark.parametrize(
    ("has_divergences", "name"), [(True, "thermodynamic"), (False, "trapezium")]
)
def test_the_thermodynamic_sum_is_named_after_what_it_holds(has_divergences, name, monkeypatch):
    found = []

    def fitted(nodes):
        found.append(nodes.shape)
        return jnp.zeros(len(nodes) - 1), jnp.zeros(len(nodes) - 1)

    monkeypatch.setattr(latent, "fitted_divergences", fitted)
    fields = {"eval.evidence_methods": ("thermodynamic",), "eval.evidence_steps": 1}
    fields |= {"eval.evidence_divergences": has_divergences, "eval.evidence_chains": 16}
    config = digits(**SIZES | fields)
    report = thermo_evidence.compare([jax.random.key(0)], [PARAMS], MODEL, TEST, config)
    assert list(report) == [name]
    assert ((9, 16, 2) in found) == has_divergences


def test_the_ladder_is_the_evaluations_own(monkeypatch):
    """The prior's chains, which pass no rung on the way, are as long as those that anneal."""
    asked = record(monkeypatch, "sample_ladder")
    call("stepping_stone", steps=2, chains=4)
    intervals = SIZES["eval.evidence_intervals"]
    (*_, observations, powers, _), options = asked["sample_ladder"]
    assert (options["prior_steps"], options["posterior_steps"]) == (2 * intervals, 2)
    assert options["warm_start"]
    expected = latent.power_schedule(intervals, EVIDENCE_EXPONENT)
    np.testing.assert_array_equal(powers, expected)
    assert observations.shape == (4, *OBSERVATIONS.shape[1:])  # one image at a time


def test_smc_deals_the_chains_out_to_its_populations(monkeypatch):
    asked = record(monkeypatch, "smc_log_normalizer")
    call("smc", steps=1, chains=32)
    (_, start, powers, *_), options = asked["smc_log_normalizer"]
    assert start.shape == (thermo_evidence.SMC_REPEATS, 32 // thermo_evidence.SMC_REPEATS, 2)
    assert (len(powers), options["num_steps"]) == (SIZES["eval.evidence_intervals"] + 1, 1)


def record(monkeypatch, *names):
    """Arguments of the last call of functions of ``latent``, by name."""
    asked = {}

    def recorded(name, function):
        def call(*arguments, **options):
            asked[name] = (arguments, options)
            return function(*arguments, **options)

        return call

    for name in names:
        monkeypatch.setattr(latent, name, recorded(name, getattr(latent, name)))
    return asked


def call(method, steps, chains):
    """Outside of ``jit``, so that arguments can be looked at."""
    config = digits(**{**SIZES, "eval.evidence_steps": steps, "eval.evidence_chains": chains})
    thermo_evidence.METHODS[method](jax.random.key(0), PARAMS, MODEL, OBSERVATIONS, config)
