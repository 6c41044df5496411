"""Energies of points: their data, their training, their runs, and what is refused."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import (
    build_experiment,
    launch,
    rows_of,
    strict_json,
    summary_of,
)
from scipy import stats

from ebmjax import recipes, training
from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators import density as grids
from ebmjax.recipes.models.energy import parts
from ebmjax.recipes.parts.points_data import load
from experiments.configs import toy_beta, toy_samplers

CONFIGS = {"beta": toy_beta, "samplers": toy_samplers}
WIDTHS = {"gmm": 2.0, "circles": 5.0, "gaussians": 14.0}


def smoke(kind="beta", **overrides):
    config = CONFIGS[kind].get_config("smoke")
    config.update_from_flattened_dict(overrides)
    return config


@pytest.fixture
def model_of(tmp_path):
    """Returns a function: the model of a configuration before training."""

    def make(config):
        built = build_experiment(config, tmp_path)
        return built.use(built.state)

    return make


@pytest.mark.slow
@pytest.mark.parametrize("name", WIDTHS)
def test_the_truth_of_the_data_is_normalised_and_its_points_follow_it(name, model_of):
    fine = {"evals.density.half_width": WIDTHS[name], "evals.density.grid_points": 200}
    model = model_of(smoke(**{"data.name": name, **fine, "evals.density.bandwidth": 0.2}))
    grid, truth = grids.grid_of(model.config), grids.truth_on_grid(model)
    density = jax.vmap(model.truth.log_density_fn)(jnp.asarray(grid.centres))
    # Cells of a third of the data's scale at most: the sum is the integral to 1e-3.
    whole = grid.mass(np.exp(np.asarray(density, np.float64)))
    assert whole == pytest.approx(1.0, abs=2e-3)
    points = np.asarray(model.truth.draw(jax.random.key(0), 10_000))
    cells = np.histogram2d(*points.T, bins=2, range=[[-19, 19], [-19, 19]])[0].ravel()
    x, y = grid.centres.T
    quadrant = (x > 0) * 2 + (y > 0)
    shares = np.bincount(quadrant, np.exp(truth).ravel()) * grid.width**2
    assert stats.chisquare(cells, 10_000 * shares / shares.sum()).pvalue > 2 * stats.norm.sf(5)


def test_gaussians_lie_where_their_fields_say():
    far = {"data.radius": 2.5, "data.scale": 0.5, "data.weights": (1.0, 4.0)}
    images = load(smoke(**{"data.name": "gaussians", **far, "data.max_train": 20_000}))[0]
    points = images.train.images
    right = points[points[:, 0] > 0]  # five deviations from the other mode's mean
    assert len(right) / len(points) == pytest.approx(0.2, abs=5 * math.sqrt(0.16 / 20_000))
    np.testing.assert_allclose(right.mean(axis=0), (2.5, 0.0), atol=5 * 0.5 / math.sqrt(4000))
    np.testing.assert_allclose(right.std(axis=0), 0.5, rtol=5 / math.sqrt(2 * 4000))


def test_chains_start_at_the_data_under_noise():
    """50 of the means, 1 within, 25 of the noise; variance of a near-Gaussian: sqrt(2 / n)."""
    config = smoke("samplers", **{"sampler.buffer.start_scale": 5.0, "data.max_train": 2000})
    images, _, config = load(config)
    start_fn = parts.chain_plan(config, images.train).start_fn
    keys = jax.random.split(jax.random.key(1), 2000)
    starts = np.asarray(jax.vmap(start_fn, (0, None))(keys, jnp.int32(0)))
    assert np.var(starts) == pytest.approx(76, rel=5 * math.sqrt(2 / 4000))


def test_the_rate_decays_geometrically():
    config = smoke(**{"optimizer.learning_rate": 0.5, "optimizer.final_fraction": 0.04})
    optimizer = parts.make_optimizer(config, 10, 5, config.optimizer)
    gradient = {"w": jnp.ones(())}
    state, sizes = optimizer.init(gradient), []
    for _ in range(11):
        updates, state = optimizer.update(gradient, state, gradient)
        sizes.append(-float(updates["w"]))
    # Adam's updates under a constant gradient are the rate.
    np.testing.assert_allclose(np.take(sizes, (0, 5, 10)), (0.5, 0.1, 0.02), rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"mesh.num_shards": 2}, {"sampler.buffer.size": 100}])
def test_particles_train_an_energy_as_one_system(changes, tmp_path):
    """A kernel as wide as the plane lifts every particle alike: none stays behind."""
    config = smoke("samplers", **changes)
    config.sampler.names = ("svgd",)
    config.update_from_flattened_dict(
        {"sampler.svgd.bandwidth": 1e4, "sampler.svgd.step_size": 1e-3}
    )
    config.train.num_epochs = 1
    assert launch(config, "configs/toy_samplers.py:smoke", str(tmp_path / "run"), "train") is None
    assert rows_of(tmp_path / "run")[-1]["chain_direction_norm"] > 0


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("points") / "run"
    config = smoke(**{"evals.functions": ("literal/beta_bias.py:beta_bias",)})
    assert launch(config, "configs/toy_beta.py:smoke", str(workdir), "all") is None
    return workdir


def test_a_run_leaves_its_numbers_and_panels(finished):
    report = strict_json((finished / "evaluation.json").read_text())
    numbers, perfect = report["density"], report["density"]["perfect_sampler"]
    assert 0 < perfect["sample_tv"] < numbers["sample_tv"] <= 1
    has_none = numbers["density_tv"] is None
    assert has_none == (numbers["border_mass"] > 0.01)
    assert 0 <= report["reweighted_tv"] <= 1
    rows = rows_of(finished)
    assert rows[-1]["step"] == summary_of(finished)["steps"] == 20
    assert not any("negative_tv" in row for row in rows)  # the end's alone
    for name in ("density_000020", "eval_density", "training"):
        assert (finished / "plots" / f"{name}.png").stat().st_size > 10_000


def test_the_trained_model_is_used(finished):
    used = recipes.load(finished, allow_code=True)
    points = used.sample(jax.random.key(0), 5)["points"]
    assert points.shape == used.sample(jax.random.key(0), 5, 3)["points"].shape == (5, 2)
    energies = used.model.apply(used.params, points)
    scale = used.config.loss.output_scale
    np.testing.assert_allclose(used.score(points)["log_density"], -scale * energies, rtol=1e-5)


def test_points_of_a_law_may_differ_in_their_last_bits(finished, monkeypatch):
    """Another machine draws them so, or a compiler with other flags."""
    digest, end = training.digest_data, np.float32(np.inf)

    def digest_elsewhere(data):
        return digest(data._replace(images=np.nextafter(np.asarray(data.images), end)))

    monkeypatch.setattr(training, "digest_data", digest_elsewhere)
    assert recipes.load(finished, allow_code=True).is_finished


@pytest.mark.slow
def test_a_comparison_leaves_its_numbers(tmp_path):
    folder = tmp_path / "run"
    assert launch(smoke("samplers"), "configs/toy_samplers.py:smoke", str(folder), "all") is None
    report = strict_json((folder / "evaluation.json").read_text())
    for setting in ("thesis", "tuned"):
        assert len(report[setting]) == 8


def test_numbers_of_a_known_model(model_of):
    """A density that is the truth's own scores nothing, and a slope is refused."""
    model = model_of(smoke())
    grid, truth = grids.grid_of(model.config), grids.truth_on_grid(model)
    perfect, density = grids.judge_density(truth + 5.0, truth, grid)
    np.testing.assert_allclose(density, np.exp(truth), rtol=1e-9)
    for name in ("density_tv", "density_kl"):
        assert perfect[name] == pytest.approx(0.0, abs=1e-9)
    slope = grid.centres.sum(axis=1).reshape(truth.shape)
    refused, nothing = grids.judge_density(slope, truth, grid)
    assert nothing is None
    assert refused["border_mass"] > 0.01
    assert math.isnan(refused["density_tv"])
    assert math.isnan(refused["density_kl"])
    lost, _ = grids.judge_density(np.full_like(slope, np.nan), truth, grid)
    assert lost["border_mass"] == 1.0


def test_an_evaluation_is_of_density_and_chains(model_of):
    """A Gaussian's energy: its log density, KL(data || model), and the ends of its chains."""
    model = model_of(smoke(**{"evals.density.grid_points": 100, "evals.density.num_samples": 500}))
    spread = lambda params, statistics, x: -2.0 * jnp.sum(x**2, axis=-1, keepdims=True)  # noqa: E731
    model = replace(model, logits_fn=spread, output_scale=1.0)
    found = grids.density(jax.random.key(0), model, None, num_samples=500)
    grid, ends = grids.grid_of(model.config), found.arrays["ends"]
    squares = np.sum(grid.centres**2, axis=1).reshape(100, 100)
    np.testing.assert_allclose(found.arrays["log_density"], -2 * squares, rtol=1e-5)
    cell = grid.width**2
    data, gaussian = np.exp(grids.truth_on_grid(model)), np.exp(-2 * squares)
    gaussian /= gaussian.sum() * cell
    report = found.report["density"]
    expected = np.sum(data * np.log(data / gaussian)) * cell
    assert report["density_kl"] == pytest.approx(expected, rel=1e-5)
    assert report["density_tv"] == pytest.approx(np.abs(data - gaussian).sum() * cell / 2, rel=1e-5)
    assert ends.shape == (500, 2)
    estimate = grid.histogram(ends, model.config.evals.density.bandwidth)
    assert report["sample_tv"] == grid.total_variation(data, estimate)
    assert found.row["sample_tv"] == report["sample_tv"]


POINTS = np.random.default_rng(0).normal([0.5, -0.25], [0.4, 0.3], (400, 2))


def own(folder, points=POINTS, kind="beta", **changes):
    np.save(folder / "mine.npy", points)
    place = {"data.name": "points", "data.path": str(folder / "mine.npy"), "data.max_test": None}
    return smoke(kind, **place, **changes)


def test_the_density_of_own_points_is_scipys_kernel_estimate(tmp_path):
    truth = load(own(tmp_path))[1]
    at = POINTS[:50] + 0.1
    expected = stats.gaussian_kde(POINTS.T).logpdf(at.T)
    # Sums of 400 float32 terms.
    np.testing.assert_allclose(jax.vmap(truth.log_density_fn)(at), expected, atol=1e-3)
    drawn = np.asarray(truth.draw(jax.random.key(0), 400))  # every point once
    order, ours = np.lexsort(drawn.T), np.lexsort(np.float32(POINTS).T)
    np.testing.assert_array_equal(drawn[order], np.float32(POINTS)[ours])
    assert truth.draw(jax.random.key(0), 1000).shape == (1000, 2)


def test_own_points_are_held_out(tmp_path):
    images, _, config = load(own(tmp_path, **{"data.max_train": 300}))
    assert images.train.images.shape == (240, 2)
    assert images.about == ("train 240 of 400 points (60 held out), truth: their kernel estimate",)
    assert (config.data.holdout, config.data.max_train) == (60, 300)
    assert not np.isin(images.train.images, images.monitored.images).any()


def _build_typed(config, changes, folder):
    families.check(config, changes)
    build_experiment(config, folder)


@pytest.mark.parametrize(
    ("kind", "changes", "expected"),
    [
        ("beta", {"data.name": "points"}, r"points needs config\.data\.path, an \.npy file"),
        ("beta", {"evals.density.half_width": 1.0}, r"half_width=1\.0 leaves .* Widen it"),
        ("beta", {"sampler.buffer.start_mean": (1.0, 2.0, 3.0)},
         r"start_mean must have one entry, or .* 2 coordinates"),
        ("beta", {"train.batch_size": 502}, r"train\.batch_size must be at most .* 500 after"),
        ("samplers", {"sampler.name": "svgd", "sampler.num_samples": 1}, r"at least 2"),
    ],
)  # fmt: skip
def test_what_a_configuration_may_not_say(kind, changes, expected, tmp_path):
    config = smoke(kind, **changes)
    with pytest.raises(ConfigError, match=expected):
        _build_typed(config, changes, tmp_path)
    assert not list(tmp_path.iterdir())
