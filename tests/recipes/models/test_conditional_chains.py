"""Chains of a run's model on free pixels and on observations, against closed forms."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import change, digits
from experiment_runs import image as smoke
from linear_model import ENERGY, MODEL, WEIGHTS

from ebmjax import latent, samplers
from ebmjax.learning import ChainKind, ChainPlan, EnergyNetwork
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators.inpainting import Given
from ebmjax.recipes.models.energy.model import EnergyModel, Trained
from ebmjax.recipes.models.latent.model import LatentEBM
from ebmjax.recipes.parts import start_distributions

SHAPE, T, SCALE = (2, 2, 1), 0.5, 0.75
MEAN = np.array([0.3, -0.4, 0.1, 0.6])
FACTOR = np.random.default_rng(0).normal(size=(4, 4)) / 2
PRECISION = np.linalg.inv(FACTOR @ FACTOR.T + 0.4 * np.eye(4))
MASK, FREE, KNOWN = np.array([[True, False], [False, True]]), [0, 3], [1, 2]
IMAGES = np.array([[9.0, 0.5, -0.8, 9.0], [-9.0, -1.0, 0.2, 0.0]]).reshape(2, *SHAPE)
OPERATOR, NOISE = np.array([[1.0, 0.5, -1.0, 0.0], [0.0, 1.0, 0.4, -0.6]]), 0.7
OBSERVED = np.array([[1.0, -0.5], [0.2, 0.3]])
BASE = samplers.fit_factor_gaussian(
    np.random.default_rng(1).normal(size=(40, 4)).reshape(40, *SHAPE), num_directions=2, jitter=0.01
)
NOTHING: Any = None


def quadratic(params, x, label):
    offset = x.reshape(-1) - MEAN
    return params * 0.5 * offset @ PRECISION @ offset


def valleys(params, x, label):
    """Lowest at the label in every pixel."""
    return 0.5 * params * jnp.sum(jnp.square(x - label), axis=(-3, -2, -1))


def model_of(name, energy=quadratic, num_classes=1, log_base=None, variant="", **options):
    fields = {"sampler.name": name, **{f"sampler.{name}.{k}": v for k, v in options.items()}}
    given = options | ({"base": BASE} if log_base else {})
    kind = ChainKind(sampler=partial(getattr(samplers, name), **given), num_steps=1, step_size=0.1)
    plan = ChainPlan(
        kinds={name: kind},
        num_samples=2,
        start_fn=samplers.gaussian_start(SHAPE, 0.0, 1.0),
        reinit_prob=0.0,
        num_classes=num_classes,
        log_base=log_base,
    )
    return EnergyModel(
        base=start_distributions.Base(BASE, jnp.zeros(1)) if log_base else None,
        plan=plan,
        train=NOTHING,
        distances=None,
        config=change(smoke(variant), {"sampler.box": "none", **fields}),
        network=EnergyNetwork(lambda params: partial(energy, params), num_classes),
        logits_fn=NOTHING,
        trained=Trained(jnp.float32(1.0), {}, jnp.float32(SCALE), {}),
    )


def run(model, given, num, num_steps, label=None):
    """Ends (n, num, free pixels) as the model has them."""
    one, shared, more = model.conditional_chains(given, num, num_steps, label)
    observed = None if given.observed is None else jnp.asarray(given.observed)
    rows = (jax.random.split(jax.random.key(2), len(given.images)), given.images, observed, more)
    _, ends = jax.jit(lambda *of: jax.lax.map(lambda row: one(of[0], row), of[1]))(shared, rows)
    return np.asarray(ends, np.float64).reshape(len(given.images), num, -1)


def assert_mean(draws, expected):
    """The mean of independent draws lies within 5 standard errors of what is expected."""
    error = draws.std(axis=0, ddof=1) / len(draws) ** 0.5
    assert np.all(np.abs(draws.mean(axis=0) - expected) <= 5 * error)


def assert_gaussian(draws, precision, pull):
    """Draws have the law exp(-x P x / 2 + pull x), within 5 standard errors."""
    covariance = np.linalg.inv(precision)
    offsets = draws - covariance @ pull
    assert_mean(offsets, 0.0)
    assert_mean(offsets[:, :, None] * offsets[:, None], covariance)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mala", "hmc", "tilted_langevin"])
def test_free_pixels_have_the_conditional_law_of_the_runs_chains(name):
    """They follow exp(scale f / T), times the Gaussian that tilted Langevin tilts."""
    precision, pull = SCALE / T * PRECISION, SCALE / T * PRECISION @ MEAN
    log_base = None
    if name == "tilted_langevin":
        log_base = partial(start_distributions.log_base, BASE, T)
        own = BASE.one(0)
        rows = [own.colour(*own.whiten(jnp.float32(e).reshape(SHAPE), 1.0)) for e in np.eye(4)]
        of_base = np.linalg.inv(np.stack(rows).reshape(4, 4).astype(float))
        precision, pull = precision + of_base, pull + of_base @ np.ravel(own.mean)
    model = model_of(name, log_base=log_base, step_size=0.15, temperature=T)
    draws = run(model, Given(jnp.float32(IMAGES), MASK), 1500, 100)
    for image, ends in zip(IMAGES, draws, strict=True):
        toward = pull[FREE] - precision[np.ix_(FREE, KNOWN)] @ image.ravel()[KNOWN]
        assert_gaussian(ends, precision[np.ix_(FREE, FREE)], toward)


@pytest.mark.slow
def test_an_observation_multiplies_the_law_of_the_runs_chains_by_its_likelihood():
    model = model_of("mala", step_size=5.0, temperature=T)  # which the chains correct
    images, every = jnp.zeros((2, *SHAPE)), np.ones((2, 2), bool)
    given = Given(images, every, lambda x: OPERATOR @ x.ravel(), OBSERVED, NOISE)
    for observed, ends in zip(OBSERVED, run(model, given, 1500, 300), strict=True):
        precision = SCALE / T * PRECISION + OPERATOR.T @ OPERATOR / NOISE**2
        pull = SCALE / T * PRECISION @ MEAN + OPERATOR.T @ observed / NOISE**2
        assert_gaussian(ends, precision, pull)


@pytest.mark.slow
@pytest.mark.parametrize("label", [None, 1])
def test_an_energy_of_labels_follows_the_sum_over_them_or_one(label):
    """Two Gaussians at 0 and 1 of variance T / scale: given pixels say how likely each is."""
    model = model_of(
        "mala", valleys, 2, variant="conditional", step_size=0.2, temperature=1.0
    )  # at T = 1 a mixture's power is the mixture
    images = np.full((1, *SHAPE), 0.8)
    (ends,) = run(model, Given(jnp.float32(images), MASK), 1500, 100, label)
    logits = [-SCALE / 2 * 2 * (0.8 - y) ** 2 for y in (0, 1)]
    share = 1.0 if label else 1 / (1 + np.exp(logits[0] - logits[1]))
    assert_mean(ends, share)
    assert_mean((ends - share) ** 2, 1 / SCALE + share * (1 - share))


def test_fresh_chains_of_a_label_start_in_it_and_follow_it():
    model = model_of("gradient_descent", valleys, 2, variant="conditional", step_size=0.5)
    found = model.fresh_chains(jax.random.key(0), 5, 40, labels=(1,))
    assert found.labels.tolist() == [1] * 5
    np.testing.assert_allclose(found.ends, 1.0, atol=1e-5)
    assert model.sample(jax.random.key(0), 5, 40, label=1)["labels"].tolist() == [1] * 5


def test_particles_of_a_label_follow_its_density():
    """With a wide kernel each moves by the score, which is the label's weights."""
    sampler = partial(samplers.svgd, step_size=0.1, bandwidth=1e4)
    plan = SimpleNamespace(
        is_interacting=True,
        single=lambda num, steps: ChainPlan(
            kinds={"svgd": ChainKind(sampler=sampler, num_steps=steps, is_interacting=True)},
            num_samples=num,
            start_fn=NOTHING,
            reinit_prob=0.0,
        ),
    )
    starts = jax.random.normal(jax.random.key(0), (4, 3, 1, 1))
    object.__setattr__(model := EnergyModel(**vars(ENERGY)), "plan", plan)
    for label in (0, 1):
        ends = model.move(jax.random.key(1), MODEL, starts, jnp.full(4, label), 1)
        way = np.reshape(ends - starts, (4, 3)) / (0.1 * MODEL.scale)
        np.testing.assert_allclose(way, np.tile(WEIGHTS[:, label], (4, 1)), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "operator", "expected"),
    [("pyld", None, "first layer"), ("tilted_langevin", jnp.sum, "stay in the Gaussian")],
)
def test_chains_that_cannot_use_what_is_given_are_refused(name, operator, expected):
    model = model_of("tilted_langevin", log_base=partial(start_distributions.log_base, BASE, T))
    if name == "pyld":
        model.config.family, model.config.sampler.name = "joint", "pyld"
    with pytest.raises(ConfigError, match=f"chains of {name} .* they .*{expected}"):
        model.conditional_chains(Given(jnp.zeros((1, *SHAPE)), MASK, operator), 2, 1, None)


@pytest.mark.slow
@pytest.mark.parametrize("operator", [None, lambda x: x[1:]])
def test_latents_follow_the_posterior_of_what_is_given(operator):
    """The first pixel is free; the second is given, or observed under another noise."""
    gaussian = latent.LinearGaussian(likelihood_scale=0.5)
    weights, offset = np.array([[1.0, 0.4], [0.3, 0.8]]), np.array([0.2, -0.1])
    parts = 0.5 * jnp.eye(2), jnp.array([0.5, 0.0])
    params = gaussian.params(*parts, jnp.asarray(weights), jnp.asarray(offset))
    sampler = partial(samplers.mala, step_size=0.3)
    model = LatentEBM(
        train=NOTHING,
        distances=None,
        config=digits(),
        trained=params,
        networks=gaussian,
        chains=latent.LatentChains(2, sampler, 1, sampler, 2),  # 100 steps of a chain
        powers=NOTHING,
        gradient_fn=NOTHING,
        examples=NOTHING,
    )
    mask = np.array([True, False]) if operator is None else np.ones(2, bool)
    images = jnp.array([[5.0, 0.7], [0.0, -1.2]])
    given = Given(images, mask, operator, None if operator is None else images[:, 1:])
    given = given if operator is None else given._replace(noise=0.8)
    draws = run(model, given, 1500, None)
    seen = gaussian._replace(likelihood_scale=0.5 if operator is None else 0.8)
    second = seen.params(*parts, jnp.asarray(weights[1:]), jnp.asarray(offset[1:]))
    for image, ends in zip(images, draws, strict=True):
        mean, covariance = seen.power_posterior(second, image[1:], 1.0)
        assert_mean(ends[:, 0], weights[0] @ mean + offset[0])
        assert_mean(
            (ends[:, 0] - weights[0] @ mean - offset[0]) ** 2, weights[0] @ covariance @ weights[0]
        )
