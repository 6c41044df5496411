"""The evaluation of a latent model, where the truth is known in closed form."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from ml_collections import ConfigDict

from ebmjax import data, latent
from ebmjax.samplers import mala
from ebmjax.training import init_state
from experiments.thermo_evaluation import ThermoEvaluation
from experiments.thermo_parts import Examples

NUM_IMAGES, NUM_CHAINS = 3, 400
MODEL = latent.linear_gaussian_model(likelihood_scale=0.5)
PARAMS = latent.LatentParams(
    prior=latent.QuadraticPrior(precision=0.5 * jnp.eye(2), shift=jnp.array([0.5, 0.0])),
    generator=latent.LinearGenerator(weight=jnp.array([[1.0, 0.4], [0.0, 0.8]]), bias=jnp.zeros(2)),
)
# "Images" of two pixels, as the linear model makes them.
TEST = np.array([[255, 0], [130, 60], [20, 200]], np.uint8)


def evaluation(tmp_path, **loss) -> ThermoEvaluation:
    sampler = partial(mala, step_size=0.15)
    return ThermoEvaluation(
        workdir=tmp_path,
        model=MODEL,
        chains={
            "latent_dim": 2,
            "prior_sampler": sampler,
            "prior_steps": 40,
            "posterior_sampler": sampler,
            "posterior_steps": 40,
            "warm_start": False,
        },
        powers=latent.power_schedule(2, 3.0),
        gradient_fn=lambda *_: None,
        train=Examples(data.ImageData(TEST, np.zeros(3, np.int32)), jnp.arange(3)),
        test=TEST,
        config=ConfigDict(
            {
                "loss": {"kl_covariance": "full", "kl_weight": 1.0, **loss},
                "eval": {"evidence_images": NUM_IMAGES, "evidence_chains": NUM_CHAINS},
            }
        ),
    )


def evidences(tmp_path, **loss):
    """Corrected and plain log evidence under 16 independent keys, each (16,)."""
    evidence = evaluation(tmp_path, **loss)._evidence
    keys = jax.random.split(jax.random.key(1), 16)
    rows = jax.jit(lambda keys: jax.lax.map(lambda key: evidence(key, PARAMS), keys))(keys)
    return rows["test_log_evidence"], rows["test_trapezium_log_evidence"]


def test_each_image_has_the_evidence_of_its_own_chains(tmp_path):
    observations = data.to_signed_unit(jnp.asarray(TEST))
    exact = jax.vmap(lambda x: latent.linear_gaussian_log_evidence(MODEL, PARAMS, x))(observations)
    corrected, trapezium = evidences(tmp_path)
    # 5 standard errors of the 16 repeats. A divergence fitted to n draws in d dimensions is too
    # large by about d (d + 3) / 2n; half the difference of two such in each of 2 intervals is at
    # most d (d + 3) / 2n.
    error = 5 * corrected.std(ddof=1) / 4 + 2 * 5 / (2 * NUM_CHAINS)
    assert abs(corrected.mean() - exact.mean()) < error
    # Two intervals are too few for the trapezium rule alone, so the test above means something.
    assert abs(trapezium.mean() - exact.mean()) > 4 * error


def test_the_weight_multiplies_the_correction(tmp_path):
    once, plain = evidences(tmp_path)
    twice, _ = evidences(tmp_path, kl_weight=2.0)
    np.testing.assert_allclose(twice - plain, 2 * (once - plain), rtol=1e-4, atol=1e-4)


def test_the_same_parameters_are_measured_once(tmp_path, monkeypatch):
    measured = []

    def measure_one(self, key, params):
        measured.append(params)
        return {"bias": params.generator.bias[0]}, {"samples": np.zeros(1)}

    monkeypatch.setattr(ThermoEvaluation, "_measure_one", measure_one)
    one = evaluation(tmp_path)
    one.config.seed, one.config.train = 0, {}
    first = init_state(PARAMS, optax.sgd(0.1))
    second = first._replace(params=jax.tree.map(lambda leaf: leaf + 1.0, PARAMS))
    for state, total in ((first, 1), (jax.device_get(first), 1), (second, 2), (first, 3)):
        row, pictures = one.measure(state)
        assert len(measured) == total
        assert row.pop("bias") == state.params.generator.bias[0]
        assert pictures["samples"].shape == (1,)
