"""Numbers of a latent model by its evaluators, where the truth is known in closed form."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from experiment_runs import digits

from ebmjax import data, evaluate, latent
from ebmjax.recipes.evaluators.evidence import evidence, evidence_of_each, keys_of
from ebmjax.recipes.evaluators.reconstruction import reconstruction
from ebmjax.recipes.evaluators.samples import draw_samples, samples
from ebmjax.recipes.models.latent.model import LatentEBM
from ebmjax.recipes.models.latent.parts import Examples, make_optimizer
from ebmjax.samplers import mala
from ebmjax.training import init_state
from experiments.configs import thermo_celeba

NUM_CHAINS, KEY = 400, jax.random.key(3)
MODEL = latent.LinearGaussian(likelihood_scale=0.5)
PARAMS = MODEL.params(
    0.5 * jnp.eye(2), jnp.array([0.5, 0.0]), jnp.array([[1.0, 0.4], [0.0, 0.8]]), jnp.zeros(2)
)
# "Images" of two pixels, as the linear model makes them.
IMAGES = np.array([[255, 0], [130, 60], [20, 200]], np.uint8)
TEST = data.ImageData(IMAGES, np.zeros(3, np.int32))


def describe(chains, *_):
    """Returns the shapes of what is given to distances, and how many ends are not finite."""
    num_lost = np.isnan(chains.ends).any(axis=(1, 2, 3)).sum()
    shapes = {"sample_shape": chains.ends.shape, "start_shape": chains.starts.shape}
    return {**shapes, "sample_num_lost": num_lost, "sample_fid": 1.0, "start_fid": 2.0}


@pytest.fixture(autouse=True)
def scores(monkeypatch):
    monkeypatch.setattr(evaluate, "along_training", describe)


def linear(made: Any = LatentEBM, **changes: Any) -> LatentEBM:
    sampler = partial(mala, step_size=0.15)
    parts = {
        "train": TEST,
        "distances": None,
        "config": digits(**{"train.batch_size": 3}),
        "trained": PARAMS,
        "networks": MODEL,
        "chains": latent.LatentChains(2, sampler, 40, sampler, 40),
        "powers": latent.power_schedule(2, 3.0),
        "gradient_fn": lambda *_: None,
        "examples": Examples(TEST, jnp.arange(3)),
    }
    return made(**parts | changes)


def evidences():
    """Corrected and plain log evidence under 16 independent keys, each (16,)."""
    model, options = linear(), {"num_images": 3, "num_chains": NUM_CHAINS}
    keys = jax.random.split(jax.random.key(1), 16)
    rows = [evidence(key, model, TEST, **options).report for key in keys]
    names = ("test_log_evidence", "test_trapezium_log_evidence")
    return [np.array([row[name] for row in rows]) for name in names]


@pytest.mark.slow
def test_each_image_has_the_evidence_of_its_own_chains():
    observations = data.to_signed_unit(jnp.asarray(IMAGES))
    exact = jax.vmap(lambda x: MODEL.log_evidence(PARAMS, x))(observations)
    corrected, trapezium = evidences()
    # 5 standard errors of the 16 repeats. A divergence fitted to n draws in d dimensions is too
    # large by about d (d + 3) / 2n; half the difference of two such in each of 2 intervals is at
    # most d (d + 3) / 2n.
    error = 5 * corrected.std(ddof=1) / 4 + 2 * 5 / (2 * NUM_CHAINS)
    assert abs(corrected.mean() - exact.mean()) < error
    # Two intervals are too few for the trapezium rule alone, so the test above means something.
    assert abs(trapezium.mean() - exact.mean()) > 4 * error


def test_no_two_numbers_of_the_evaluation_share_a_key():
    keys = {tuple(jax.random.key_data(key).tolist()) for key in keys_of(KEY).values()}
    assert len(keys) == len(keys_of(KEY))


class ExactDraws(LatentEBM):
    """Draws independently from the power posteriors, as if every chain had arrived."""

    def draw_ladder(self, key, params, observations):
        moments = partial(self.networks.power_posterior, params, observations[0])
        mean, covariance = jax.vmap(moments)(self.powers)
        shape = (len(self.powers), len(observations), mean.shape[1])
        factor = jnp.linalg.cholesky(covariance)
        return mean[:, None] + jnp.einsum(
            "pij,pnj->pni", factor, jax.random.normal(key, shape), precision="highest"
        )


@pytest.mark.slow
def test_the_reported_evidence_is_right_at_published_size():
    """Settings of thermo_celeba: 80 latents, and chains enough to fit their covariances."""
    config = thermo_celeba.get_config()
    d, num_outputs = config.model.latent_dim, 192
    rng = np.random.default_rng(0)
    weight = jnp.asarray(1.5 * np.linalg.qr(rng.normal(size=(num_outputs, d)))[0], jnp.float32)
    params = MODEL.params(jnp.zeros((d, d)), jnp.zeros(d), weight, jnp.zeros(num_outputs))
    networks = latent.LinearGaussian(likelihood_scale=config.model.likelihood_scale)
    powers = latent.power_schedule(config.loss.num_intervals, config.loss.exponent)
    model = linear(ExactDraws, trained=params, networks=networks, powers=powers)
    images = rng.integers(0, 256, (1, num_outputs), np.uint8)
    section = config.evals.evidence
    keys = jax.random.split(jax.random.key(0), 24)
    rows = [evidence_of_each(key, model, images, num_chains=section.num_chains) for key in keys]
    x = data.to_signed_unit(jnp.asarray(images[0]))
    terms = jax.jit(networks.terms)(params, x, powers)
    # A correction of nats, so it has to be right.
    assert jnp.sum(terms["kl_forward"] - terms["kl_backward"]) / 2 > 5.0
    found = np.concatenate([row["test_log_evidence"] for row in rows])
    error = found.std(ddof=1) / len(keys) ** 0.5
    assert error < 0.4
    assert abs(found.mean() - networks.log_evidence(params, x)) < 5 * error


def test_of_too_few_chains_for_divergences_the_trapezium_rule_alone_is_reported():
    found = evidence(KEY, linear(), TEST, num_images=1, num_chains=5)
    assert found.report.keys() == {"test_trapezium_log_evidence"}


class Standing(LatentEBM):
    """Has all its chains at one place."""

    def draw_ladder(self, key, params, observations):
        return jnp.full((len(self.powers), len(observations), 2), 0.25)


def test_every_test_image_is_reconstructed_from_its_own_chain():
    found = reconstruction(KEY, linear(Standing), TEST, num_images=2)
    made, originals = np.array([0.35, 0.2]), IMAGES[:2] / 127.5 - 1
    errors = np.square(made - originals).mean(axis=1)
    rounding = 10 * float(np.finfo(np.float32).eps)
    measured = found.per_image["test_reconstruction_error"]["test"]
    np.testing.assert_allclose(measured, errors, rtol=rounding)
    report = found.report
    assert report["test_reconstruction_error"] == pytest.approx(errors.mean(), rel=rounding)
    # A Gaussian of two pixels around the image that is made, at every power.
    scale = MODEL.likelihood_scale
    expected = -errors.mean() / scale**2 - np.log(2 * np.pi * scale**2)
    assert report["test_mean_log_likelihoods"] == pytest.approx([expected] * 3, rel=rounding)
    np.testing.assert_array_equal(found.arrays["originals"], IMAGES[:2])
    np.testing.assert_array_equal(found.arrays["reconstructions"], [[172, 153]] * 2)


def test_diverged_samples_are_counted():
    images = np.zeros((4, 2, 1, 1))
    images[1, 0] = np.nan
    latents = np.full((4, 3), 2.0)
    latents[1] = 100.0
    drawn = np.zeros_like(images), images, latents
    model = linear(programs={("prior", 4, 40): lambda *_: drawn})
    row = samples(KEY, model, TEST, num_images=4).row or {}
    assert row["num_diverged_samples"] == 1
    # Distances are of the samples that are drawn anyway; what to leave out is theirs to know.
    assert (row["sample_shape"], row["sample_num_lost"]) == ((4, 2, 1, 1), 1)
    assert row["start_shape"] == (4, 2, 1, 1)
    found = draw_samples(KEY, model, 4).drop_diverged()
    assert found.rms_displacement() == 2.0  # of latents, without the chain that is lost


@pytest.mark.slow
def test_samples_stand_beside_the_images_of_their_chains_starts():
    model = linear()
    found = draw_samples(KEY, model, 5)
    # The chains are those that start afresh by this key: where they start, nothing else changes.
    draw = partial(latent.sample_prior, keys_of(KEY)["samples"], PARAMS, MODEL, 5, 2)
    ends, _ = draw(sampler=model.chains.prior_sampler, num_steps=40)
    unmoved, _ = draw(sampler=partial(mala, step_size=1e-30), num_steps=1)
    np.testing.assert_allclose(found.ways, ends - unmoved, rtol=1e-5, atol=1e-6)
    weight, bias = map(np.asarray, PARAMS.generator)
    for latents, images in ((ends, found.ends), (unmoved, found.starts)):
        made = np.asarray(latents) @ weight.T + bias
        np.testing.assert_allclose(images, made, rtol=1e-5, atol=1e-6)


def test_samples_are_drawn_by_as_many_steps_as_the_evaluation_says():
    model = linear(config=digits(**{"train.batch_size": 3, "evals.num_chain_steps": 7}))
    draw = partial(latent.sample_prior, keys_of(KEY)["samples"], PARAMS, MODEL, 5, 2)
    ends, _ = draw(sampler=model.chains.prior_sampler, num_steps=7)
    found, images = draw_samples(KEY, model, 5), model.apply(PARAMS, ends)
    np.testing.assert_allclose(found.ends, images, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("decay", [0.0, 0.75])
def test_the_trained_parameters_are_averaged_where_the_run_says_so(decay):
    config = digits(**{"train.batch_size": 3, "optimizer.average_decay": decay})
    optimizer = make_optimizer(config, 1, config.optimizer)
    state = init_state(PARAMS, optimizer)
    updates, opt_state = optimizer.update(PARAMS, state.opt_state, state.params)
    new = optax.apply_updates(PARAMS, updates)
    found = linear(config=config).at(state._replace(params=new, opt_state=opt_state)).params
    expected = jax.tree.map(lambda old, new: decay * old + (1 - decay) * new, PARAMS, new)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), found, expected)
