"""A learned density makes up for its chains: numbers against closed forms."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import build_experiment

from ebmjax.evaluate import Chains, Grid
from ebmjax.learning import EnergyNetwork
from ebmjax.recipes.evaluators.density import grid_of, truth_on_grid
from experiments.configs.toy_beta import get_config
from experiments.literal import beta_bias
from experiments.literal.beta_bias import compensation, distance_after_weighting

# Sums over cells of these Gaussians are exact to about exp(-2 (pi scale / width)^2), and 5 widths
# to the border leave 1e-6.
GRID = Grid(half_width=6.0, num=150)


def gaussian(mean=(0.0, 0.0), scale=1.0):
    squares = np.sum((GRID.centres - np.asarray(mean)) ** 2, axis=1).reshape(GRID.num, GRID.num)
    return GRID.normalise(-0.5 * squares / scale**2)


@pytest.mark.parametrize("bandwidth", [0.0, 0.5])
def test_the_slope_of_shifted_gaussians(bandwidth):
    """log(N(m) / N(0)) = m x - m^2 / 2: the slope of one such line on another is m / a.

    The kernel widens both laws of the regressor, which divides its line by their variance.
    """
    variance = 1 + bandwidth**2
    data, chains = (np.exp(gaussian((a, 0.0), math.sqrt(variance))) for a in (0.0, 0.4))
    numbers = compensation(gaussian((-0.2, 0.0)), gaussian(), chains=chains, data=data)
    assert numbers["bias_slope"] == pytest.approx(-0.2 / 0.4 * variance, rel=1e-6)
    assert numbers["bias_correlation"] == pytest.approx(-1.0, abs=1e-6)


def test_the_data_weigh_the_slope():
    """The slope of x^4 on x^2 depends on weights: under N(0, 1) in the plane cov / var is 32 / 4.

    r^2 is then chi^2 of two degrees: E r^6 - E r^4 E r^2 = 48 - 16, var r^2 = 4, var r^4 = 320.
    """
    data, chains = gaussian(), gaussian(scale=1.2)
    quartic = data - 0.1 * np.sum(GRID.centres**2, axis=1).reshape(data.shape) ** 2
    numbers = compensation(quartic, data, chains=np.exp(chains), data=np.exp(data))
    # log(N(0, s^2) / N(0, 1)) has the coefficient (1 - 1 / s^2) / 2 of r^2.
    expected = -0.1 * 8 / (0.5 * (1 - 1 / 1.2**2))
    assert numbers["bias_slope"] == pytest.approx(expected, rel=1e-3)
    correlation = -32 / math.sqrt(4 * 320)
    assert numbers["bias_correlation"] == pytest.approx(correlation, rel=1e-3)


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
def test_the_fixed_point_reweights_its_negatives_to_the_data(beta):
    """exp(beta f) = data / negatives, whatever these are; another exponent misses."""
    truth, negatives = gaussian(), gaussian((0.5, 0.0), 1.5)
    fixed = (truth - negatives) / beta + 7.0
    distance = distance_after_weighting(
        fixed, truth, negatives=np.exp(negatives), beta=beta, grid=GRID
    )
    assert distance == pytest.approx(0.0, abs=1e-9)
    negatives = np.exp(negatives)
    other = distance_after_weighting(fixed, truth, negatives=negatives, beta=0.8 * beta, grid=GRID)
    assert other > 0.04
    nothing = distance_after_weighting(fixed, truth, negatives=0 * negatives, beta=beta, grid=GRID)
    assert math.isnan(nothing)


def model_of(workdir, log_density, **changes):
    """A smoke run's model of f = ``log_density(x)``, with network energies -f / output_scale."""
    config = get_config("smoke")
    config.update_from_flattened_dict({"loss.output_scale": 10.0, **changes})
    built = build_experiment(config, workdir)
    return replace(
        built.use(built.state),
        network=EnergyNetwork(lambda params: lambda x, labels: -log_density(x) / 10),
        logits_fn=lambda params, statistics, x: log_density(x)[..., None] / 10,
        programs={},
    )


@pytest.mark.slow
def test_chains_by_temperature(tmp_path):
    """On f = -x^2 training's chains follow 1 - beta of it: variance 1 / 2 where beta is 0.

    40 steps of 0.1 forget their starts (0.9^80); a discretised chain's variance is
    v / (1 - step / 2v).
    """
    steps = {"sampler.num_steps": 40, "sampler.sgld.temperature": 0.1}  # 1 / output_scale
    model = model_of(tmp_path, lambda x: -jnp.sum(x**2, axis=-1), **steps)
    first, second = jax.random.split(jax.random.key(0))
    draws = (
        (model.fresh_chains(first, 4000, 40, scale=0.5).ends, 1.0),
        (model.fresh_chains(second, 4000, 40, scale=1.0).ends, 0.5),
    )
    for positions, variance in draws:
        assert positions.shape == (4000, 2)
        expected = variance / (1 - 0.1 / (2 * variance))
        error = expected * math.sqrt(2 / positions.size)
        assert np.var(positions) == pytest.approx(expected, abs=5 * error)


def test_a_run_has_its_bias(tmp_path, monkeypatch):
    """Noise as negatives, and an energy that is the objective's own optimum for them."""
    beta, noise = 0.5, np.random.default_rng(0).normal(size=(20_000, 2))
    grid = {"evals.density.half_width": 4.0, "evals.density.grid_points": 200}
    model = model_of(tmp_path, jnp.sum, **grid)
    truth = truth_on_grid(model)
    squares = np.sum(grid_of(model.config).centres ** 2, axis=1).reshape(truth.shape)
    learned = (truth + 0.5 * squares) / beta
    chains = Chains(noise, noise)
    monkeypatch.setattr(type(model), "fresh_chains", lambda *given, **others: chains)
    monkeypatch.setattr(type(model), "log_densities", lambda *given: learned)
    numbers = beta_bias.beta_bias(jax.random.key(0), model, None)
    assert numbers["reweighted_tv"] < 0.15 < 0.5 < numbers["negative_tv"]
    # 1 - 1 / beta, were the noise as even over the modes as the data are not: it varies little. The
    # kernel adds (0.05 / 0.15)^2, a ninth.
    assert numbers["bias_slope"] == pytest.approx(-10 / 9, abs=0.1)
    assert numbers["bias_correlation"] < -0.9
    monkeypatch.setattr(type(model), "log_densities", lambda *given: squares)
    nowhere = beta_bias.beta_bias(jax.random.key(0), model, None)
    assert math.isnan(nowhere["bias_slope"])
