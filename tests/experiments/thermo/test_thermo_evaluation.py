"""The evaluation of a latent model, where the truth is known in closed form."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
from ml_collections import ConfigDict

from ebmjax import data, latent
from ebmjax.samplers import mala
from ebmjax.training import init_state
from experiments.thermo.evaluation import Programs, ThermoEvaluation
from experiments.thermo.parts import Examples

NUM_IMAGES, NUM_CHAINS = 3, 400
MODEL = latent.linear_gaussian_model(likelihood_scale=0.5)
PARAMS = latent.LatentParams(
    prior=latent.QuadraticPrior(precision=0.5 * jnp.eye(2), shift=jnp.array([0.5, 0.0])),
    generator=latent.LinearGenerator(weight=jnp.array([[1.0, 0.4], [0.0, 0.8]]), bias=jnp.zeros(2)),
)
# "Images" of two pixels, as the linear model makes them.
TEST = np.array([[255, 0], [130, 60], [20, 200]], np.uint8)


def told(ends):
    """Of the ends that distances were asked for, the shape and how many are not finite."""
    return {"shape": ends.shape, "num_lost": np.isnan(ends).any(axis=(1, 2, 3)).sum()}


def evaluation(tmp_path) -> ThermoEvaluation:
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
        distances=SimpleNamespace(along_training=told),  # pyright: ignore
        config=ConfigDict(
            {
                "loss": {"kl_covariance": "full", "kl_weight": 0.0},
                "eval": {"evidence_images": NUM_IMAGES, "evidence_chains": NUM_CHAINS},
            }
        ),
    )


def evidences(tmp_path):
    """Corrected and plain log evidence and discrepancy under 16 independent keys, each (16,)."""
    evidence = evaluation(tmp_path)._evidence
    keys = jax.random.split(jax.random.key(1), 16)
    rows = jax.jit(lambda keys: jax.lax.map(lambda key: evidence(key, PARAMS), keys))(keys)
    names = ("test_log_evidence", "test_trapezium_log_evidence", "quadrature_discrepancy")
    return [rows[name] for name in names]


def test_each_image_has_the_evidence_of_its_own_chains(tmp_path):
    observations = data.to_signed_unit(jnp.asarray(TEST))
    exact = jax.vmap(lambda x: latent.linear_gaussian_log_evidence(MODEL, PARAMS, x))(observations)
    corrected, trapezium, _ = evidences(tmp_path)
    # 5 standard errors of the 16 repeats. A divergence fitted to n draws in d dimensions is too
    # large by about d (d + 3) / 2n; half the difference of two such in each of 2 intervals is at
    # most d (d + 3) / 2n.
    error = 5 * corrected.std(ddof=1) / 4 + 2 * 5 / (2 * NUM_CHAINS)
    assert abs(corrected.mean() - exact.mean()) < error
    # Two intervals are too few for the trapezium rule alone, so the test above means something.
    assert abs(trapezium.mean() - exact.mean()) > 4 * error


def test_the_discrepancy_is_the_whole_correction(tmp_path):
    """Though training gives the correction no weight here, as "through_chain" does."""
    corrected, trapezium, discrepancy = evidences(tmp_path)
    assert np.abs(discrepancy).min() > 0.1
    # Rounding of sums of order 10.
    np.testing.assert_allclose(discrepancy, corrected - trapezium, atol=1e-5)


def test_diverged_samples_are_counted_and_minibatches_hold_no_example_twice(tmp_path):
    one, batches = evaluation(tmp_path), []
    one.config.train = {"batch_size": 3}
    one.config.eval.update({"num_samples": 4, "num_gradients": 8})
    samples = jnp.zeros((4, 2, 1, 1)).at[1, 0].set(jnp.nan)
    one.__dict__["programs"] = Programs(
        sample=lambda *_: samples,
        reconstructions=lambda *_: ({}, jnp.zeros((3, 2))),
        evidence=lambda *_: {},
        gradient=lambda key, params, shards, batch: (batches.append(batch.index.tolist()),),
        gradient_variance=lambda gradients: {},
    )
    row, _ = one._measure_one(jax.random.key(0), PARAMS)
    assert row["num_diverged_samples"] == 1
    # Distances are of the samples that are drawn anyway; what to leave out is theirs to know.
    assert (row["shape"], row["num_lost"]) == ((4, 2, 1, 1), 1)
    assert [sorted(batch) for batch in batches] == [[0, 1, 2]] * 8


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
