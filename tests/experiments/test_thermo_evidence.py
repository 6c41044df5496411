"""The log evidence by every method of an evaluation, where it is known in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import digits
from test_thermo_evaluation import MODEL, PARAMS, TEST

from ebmjax import data, latent
from experiments import thermo_evidence

SIZES = {
    "model.latent_dim": 2,
    "eval.evidence_images": 2,
    "eval.evidence_chains": 400,
    "eval.evidence_intervals": 8,
    "eval.evidence_exponent": 3.0,
    "eval.evidence_steps": 20,
    "eval.evidence_step_size": 0.15,
}
# The second repeat's model is another.
REPEATS = [PARAMS, PARAMS._replace(prior=PARAMS.prior._replace(shift=jnp.array([-0.5, 0.3])))]


@pytest.fixture(scope="module")
def compared():
    methods = tuple(thermo_evidence.METHODS)
    keys = list(jax.random.split(jax.random.key(0), len(REPEATS)))
    config = digits(**SIZES, **{"eval.evidence_methods": methods})
    return thermo_evidence.compare(keys, MODEL, REPEATS, TEST, config)


# Each method alone, in default runs: tests/latent.
@pytest.mark.slow
def test_all_methods_are_offered(compared):
    assert compared.keys() == {"thermodynamic", "stepping_stone", "ais", "smc"}


@pytest.mark.slow
@pytest.mark.parametrize("method", thermo_evidence.METHODS)
def test_a_method_finds_the_evidence_of_every_repeat_and_image(method, compared):
    observations = data.to_signed_unit(jnp.asarray(TEST[:2]))
    exact = np.array(
        [
            [latent.linear_gaussian_log_evidence(MODEL, one, x) for x in observations]
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


def test_methods_have_random_numbers_of_their_own(monkeypatch):
    """So that where they agree it is no coincidence of their noise."""

    def method(model, config, key, params, observations):
        del model, config, params
        return latent.Estimate(jax.random.normal(key, (len(observations),)), jnp.zeros(()))

    monkeypatch.setattr(thermo_evidence, "METHODS", {"one": method, "other": method})
    config = digits(**SIZES, **{"eval.evidence_methods": ("one", "other")})
    found = thermo_evidence.compare([jax.random.key(0)], MODEL, [PARAMS], TEST, config)
    assert len(np.unique([found[name]["log_evidence"] for name in ("one", "other")])) == 4


def test_the_priors_chains_are_as_long_as_those_that_anneal(monkeypatch):
    """They start from the base Gaussian and pass no rung on the way."""
    asked = {}
    sample_prior = latent.sample_prior

    def record(*arguments, num_steps, **options):
        asked["prior"] = num_steps
        return sample_prior(*arguments, num_steps=num_steps, **options)

    monkeypatch.setattr(latent, "sample_prior", record)
    sizes = {**SIZES, "eval.evidence_steps": 2, "eval.evidence_chains": 4}
    config = digits(**sizes, **{"eval.evidence_methods": ("stepping_stone",)})
    thermo_evidence.compare([jax.random.key(0)], MODEL, [PARAMS], TEST, config)
    assert asked == {"prior": 2 * sizes["eval.evidence_intervals"]}
