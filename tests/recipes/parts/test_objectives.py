"""Every objective without chains, at its minimum on Gaussian data, where it is known."""

from inspect import signature

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.data import ImageData
from ebmjax.learning import Density, Samples
from ebmjax.recipes.config import command_line
from ebmjax.recipes.parts import objectives
from ebmjax.recipes.parts.objectives import (
    OBJECTIVES,
    OF_SCORES,
    WITHOUT_DENSITY,
    draws,
    make_loss,
    warn_of_objective,
)
from experiments.configs import igebm_digits, jem_digits

WITHOUT_CHAINS = [n for n, f in OBJECTIVES.items() if "negatives" not in signature(f).parameters]
COVARIANCE = np.array([[0.3, 0.1], [0.1, 0.2]])
ROOT = np.linalg.cholesky(COVARIANCE)
# A mean of 256 copies has little bias at this noise, and none is added.
OPTIONS = {"energy_discrepancy": {"num_copies": 256, "stabiliser": 0.0}}
OPTIONS |= {"noise_contrastive": {"noise_ratio": 2}}
# Chains alone count. A step h = 0.004 of a nat has a relative bias of h / 2 times the precision,
# 1 % in the mean, below one standard error of 100 batches; 400 of them forget noise.
CHAINS = {"warmup": 0.0, "contrastive_weight": 1e6, "num_steps": 450, "step_size": 0.04}
OPTIONS |= {"energy_matching": CHAINS}


def configured(name, **options):
    config = igebm_digits.get_config()
    config.loss.name, config.sampler.box = name, "none"
    config.loss[name].update(options)
    return config


def points(key, num):
    return jax.random.normal(key, (num, 2)) @ jnp.asarray(ROOT.T, jnp.float32)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, OPTIONS.get(name, {})) for name in WITHOUT_CHAINS if name not in WITHOUT_DENSITY),
        ("score_matching", {"num_slices": 0}),
    ],
)
def test_the_minimum_is_the_data_s_precision(name, options):
    """The gradient by the precision vanishes there, and points back on both sides of it.

    It is the mean of 100 batches of 64 fresh points, 0 within 5 standard errors.
    """
    config = configured(name, **options)
    assert not draws(config.loss.name)
    train = ImageData(np.asarray(points(jax.random.key(9), 5000)), np.zeros(5000, np.int32))
    loss_fn, numbers = make_loss(config, train, 10)
    numbers |= {"smoothing": 1.0, "step": 10}
    blur = 0.3**2 if name == "denoising" else 0.0
    precision = np.linalg.inv(COVARIANCE + blur * np.eye(2))
    log_partition = np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1]

    def energy_at(scale):
        matrix = scale * jnp.asarray(precision, jnp.float32)

        def energy(x):
            # Normalised at the minimum, which noise-contrastive estimation asks for.
            return 0.5 * jnp.sum((x @ matrix) * x, axis=1) + log_partition

        return energy

    def slope(scale, key):
        batch, key = Samples(points(key, 64)), jax.random.fold_in(key, 1)

        def loss(at):
            model = density(energy_at(at), energy_at(scale))
            return loss_fn(key, model, batch, None, numbers)[0]

        return jax.grad(loss)(scale)

    keys = jax.random.split(jax.random.key(0), 100)
    for scale, sign in ((1.0, 0), (0.7, -1), (1.4, 1)):
        slopes = np.asarray(jax.jit(jax.vmap(slope, (None, 0)))(jnp.float32(scale), keys), float)
        mean, bound = slopes.mean(), 5 * slopes.std(ddof=1) / np.sqrt(len(slopes))
        assert abs(mean) < bound if sign == 0 else sign * mean > bound


def density(energy, constant):
    return Density(lambda *x: -energy(*x), lambda *x: -constant(*x))


@pytest.mark.slow
def test_energy_matching_finds_the_linear_map_before_its_chains():
    """The data are a linear map of the step's own noise, so their pairs are exact.

    The gradient by the slope vanishes at the best one: its mean over 400 steps is 0 within 5
    standard errors. Elsewhere it points back. V = 0.1 E has the slope of -grad V.
    """
    scales = jnp.array([0.5, 0.8])
    # Along a direction scaled by a: (a - 1) E[c] / E[c^2], c = 1 - t + t a.
    best = 1.5 * (scales - 1) * (1 + scales) / (1 + scales + scales**2)

    def slopes(share, key):
        noise = jax.random.normal(jax.random.split(key, 4)[0], (16, 2))
        batch = Samples((noise * scales[None])[::-1])

        def loss(share):
            def energy_of(share):
                return lambda x: -0.5 * share / 0.1 * jnp.sum(best[None] * x**2, axis=1)

            model = density(energy_of(share), energy_of(jax.lax.stop_gradient(share)))
            return objectives.energy_matching(key, model, batch, step=0, total_steps=4)[0]

        return jax.grad(loss)(share)

    keys = jax.random.split(jax.random.key(3), 400)
    for share, sign in ((1.0, 0), (0.8, -1), (1.2, 1)):
        found = np.asarray(jax.jit(jax.vmap(slopes, (None, 0)))(share, keys), float)
        mean, bound = found.mean(), 5 * found.std(ddof=1) / np.sqrt(len(found))
        assert abs(mean) < bound if sign == 0 else sign * mean > bound


@pytest.mark.slow
def test_equilibrium_matching_finds_the_best_linear_descent():
    """Data N(0, 4): the best score k x has k = E[c(t) (4 t - (1 - t))] / E[4 t^2 + (1 - t)^2].

    With E[c] = 3.6 and E[c t] = 1.62666 k is 2.72. The gradient by k vanishes there, its mean over
    400 batches within 5 standard errors, and points back elsewhere.
    """

    def slope(k, key):
        batch = Samples(2.0 * jax.random.normal(jax.random.fold_in(key, 1), (64, 3)))

        def loss(k):
            model = density(lambda x: -0.5 * k * jnp.sum(x**2, axis=1), None)
            return objectives.equilibrium_matching(key, model, batch)[0]

        return jax.grad(loss)(k)

    keys = jax.random.split(jax.random.key(5), 400)
    for k, sign in ((2.72, 0), (2.3, -1), (3.1, 1)):
        found = np.asarray(jax.jit(jax.vmap(slope, (None, 0)))(k, keys), float)
        mean, bound = found.mean(), 5 * found.std(ddof=1) / np.sqrt(len(found))
        assert abs(mean) < bound if sign == 0 else sign * mean > bound


@pytest.mark.slow
def test_chains_of_energy_matching_warm_up_on_their_way_from_noise(monkeypatch):
    """Variances of sums of noises, under a constant energy, within 5 standard errors.

    The second phase begins after 2 steps.
    """
    x, seen = jnp.zeros((8000, 2)), {}
    energy = lambda x: seen.update(negative=x) or 0 * x[:, 0]  # noqa: E731
    model = density(energy, lambda x: 0 * x[:, 0])

    def weigh(score, displacement, *, weights):
        return seen.update(weights=weights) or 0.0, {}

    monkeypatch.setattr(objectives.losses, "energy_matching_loss", weigh)

    def drawn(step):
        objectives.energy_matching(
            jax.random.key(0), model, Samples(x), step=step, total_steps=4, num_steps=60
        )
        return seen["negative"], seen["weights"]

    negative, weights = drawn(1)
    np.testing.assert_array_equal(weights, 1.0)
    np.testing.assert_array_equal(negative[:4000], x[:4000])
    negative, weights = drawn(2)
    warmth = np.clip((0.02 * np.arange(60) - 0.8) / 0.2, 0, 1)
    each = 2 * 0.02 * 0.1
    for found, variance in (
        (negative[:4000], 60 * each),
        (negative[4000:], 1 + each * warmth.sum()),
    ):
        np.testing.assert_allclose(np.var(found), variance, rtol=5 * np.sqrt(2 / found.size))
    # The weight of paths is 1 up to time 0.8, and 0.5 in the mean from there on.
    np.testing.assert_allclose(weights.mean(), 0.9, atol=5 * 0.25 / np.sqrt(8000))
    assert np.mean(weights == 1.0) == pytest.approx(0.8, abs=5 * 0.4 / np.sqrt(8000))


@pytest.mark.parametrize("name", WITHOUT_CHAINS)
def test_a_piecewise_linear_network_is_warned_of_where_scores_are_matched(name):
    config = configured(name)
    for activation, factory in (("swish", ""), ("leaky_relu_0.2", "mine.py:network")):
        config.model.activation, config.model.factory = activation, factory
        about = ["nats" in line for line in warn_of_objective(config)]
        assert about == [True] * (name in WITHOUT_DENSITY)
    config.model.factory = ""
    has_scores = OBJECTIVES[name] in OF_SCORES
    lines = [line.rpartition(": set ")[2] for line in warn_of_objective(config)]
    assert lines[:has_scores] == ["--config.model.activation=swish"] * has_scores
    assert len(lines) == has_scores + (name in WITHOUT_DENSITY)


@pytest.mark.parametrize("name", WITHOUT_CHAINS)
@pytest.mark.parametrize("file", ["toy_beta", "toy_samplers", "igebm_digits", "jem_digits"])
def test_naming_an_objective_is_a_complete_change(file, name):
    """Fields that the file sets for another objective wait, such as beta and the buffer."""
    config = command_line.read(f"configs/{file}.py", [f"--config.loss.name={name}"])
    assert [one for one in WITHOUT_CHAINS if one in config.loss] == [name]


@pytest.mark.parametrize(
    ("gap", "share"), [(-3.0, 1.0), (0.0, 1.0), (1.0, 0.5), (2.0, 0.0), (9.0, 0.0)]
)
def test_the_loss_of_p_x_fades_as_the_gap_grows(gap, share):
    """Its gradient has this share of the whole, and the share itself is not differentiated."""
    config = jem_digits.get_config()
    config.update_from_flattened_dict({"loss.max_gap": 2.0, "loss.energy_l2": 0.0})
    loss_fn, numbers = make_loss(config, None)

    def loss(energy):
        data, samples = (Samples(f, f, f) for f in (jnp.zeros(3), jnp.full(3, -energy)))
        return loss_fn(None, None, data, samples, numbers)[0]

    np.testing.assert_allclose(jax.grad(loss)(gap), -share, atol=1e-6)
