"""The study of samplers in the plane: its training, its runs, what it refuses."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats
from experiment_runs import build_experiment, launch, rows_of, strict_json, summary_of, unlisted
from PIL import Image

from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.models.plane import samplers as plane_samplers
from ebmjax.recipes.models.plane.fields import COMPARED
from experiments.configs.toy_samplers import VARIANTS, get_config

MEANS = np.array([[10.0, 0.0], [0.0, 10.0], [-10.0, 0.0], [0.0, -10.0]])


def smoke(**overrides):
    config = get_config("smoke")
    config.update_from_flattened_dict(overrides)
    return config


def step_of(config, workdir):
    experiment = build_experiment(config, workdir)
    batch = jnp.asarray(experiment.data[: config.train.batch_size])[None]
    step = jax.vmap(
        lambda key, state: experiment.train_step(key, state, batch),
        (None, None),
        axis_name="data",
        axis_size=1,
    )
    state, metrics = jax.jit(step)(jax.random.key(7), experiment.state)
    return experiment.state, *jax.tree.map(lambda leaf: leaf[0], (state, metrics))


def test_chains_start_at_the_batch_under_noise(tmp_path):
    """Without a move worth the name, negatives are N(data, start_scale^2)."""
    changes = {"sampler.step_size": 1e-12, "sampler.num_steps": 1, "data.num_points": 2000}
    config = smoke(**changes, **{"train.batch_size": 2000, "sampler.start_scale": 5.0})
    toy, means = plane_samplers.gaussians(config)
    points = toy.points(jax.random.key(0), 2000)
    np.testing.assert_allclose(means, MEANS, atol=1e-5)
    law = lambda key: plane_samplers.start(points, 5.0, key)  # noqa: E731
    starts = np.asarray(jax.vmap(law)(jax.random.split(jax.random.key(1), 2000)))
    # 50 of the means, 1 within, 25 of the noise; a near-Gaussian mixture's variance: sqrt(2 / n).
    assert np.var(starts) == pytest.approx(76, rel=5 * math.sqrt(2 / 4000))
    before, after, metrics = step_of(config, tmp_path)
    assert before.carry == () == after.carry
    assert float(metrics["chain_distance"]) < 1e-3


def test_persistent_chains_go_on_where_they_stood(tmp_path):
    changes = {
        "sampler.buffer.size": 60,
        "sampler.buffer.reinit_prob": 0.0,
        "sampler.step_size": 1e-4,
    }
    before, after, metrics = step_of(smoke(**changes), tmp_path)
    old, new = (np.asarray(state.carry.positions) for state in (before, after))
    assert old.shape == (1, 60, 2)
    moved = np.linalg.norm(new - old, axis=-1)[0]
    assert np.count_nonzero(moved) == 50
    # Three steps of noise sqrt(2e-4) in the plane; five times its scale.
    assert moved.max() < 5 * math.sqrt(2 * 3 * 2e-4) + 0.1
    mean = float(metrics["chain_distance"])
    assert mean == pytest.approx(moved[moved > 0].mean(), rel=1e-4)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("samplers") / "run"
    assert launch(smoke(), "configs/toy_samplers.py:smoke", str(workdir), "all") is None
    return workdir


@pytest.mark.slow
def test_a_run_leaves_its_numbers_and_pictures(finished):
    report = strict_json((finished / "evaluation.json").read_text())
    assert summary_of(finished)["steps"] == 16
    assert unlisted(finished, "plane") == set()
    assert {"energy_gap", "chain_acceptance_prob", "density_tv"} <= set(rows_of(finished)[-1])
    with np.load(finished / "evaluation.npz") as arrays:
        for setting in ("thesis", "tuned"):
            assert set(report[setting]) == set(COMPARED)
            for name, numbers in report[setting].items():
                positions = arrays[f"{setting}.{name}"]
                assert positions.shape == (4, 60, 2)
                with np.errstate(all="ignore"):
                    expected = np.max(
                        [
                            array_stats.rhat(
                                positions[:, 20:, i].astype(float),
                                chain_axis=0,
                                draw_axis=1,
                                method="identity",
                            )
                            for i in range(2)
                        ]
                    )
                # Rounding of float32 moves the variance within by an eps of the mean square.
                assert numbers["rhat_classic"] == pytest.approx(expected, rel=1e-3)
                assert numbers["seconds"] > 0
    for setting in ("thesis", "tuned"):
        for kind in ("scatter", "traces", "steps"):
            assert (finished / "plots" / f"eval_{kind}_{setting}.png").stat().st_size > 10_000
        with Image.open(finished / "plots" / f"eval_chains_{setting}.gif") as film:
            assert film.n_frames == 4
    for name in ("training", "density"):
        assert (finished / "plots" / f"{name}.png").stat().st_size > 10_000


def test_a_density_without_end_is_compared_with_nothing(tmp_path):
    monitor = build_experiment(smoke(), tmp_path).monitor
    slope = monitor.grid.centres.sum(axis=1).reshape(monitor.truth.shape)
    density = monitor.density_numbers(slope)
    assert math.isnan(density["density_tv"])
    judge, references = monitor.references(jax.random.key(0), slope, density, MEANS)
    assert set(references) == {"data"}
    assert math.isnan(judge(np.random.default_rng(0).normal(size=(4, 40, 2)))["distance_to_model"])
    report = {"density": density, "thesis": {}, "tuned": {}}
    (note,) = monitor._notes(report)
    assert note.endswith("Nothing is compared with it.")


def test_every_variant_is_a_configuration(tmp_path):
    for variant in VARIANTS:
        build_experiment(get_config(variant), tmp_path)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"eval.samplers": ("nuts",)}, r"config\.eval\.samplers must be one of \['adaptive_svgd"),
        ({"eval.samplers": ()}, r"config\.eval\.samplers must name at least one sampler"),
        ({"sampler.name": "pyld"}, r"config\.sampler\.name must be one of "),
        ({"eval.burn_in": 57}, r"config\.eval\.burn_in must leave at least 4 of .*=60 .* got 57"),
        ({"eval.num_chains": 1}, r"config\.eval\.num_chains must be an integer of at least 2"),
        ({"sampler.buffer.size": 40}, r"config\.sampler\.buffer\.size must be None .* got 40"),
        ({"loss.betas": (0.1,)}, r"config\.loss\.betas=.* has no effect here: it needs the robust"),
        (
            {"data.name": "gmm"},
            r"config\.data\.name must be one of \['gaussians', 'npy'\], got 'gmm'",
        ),
        ({"sampler.start_scale": -1.0}, r"config\.sampler\.start_scale must be positive"),
        ({"data.radius": 0.0}, r"config\.data\.radius must be positive"),
        ({"eval.half_width": 10.0}, r"config\.eval\.half_width=10\.0 leaves .* Widen it"),
    ],
)
def test_what_a_configuration_may_not_say(changes, expected, tmp_path):
    with pytest.raises(ConfigError, match=expected):
        build_experiment(smoke(**changes), tmp_path)
    assert not list(tmp_path.iterdir())
