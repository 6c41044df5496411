"""A learned density makes up for its chains: the plane's numbers against closed forms."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import build_experiment
from scipy import stats

from ebmjax.recipes.models.plane import beta as plane_beta
from ebmjax.recipes.models.plane.beta_bias import compensation, reweighted_distance
from ebmjax.recipes.models.plane.grid import Grid, normalised
from experiments.configs.toy_beta import get_config

# Sums over cells of these Gaussians are exact to about exp(-2 (pi scale / width)^2), and 5 widths
# to the border leave 1e-6.
GRID = Grid(half_width=6.0, num=150)


def gaussian(mean=(0.0, 0.0), scale=1.0):
    squares = np.sum((GRID.centres - np.asarray(mean)) ** 2, axis=1).reshape(GRID.num, GRID.num)
    return normalised(-0.5 * squares / scale**2, GRID)


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


def test_no_bias_has_no_slope():
    truth, other = gaussian(), gaussian((0.3, 0.0))
    data = np.exp(truth)
    numbers = compensation(other, truth, chains=data * (1 + 1e-15), data=data)
    assert math.isnan(numbers["bias_slope"])
    assert math.isnan(numbers["bias_correlation"])
    exact = compensation(truth, truth, chains=np.exp(other), data=data)
    assert exact["bias_slope"] == 0.0
    assert math.isnan(exact["bias_correlation"])
    assert math.isnan(compensation(other, truth, chains=0 * data, data=data)["bias_slope"])


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
def test_the_fixed_point_reweights_its_negatives_to_the_data(beta):
    """exp(beta f) = data / negatives, whatever these are; another exponent misses."""
    truth, negatives = gaussian(), gaussian((0.5, 0.0), 1.5)
    fixed = (truth - negatives) / beta + 7.0
    distance = reweighted_distance(fixed, truth, negatives=np.exp(negatives), beta=beta, grid=GRID)
    assert distance == pytest.approx(0.0, abs=1e-9)
    negatives = np.exp(negatives)
    other = reweighted_distance(fixed, truth, negatives=negatives, beta=0.8 * beta, grid=GRID)
    assert other > 0.04
    nothing = reweighted_distance(fixed, truth, negatives=0 * negatives, beta=beta, grid=GRID)
    assert math.isnan(nothing)


def test_at_beta_0_nothing_is_reweighted():
    """TV of equal widths at distance d: 2 Phi(d / 2) - 1."""
    distance = reweighted_distance(
        gaussian(scale=0.3), gaussian(), negatives=np.exp(gaussian((1.0, 0))), beta=0.0, grid=GRID
    )
    assert distance == pytest.approx(2 * stats.norm.cdf(0.5) - 1, abs=1e-3)


def test_the_parts_of_the_data_carry_what_its_law_says():
    """Modes weigh 1 to 8; a circle's nearest points are its own but for a tail of 3.3 scales."""
    for name, weights in (("gmm", np.arange(1, 9) / 36), ("circles", np.full(4, 1 / 4))):
        points = np.asarray(plane_beta.DATA[name].points(jax.random.key(0), 20_000))
        shares = plane_beta.PARTS[name].shares(points)
        # 5 standard errors of a share, and what leaks from a mode to its neighbours: 2 * 0.5 %.
        np.testing.assert_allclose(shares, weights, atol=5 * math.sqrt(0.2 / 20_000) + 0.01)
    broken = np.full((3, 2), np.nan)
    assert np.isnan(plane_beta.PARTS["gmm"].shares(broken)).all()


def monitor_of(workdir, **changes):
    config = get_config("smoke")
    config.update_from_flattened_dict({"loss.output_scale": 1.0, **changes})
    return build_experiment(config, workdir).monitor


def test_masses_of_cells_count(tmp_path):
    """The truth with its first mode gone: the others keep their ratios, 1 / 36 is missing."""
    monitor = monitor_of(tmp_path)
    centres = monitor.grid.centres
    parts = monitor.parts.nearest(centres).reshape(monitor.truth.shape)
    without = np.where(parts == 0, monitor.truth - 50.0, monitor.truth)
    points = np.asarray(monitor.toy.points(jax.random.key(1), 200))
    numbers = monitor.numbers(without, points)
    first = monitor._truth_shares[0]
    assert first == pytest.approx(1 / 36, abs=0.005)  # its neighbours of weight 2 and 8 leak in
    assert numbers["density_share_tv"] == pytest.approx(first, abs=1e-9)
    moved = monitor.numbers(without, points[monitor.parts.nearest(points) == 7])
    assert moved["sample_share_tv"] == pytest.approx(1 - monitor._truth_shares[7], abs=1e-9)


def test_chains_by_temperature_and_length(tmp_path):
    """On f = -x^2 training's chains follow 1 - beta of it, long ones the model: variance 1 / 2.

    40 steps of 0.1 forget their starts (0.9^80); a discretised chain's variance is
    v / (1 - step / 2v).
    """
    monitor = monitor_of(
        tmp_path,
        **{
            "loss.betas": (0.5,),
            "sampler.step_size": 0.1,
            "sampler.num_steps": 40,
            "eval.num_samples": 4000,
        },
    )
    monitor = dataclasses.replace(
        monitor, energy_fn=lambda params, x: params * jnp.sum(x**2, axis=-1)
    )
    keys = jax.random.split(jax.random.key(0), 2)
    ends, draws = monitor._chains(keys, jnp.array([1.0]), jnp.array([0.5]))
    assert ends.shape == draws.shape == (1, 4000, 2)
    for positions, variance in ((ends, 1.0), (draws, 0.5)):
        expected = variance / (1 - 0.1 / (2 * variance))
        error = expected * math.sqrt(2 / positions.size)
        assert np.var(np.asarray(positions)) == pytest.approx(expected, abs=5 * error)


def test_a_run_is_told_its_bias(tmp_path):
    """Noise as negatives, and an energy that is the objective's own optimum for them."""
    monitor = monitor_of(
        tmp_path,
        **{"sampler.num_steps": 0, "eval.half_width": 4.0, "eval.grid_points": 200},
    )
    squares = np.sum(monitor.grid.centres**2, axis=1).reshape(monitor.truth.shape)
    beta = 0.5
    log_density = (monitor.truth + 0.5 * squares) / beta
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(20_000, 2))
    numbers = monitor.bias_numbers(beta, log_density, noise, noise, noise, rng=rng)
    assert numbers["reweighted_tv"] < 0.15 < 0.5 < numbers["negative_tv"]
    assert numbers["exact_tv"] < 0.15 < 0.5 < numbers["long_tv"]
    # 1 - 1 / beta, were the noise as even over the modes as the data are not: it varies little. The
    # kernel adds (0.05 / 0.15)^2, a ninth.
    assert numbers["bias_slope"] == pytest.approx(-10 / 9, abs=0.1)
    assert numbers["bias_correlation"] < -0.9
    assert sum(numbers["density_shares"]) == pytest.approx(1.0)
    nowhere = monitor.bias_numbers(beta, squares, noise, noise, noise, rng=rng)
    assert math.isnan(nowhere["bias_slope"])
    assert math.isnan(nowhere["long_tv"])
    assert nowhere["density_shares"] is None
