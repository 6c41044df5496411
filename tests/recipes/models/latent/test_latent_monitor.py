"""Numbers during the training of a latent model, where the truth is known in closed form."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from ml_collections import ConfigDict

from ebmjax import data, latent
from ebmjax.recipes.models.latent.monitor import PARTS, LatentMonitor, PriorSamples, Programs
from ebmjax.recipes.models.latent.parts import Examples
from ebmjax.samplers import mala
from ebmjax.training import init_state
from experiments.configs import thermo_celeba

NUM_IMAGES, NUM_CHAINS = 3, 400
MODEL = latent.linear_gaussian_model(likelihood_scale=0.5)
PARAMS = latent.LatentParams(
    prior=latent.QuadraticPrior(precision=0.5 * jnp.eye(2), shift=jnp.array([0.5, 0.0])),
    generator=latent.LinearGenerator(weight=jnp.array([[1.0, 0.4], [0.0, 0.8]]), bias=jnp.zeros(2)),
)
# "Images" of two pixels, as the linear model makes them.
TEST = np.array([[255, 0], [130, 60], [20, 200]], np.uint8)


def told(chains):
    """Returns the shapes of what is given to distances, and how many ends are not finite."""
    num_lost = np.isnan(chains.ends).any(axis=(1, 2, 3)).sum()
    shapes = {"sample_shape": chains.ends.shape, "start_shape": chains.starts.shape}
    return {**shapes, "sample_num_lost": num_lost}


def monitor(tmp_path) -> LatentMonitor:
    sampler = partial(mala, step_size=0.15)
    return LatentMonitor(
        workdir=tmp_path,
        model=MODEL,
        chains=latent.LatentChains(2, sampler, 40, sampler, 40),
        powers=latent.power_schedule(2, 3.0),
        gradient_fn=lambda *_: None,
        train=Examples(data.ImageData(TEST, np.zeros(3, np.int32)), jnp.arange(3)),
        test=TEST,
        distances=SimpleNamespace(along_training=told),  # pyright: ignore
        interval=1,
        config=ConfigDict(
            {
                "loss": {"kl_covariance": "shrunk", "kl_weight": 0.0},
                "eval": {
                    "reconstruction": {"every": 1},
                    "evidence": {
                        "every": 1,
                        "num_images": NUM_IMAGES,
                        "num_chains": NUM_CHAINS,
                        "divergences": True,
                    },
                    "gradient_variance": {"every": 1, "num_gradients": 8},
                    "samples": {"every": 1, "num_images": 4},
                    "batch_size": 3,
                },
            }
        ),
    )


def evidences(tmp_path):
    """Corrected and plain log evidence and discrepancy under 16 independent keys, each (16,)."""
    evidence = monitor(tmp_path)._evidence
    keys = jax.random.split(jax.random.key(1), 16)
    rows = jax.jit(lambda keys: jax.lax.map(lambda key: evidence(key, PARAMS), keys))(keys)
    names = ("test_log_evidence", "test_trapezium_log_evidence", "quadrature_discrepancy")
    return [rows[name] for name in names]


def test_each_image_has_the_evidence_of_its_own_chains(tmp_path):
    observations = data.to_signed_unit(jnp.asarray(TEST))
    exact = jax.vmap(lambda x: latent.linear_gaussian_log_evidence(PARAMS, MODEL, x))(observations)
    corrected, trapezium, _ = evidences(tmp_path)
    # 5 standard errors of the 16 repeats. A divergence fitted to n draws in d dimensions is too
    # large by about d (d + 3) / 2n; half the difference of two such in each of 2 intervals is at
    # most d (d + 3) / 2n.
    error = 5 * corrected.std(ddof=1) / 4 + 2 * 5 / (2 * NUM_CHAINS)
    assert abs(corrected.mean() - exact.mean()) < error
    # Two intervals are too few for the trapezium rule alone, so the test above means something.
    assert abs(trapezium.mean() - exact.mean()) > 4 * error


def test_the_discrepancy_is_the_whole_correction(tmp_path):
    """Though training gives the correction no weight here, and shrinks its covariances."""
    corrected, trapezium, discrepancy = evidences(tmp_path)
    assert np.abs(discrepancy).min() > 0.1
    # Rounding of sums of order 10.
    np.testing.assert_allclose(discrepancy, corrected - trapezium, atol=1e-5)


class ExactDraws(LatentMonitor):
    """Draws independently from the power posteriors, as if every chain had arrived."""

    def _ladder(self, key, params, observations):
        moments = partial(latent.linear_gaussian_power_posterior, params, self.model)
        mean, covariance = jax.vmap(partial(moments, observations[0]))(self.powers)
        shape = (len(self.powers), len(observations), mean.shape[1])
        factor = jnp.linalg.cholesky(covariance)
        return mean[:, None] + jnp.einsum(
            "pij,pnj->pni", factor, jax.random.normal(key, shape), precision="highest"
        )


@pytest.mark.slow
def test_the_reported_evidence_is_right_at_published_size(tmp_path):
    """Settings of thermo_celeba: 80 latents, and chains enough to fit their covariances."""
    config = thermo_celeba.get_config()
    config.eval.evidence.num_images = 1
    d, num_outputs = config.model.latent_dim, 192
    rng = np.random.default_rng(0)
    weight = jnp.asarray(1.5 * np.linalg.qr(rng.normal(size=(num_outputs, d)))[0], jnp.float32)
    params = latent.LatentParams(
        latent.QuadraticPrior(jnp.zeros((d, d)), jnp.zeros(d)),
        latent.LinearGenerator(weight, jnp.zeros(num_outputs)),
    )
    one = replace(
        ExactDraws(**vars(monitor(tmp_path))),
        model=latent.linear_gaussian_model(likelihood_scale=config.model.likelihood_scale),
        powers=latent.power_schedule(config.loss.num_intervals, config.loss.exponent),
        test=rng.integers(0, 256, (1, num_outputs), np.uint8),
        config=config,
    )
    keys = jax.random.split(jax.random.key(0), 24)
    rows = jax.jit(partial(jax.lax.map, lambda key: one._evidence(key, params)))(keys)
    x = data.to_signed_unit(jnp.asarray(one.test[0]))
    terms = jax.jit(latent.linear_gaussian_terms, static_argnums=1)(
        params, one.model, x, one.powers
    )
    exact = {
        "test_log_evidence": latent.linear_gaussian_log_evidence(params, one.model, x),
        "quadrature_discrepancy": jnp.sum(terms.kl_forward - terms.kl_backward) / 2,
    }
    assert exact["quadrature_discrepancy"] > 5.0  # a correction of nats, so it has to be right
    for name, value in exact.items():
        error = rows[name].std(ddof=1) / len(keys) ** 0.5
        assert error < 0.4
        assert abs(rows[name].mean() - value) < 5 * error, name


def test_without_divergences_the_trapezium_rule_alone_is_reported(tmp_path):
    one = monitor(tmp_path)
    one.config.eval.evidence.divergences = False
    row = jax.eval_shape(one._evidence, jax.random.key(0), PARAMS)
    assert row.keys() == {"test_trapezium_log_evidence"}


def test_diverged_samples_are_counted_and_minibatches_hold_no_example_twice(tmp_path):
    one, batches = monitor(tmp_path), []
    one.config.train = {"batch_size": 3}
    samples = jnp.zeros((4, 2, 1, 1)).at[1, 0].set(jnp.nan)
    latents = jnp.full((4, 3), 2.0).at[1].set(100.0)
    one.__dict__["programs"] = Programs(
        sample=lambda *_: PriorSamples(samples, samples[:2], latents, jnp.zeros((4, 3))),
        reconstructions=lambda *_: ({}, jnp.zeros((3, 2))),
        evidence=lambda *_: {},
        gradient=lambda key, params, shards, batch: (batches.append(batch.index.tolist()),),
        gradient_variance=lambda gradients: {},
    )
    row, _ = one._measure_one(jax.random.key(0), PARAMS, PARTS)
    assert row["num_diverged_samples"] == 1
    # Distances are of the samples that are drawn anyway; what to leave out is theirs to know.
    assert (row["sample_shape"], row["sample_num_lost"]) == ((4, 2, 1, 1), 1)
    assert row["start_shape"] == (2, 2, 1, 1)
    assert row["sample_rms_displacement"] == 2.0  # without the chain that is lost
    assert [sorted(batch) for batch in batches] == [[0, 1, 2]] * 8


def test_samples_stand_beside_the_images_of_their_chains_starts(tmp_path):
    one, key = monitor(tmp_path), jax.random.key(3)
    found = one._sample(key, PARAMS, 5)
    # The chains are those that start afresh by this key: where they start, nothing else changes.
    np.testing.assert_array_equal(found.latents, one._prior(key, PARAMS, 5))
    nowhere = one.chains._replace(prior_steps=1, prior_sampler=partial(mala, step_size=1e-30))
    unmoved = replace(one, chains=nowhere)._prior(key, PARAMS, 5)
    np.testing.assert_allclose(found.start_latents, unmoved, atol=1e-12)
    weight, bias = map(np.asarray, PARAMS.generator)
    for latents, images in (
        (found.latents, found.images),
        (found.start_latents, found.start_images),
    ):
        np.testing.assert_allclose(
            images, np.asarray(latents) @ weight.T + bias, rtol=1e-5, atol=1e-6
        )


def test_the_same_parameters_are_measured_once(tmp_path, monkeypatch):
    measured = []

    def measure_one(self, key, params, names):
        measured.append(params)
        return {"bias": params.generator.bias[0]}, {"samples": np.zeros(1)}

    monkeypatch.setattr(LatentMonitor, "_measure_one", measure_one)
    one = monitor(tmp_path)
    one.config.seed, one.config.train = 0, {}
    first = init_state(PARAMS, optax.sgd(0.1))
    second = first._replace(params=jax.tree.map(lambda leaf: leaf + 1.0, PARAMS))
    for state, total in ((first, 1), (jax.device_get(first), 1), (second, 2), (first, 3)):
        row, pictures = one.measure(state)
        assert len(measured) == total
        assert row.pop("bias") == state.params.generator.bias[0]
        assert pictures["samples"].shape == (1,)
