"""The beta study in the plane: its steps, its runs, what it refuses."""

import dataclasses
import math
import shutil
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import (
    EXPERIMENTS,
    build_experiment,
    contents,
    launch,
    rows_of,
    strict_json,
    summary_of,
    unlisted,
)
from jax.flatten_util import ravel_pytree
from scipy import stats

from ebmjax import recipes, training
from ebmjax.recipes.config.common_fields import BETA_VARIANTS
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.models.plane import beta as plane_beta
from ebmjax.recipes.models.plane.beta_monitor import name_of
from ebmjax.recipes.models.plane.grid import mass
from ebmjax.recipes.run import use
from ebmjax.recipes.run.launch import evaluate_saved
from ebmjax.recipes.study.study_file import read
from experiments.configs.toy_beta import get_config


def smoke(**overrides):
    config = get_config("smoke")
    config.update_from_flattened_dict(overrides)
    return config


@pytest.mark.parametrize("name", plane_beta.DATA)
def test_the_truth_of_the_data_is_normalised_and_its_points_follow_it(name, tmp_path):
    config = smoke(**{"data.name": name, "eval.half_width": 5.0 if name == "circles" else 2.0})
    config.eval.update(grid_points=200, num_samples=10_000, bandwidth=0.06)
    experiment = build_experiment(config, tmp_path)
    monitor = experiment.monitor
    density = jax.vmap(plane_beta.DATA[name].log_density_fn)(jnp.asarray(monitor.grid.centres))
    # Cells of a third of the data's scale at most: the sum is the integral to 1e-3.
    assert mass(np.exp(np.asarray(density, np.float64)), monitor.grid) == pytest.approx(
        1.0, abs=2e-3
    )
    points = np.asarray(plane_beta.DATA[name].points(jax.random.key(0), 10_000))
    cells = np.histogram2d(*points.T, bins=2, range=[[-9, 9], [-9, 9]])[0].ravel()
    x, y = monitor.grid.centres.T
    quadrant = (x > 0) * 2 + (y > 0)
    shares = np.bincount(quadrant, np.exp(monitor.truth).ravel()) * monitor.grid.width**2
    assert stats.chisquare(cells, 10_000 * shares / shares.sum()).pvalue > 2 * stats.norm.sf(5)


def step_of(config, workdir):
    """(state after one step, its metrics) from the config's own start."""
    experiment = build_experiment(config, workdir)
    batch = jnp.asarray(experiment.data[: config.train.batch_size])[None]
    return jax.jit(experiment.train_step)(jax.random.key(7), experiment.state, batch)


def first_gradient(state, model):
    """Adam's average after a step, a tenth of one model's gradient.

    Parameters would not do: they move by the gradient's sign, which rounding decides near 0.
    """
    return ravel_pytree(jax.tree.map(lambda leaf: leaf[model], state.opt_state[0].mu))[0]


def test_a_beta_trains_alike_alone_and_among_others(tmp_path):
    """All betas share start, batch and noise; a model sees nothing of its neighbours."""
    together, _ = step_of(smoke(**{"loss.betas": (0.0, 0.5, 0.9)}), tmp_path)
    alone, _ = step_of(smoke(**{"loss.betas": (0.5,)}), tmp_path)
    many = [first_gradient(together, model) for model in range(3)]
    # Entries of up to 0.2, sums over a batch of 50: float32 rounds them by 50 * 0.2 * 6e-8.
    np.testing.assert_allclose(many[1], first_gradient(alone, 0), rtol=0, atol=1e-6)
    assert np.max(np.abs(many[0] - many[2])) > 1e-3


def test_a_model_that_diverges_leaves_the_others_alone(tmp_path):
    experiment = build_experiment(smoke(), tmp_path)
    state = experiment.state
    broken = jax.tree.map(lambda leaf: leaf.at[0].set(jnp.nan), state.params)
    batch = jnp.asarray(experiment.data[:50])[None]
    step = jax.jit(experiment.train_step)
    after, metrics = step(jax.random.key(0), state._replace(params=broken), batch)
    after, metrics = step(jax.random.key(1), after, batch)
    assert np.asarray(after.carry.consecutive_skipped).tolist() == [[2, 0]]
    assert np.asarray(after.carry.skipped).tolist() == [[2, 0]]
    assert int(after.step) == 2
    assert int(after.skipped) == int(after.consecutive_skipped) == 0
    assert np.asarray(metrics["skipped_by_model"]).tolist() == [2, 0]
    kernel = after.params["params"]["Dense_0"]["kernel"]
    assert np.all(np.isnan(kernel[0]))
    assert np.all(np.isfinite(kernel[1]))
    assert not np.array_equal(kernel[1], state.params["params"]["Dense_0"]["kernel"][1])


def test_a_step_is_skipped_where_every_model_diverged(tmp_path):
    experiment = build_experiment(smoke(), tmp_path)
    broken = jax.tree.map(lambda leaf: leaf * jnp.nan, experiment.state.params)
    batch = jnp.asarray(experiment.data[:50])[None]
    after, _ = jax.jit(experiment.train_step)(
        jax.random.key(0), experiment.state._replace(params=broken), batch
    )
    assert int(after.skipped) == int(after.consecutive_skipped) == 1


def test_beta_moves_linearly_to_its_end():
    config = smoke(**{"loss.betas": (0.5, 0.9), "loss.beta_start": 0.1})
    for step, expected in ((0, (0.1, 0.1)), (5, (0.3, 0.5)), (10, (0.5, 0.9))):
        betas = plane_beta.betas_at(config, 10, jnp.int32(step))
        np.testing.assert_allclose(betas, expected, rtol=1e-6)
    config = smoke(**{"loss.betas": (0.5, 0.9)})
    np.testing.assert_allclose(plane_beta.betas_at(config, 10, jnp.int32(3)), (0.5, 0.9), rtol=1e-6)


def test_chains_follow_a_share_of_the_density():
    """Long chains on f = -x^2 / 2 for exponent 1 - beta: variance 1 / (1 - beta), plus a bias."""
    config = smoke(**{"sampler.step_size": 0.05, "sampler.num_steps": 200})
    density = plane_beta.tempered(
        lambda x: -0.5 * jnp.sum(x**2), plane_beta.losses.beta_sampling_temperature(0.5)
    )
    ends, metrics = jax.jit(lambda key: plane_beta.short_chains(config, key, density, 2000))(
        jax.random.key(0)
    )
    variance = 2.0 / (1 - 0.05 / 4)  # exact for the discretised chain: v / (1 - step / 2v)
    error = variance * math.sqrt(2 / ends.size)
    assert np.var(np.asarray(ends)) == pytest.approx(variance, abs=5 * error)
    assert 0.9 < float(metrics["chain_acceptance_prob"]) <= 1.0


def test_no_step_leaves_the_initial_law():
    changes = {
        "sampler.num_steps": 0,
        "sampler.start_mean": (3.0, -1.0),
        "sampler.start_scale": 0.5,
    }
    ends, metrics = plane_beta.short_chains(smoke(**changes), jax.random.key(0), jnp.sum, 4000)
    ends = np.asarray(ends)
    assert metrics == {}
    np.testing.assert_allclose(np.mean(ends, axis=0), (3.0, -1.0), atol=5 * 0.5 / math.sqrt(4000))
    assert np.std(ends - np.mean(ends, axis=0)) == pytest.approx(
        0.5, abs=5 * 0.5 / math.sqrt(2 * 8000)
    )


def gradient_of(variant, beta):
    """One vector, at random parameters; the chains do not move, so all betas see the same ends."""
    config = smoke(**{"loss.beta_variant": variant, "sampler.num_steps": 0})
    config.loss.output_scale = 40.0
    energy_fn, params = plane_beta.network(config, jax.random.key(5))
    points = plane_beta.DATA["gmm"].points(jax.random.key(6), 8)
    learn = jax.jit(partial(plane_beta.learn, config, energy_fn))
    gradients, _, metrics = learn(jax.random.key(7), params, jnp.float32(beta), points)
    assert float(metrics["positive_weight"]) > 0
    return np.asarray(ravel_pytree(gradients)[0])


def relative_distance(first, second):
    return np.linalg.norm(first - second) / np.linalg.norm(second)


def test_the_four_objectives_are_four_but_one_at_beta_0():
    for variant in ("no_positive", "batch_corrected", "true_objective"):
        assert relative_distance(gradient_of(variant, 0.0), gradient_of("default", 0.0)) < 1e-4
    at_half = [gradient_of(variant, 0.5) for variant in BETA_VARIANTS]
    for i, first in enumerate(at_half):
        for second in at_half[:i]:
            assert relative_distance(first, second) > 1e-3


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("toy") / "run"
    assert launch(smoke(), "configs/toy_beta.py:smoke", str(workdir), "all") is None
    return workdir


def test_a_run_leaves_its_numbers_and_panels(finished):
    summary = summary_of(finished)
    report = strict_json((finished / "evaluation.json").read_text())
    assert set(report["by_beta"]) == {"0", "0_5"}
    assert unlisted(finished, "plane") == set()
    for i, numbers in enumerate(report["by_beta"].values()):
        assert numbers["sample_tv"] == summary["sample_tv"][i]
        assert 0 < report["perfect_sampler"]["sample_tv"] < numbers["sample_tv"] <= 1
        assert 0 < report["perfect_sampler"]["sample_kl"] < numbers["sample_kl"]
        assert numbers["is_diverged"] == 0
        assert 0 <= numbers["reweighted_tv"] <= 1
        assert len(numbers["sample_shares"]) == len(report["shares"]) == 8
        has_none = numbers["density_tv"] is None
        assert has_none == (numbers["border_mass"] > 0.01)
        assert has_none == (numbers["is_normalisable"] == 0) == (numbers["long_tv"] is None)
        assert has_none == (numbers["density_share_tv"] is None)
    # At beta 0 nothing is reweighted, only the chains' mass beyond the grid made up for; that is of
    # other chains of the same law.
    at_zero = report["by_beta"]["0"]
    beyond = pytest.approx(at_zero["negative_tv"], abs=2 * at_zero["outside"])
    assert at_zero["reweighted_tv"] == beyond
    refused = sum(numbers["is_normalisable"] == 0 for numbers in report["by_beta"].values())
    assert len(report["notes"]) == refused
    for name in ("panels", "training"):
        assert (finished / "plots" / f"{name}.png").stat().st_size > 10_000
    last = rows_of(finished)[-1]
    assert last["step"] == 20
    np.testing.assert_allclose(last["beta"], (0.0, 0.5))
    assert last["positive_weight"][0] == pytest.approx(1 / 5)  # of 4 negatives and itself


def test_an_evaluation_on_another_grid_leaves_the_panels_alone(finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    before = {name: body for name, body in contents(folder).items() if name.endswith(".npz")}
    assert before
    evaluate_saved(smoke(**{"eval.grid_points": 90}), str(folder))
    after = contents(folder)
    assert {name: after[name] for name in before} == before


def test_numbers_of_a_known_model(tmp_path):
    """An energy that is the truth's own scores nothing, and a linear one is refused."""
    config = smoke(**{"loss.output_scale": 1.0})
    monitor = build_experiment(config, tmp_path).monitor
    samples = np.asarray(monitor.toy.points(jax.random.key(3), 200))
    perfect = monitor.numbers(monitor.truth + 5.0, samples)
    assert perfect["density_tv"] == pytest.approx(0.0, abs=1e-9)
    assert perfect["density_kl"] == pytest.approx(0.0, abs=1e-9)
    linear = monitor.grid.centres.sum(axis=1).reshape(monitor.truth.shape)
    refused = monitor.numbers(linear, samples)
    assert refused["is_normalisable"] == 0.0
    assert math.isnan(refused["density_tv"])
    assert math.isnan(refused["density_kl"])
    (note,) = monitor._notes({**refused, "beta": 0.5, "is_diverged": 0.0})
    assert note.startswith("beta 0.5 has ")
    assert "no normalised density is reported" in note
    lost = monitor.numbers(np.full_like(linear, np.nan), samples)
    (note,) = monitor._notes({**lost, "beta": 0.5, "is_diverged": 0.0})
    assert "all of its mass at the grid's border, or values that are not finite" in note


def test_an_energy_becomes_a_density_and_its_divergence_from_the_data(tmp_path):
    """A Gaussian's energy, in units of 1 / output_scale: its log density, and KL(data || model)."""
    config = smoke(**{"loss.output_scale": 10.0, "eval.grid_points": 100})
    whole = build_experiment(config, tmp_path).monitor

    def energy_fn(params, x):
        return params * jnp.sum(x**2, axis=-1) / 10.0

    monitor = dataclasses.replace(whole, energy_fn=energy_fn)
    log_densities, samples = monitor._arrays(jnp.array([2.0, 3.0]))
    squares = np.sum(monitor.grid.centres**2, axis=1).reshape(100, 100)
    np.testing.assert_allclose(log_densities, [-2 * squares, -3 * squares], rtol=1e-5)
    assert samples.shape == (2, 200, 2)
    numbers = monitor.numbers(np.asarray(log_densities[0]), np.asarray(samples[0]))
    cell = monitor.grid.width**2
    data, model = np.exp(monitor.truth), np.exp(-2 * squares)
    model /= model.sum() * cell
    expected = np.sum(data * np.log(data / model)) * cell
    assert numbers["density_kl"] == pytest.approx(expected, rel=1e-5)
    assert numbers["density_tv"] == pytest.approx(np.abs(data - model).sum() * cell / 2, rel=1e-5)


def test_the_studies_have_a_column_for_every_beta():
    for study in read(EXPERIMENTS / "studies" / "toy_beta.py").values():
        told = {name.split(".")[1] for name, _, _ in study.columns.values() if "." in name}
        for row in study.rows.values():
            config, *arguments = [row] if isinstance(row, str) else row
            betas = get_config(config.partition(":")[2]).loss.betas
            assert told == set(map(name_of, betas))
            assert all(argument.startswith("--config.loss.beta_variant=") for argument in arguments)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"data.name": "spirals"},
            r"config\.data\.name must be one of \[.circles., .gaussians., .gmm",
        ),
        ({"loss.beta_variant": "best"}, r"config\.loss\.beta_variant must be one of "),
        ({"model.activation": "tanh"}, r"config\.model\.activation must be one of "),
        ({"loss.betas": ()}, r"config\.loss\.betas must be one or more numbers that differ .* got"),
        (
            {"loss.betas": (0.5, 0.5)},
            r"config\.loss\.betas must be one or more numbers that differ",
        ),
        ({"loss.betas": (0.1, 0.1000001)}, r"betas must be .* that differ in their first six"),
        ({"loss.betas": (0.5, 1.0)}, r"config\.loss\.betas must be finite and below 1 in every"),
        ({"loss.betas": (0.5, "a")}, r"config\.loss\.betas must be finite and below 1 in every"),
        ({"loss.betas": (-0.5, 0.1)}, r"must be 0 or more, got -0\.5\. .*allow_negative=True"),
        ({"loss.beta_start": -0.1}, r"must be 0 or more, got -0\.1\. .*allow_negative=True"),
        ({"sampler.start_mean": (1.0,)}, r"config\.sampler\.start_mean must have two entries"),
        (
            {"sampler.start_mean": (1.0, "a")},
            r"config\.sampler\.start_mean must be finite in every",
        ),
        ({"sampler.num_steps": -1}, r"config\.sampler\.num_steps must be an integer of at"),
        ({"mesh.num_shards": 2}, r"config\.mesh\.num_shards must be 1 for config.loss.name=beta"),
        (
            {"loss.beta_variant": "true_objective", "train.batch_size": 25},
            r"config\.train\.batch_size must be even .* got 25",
        ),
        (
            {"eval.num_samples": 1},
            r"config\.eval\.num_samples must be an integer of at least 2, got 1",
        ),
        ({"eval.half_width": 1.0}, r"config\.eval\.half_width=1\.0 leaves .* Widen it"),
        ({"eval.grid_points": 20}, r"config\.eval\.bandwidth=0\.05 must be at least .* 0\.2\."),
        ({"train.batch_size": 502}, r"config\.train\.batch_size must be at most .* 500 examples"),
    ],
)
def test_what_a_configuration_may_not_say(changes, expected, tmp_path):
    with pytest.raises(ConfigError, match=expected):
        build_experiment(smoke(**changes), tmp_path)
    assert not list(tmp_path.iterdir())


def test_negative_betas_are_opt_in(tmp_path):
    state, metrics = step_of(
        smoke(**{"loss.betas": (-0.5, 0.0), "loss.allow_negative": True}), tmp_path
    )
    assert np.all(np.isfinite(np.asarray(metrics["losses"])))
    assert int(state.step) == 1
    assert name_of(-0.5) == "minus_0_5"


def test_the_trained_models_are_used(finished):
    used = recipes.load(finished)
    points = used.sample(jax.random.key(0), 5)["points"]
    assert points.shape == (5, 2, 2)  # (draws, betas, coordinates)
    energies = used.apply(used.params, points[:, 0])
    scale = used.config.loss.output_scale
    np.testing.assert_allclose(used.score(points[:, 0])["log_density"], -scale * energies.T)


def test_points_to_score_are_checked(finished, tmp_path):
    used = recipes.load(finished)
    asked = SimpleNamespace(data=str(tmp_path / "points.npy"))
    for points, expected in ((np.zeros((3, 3)), "got shape"), (np.full((3, 2), np.nan), "finite")):
        np.save(asked.data, points)
        with pytest.raises(ConfigError, match=expected):
            use._score_data(used, asked)
    np.save(asked.data, np.zeros((3, 2)))
    assert use._score_data(used, asked)["log_density"].shape == (3, 2)
    with pytest.raises(ConfigError, match=r"must end in \.npz for points"):
        use._draw_samples(used, SimpleNamespace(seed=0, num=2, num_steps=None, out="points.png"))


def test_points_of_a_law_may_differ_in_their_last_bits(finished, monkeypatch):
    """Another machine draws them so, or a compiler with other flags."""
    digest, end = training.digest_data, np.float32(np.inf)

    def digest_elsewhere(data):
        return digest(jax.tree.map(lambda x: np.nextafter(np.asarray(x), end), data))

    monkeypatch.setattr(training, "digest_data", digest_elsewhere)
    assert recipes.load(finished).is_finished
