"""Points of a user's own file train both models of the plane."""

import jax
import numpy as np
import pytest
from experiment_runs import build_experiment
from scipy import stats

from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.models.plane.own_points import own_points
from experiments.configs import toy_beta, toy_samplers

POINTS = np.random.default_rng(0).normal([0.5, -0.25], [0.4, 0.3], (400, 2))


def own(folder, points=POINTS, module=toy_beta, **changes):
    np.save(folder / "mine.npy", points)
    config = module.get_config("smoke")
    config.data.name, config.data.path = "npy", str(folder / "mine.npy")
    config.update_from_flattened_dict(changes)
    return config


def test_the_density_is_scipys_kernel_estimate_in_each_coordinate(tmp_path):
    found = own_points(own(tmp_path))
    assert found.num == 400
    at = POINTS[:50] + 0.1
    widths = POINTS.astype(np.float32).std(axis=0) * 400 ** (-1 / 6)
    expected = [np.log(np.mean(np.prod(stats.norm.pdf(x, POINTS, widths), axis=1))) for x in at]
    # Sums of 400 float32 terms.
    np.testing.assert_allclose(jax.vmap(found.log_density_fn)(at), expected, atol=1e-3)


def test_every_point_is_drawn_once_while_there_are_enough(tmp_path):
    found = own_points(own(tmp_path))
    drawn = np.asarray(found.points(jax.random.key(0), 400))
    order, ours = np.lexsort(drawn.T), np.lexsort(np.float32(POINTS).T)
    np.testing.assert_array_equal(drawn[order], np.float32(POINTS)[ours])
    assert found.points(jax.random.key(0), 1000).shape == (1000, 2)


@pytest.mark.parametrize("module", [toy_beta, toy_samplers])
def test_both_models_are_built_of_own_points(module, tmp_path):
    config = own(tmp_path, module=module, **{"data.num_points": 300})
    experiment = build_experiment(config, tmp_path / "run")
    assert experiment.data.shape == (300, 2)
    assert experiment.about_data == ("train 300 of 400 points, truth: their kernel estimate",)


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        (POINTS[:1], "differ in both coordinates"),
        (POINTS[:0], r"got shape \(0, 2\)"),
        (POINTS[:, :1], r"got shape \(400, 1\)"),
        (
            np.where(POINTS > 0.9, np.nan, POINTS),
            "all finite in 32 bits: .* are not, the first in row",
        ),
        (np.zeros((5, 2)), "differ in both coordinates"),
        (np.array([["a", "b"]] * 3), "and dtype <U1"),
    ],
)
def test_mistakes_of_points_name_the_file(points, expected, tmp_path):
    with pytest.raises(ConfigError, match=rf"config\.data\.path=.*{expected}"):
        build_experiment(own(tmp_path, points), tmp_path / "run")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"npy needs config\.data\.path"):
        build_experiment(own(tmp_path, **{"data.path": ""}), tmp_path / "run")
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        build_experiment(own(tmp_path, **{"data.path": "nothing.npy"}), tmp_path / "run")


def test_a_grid_that_cuts_the_points_off_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"half_width=2.0 leaves .* Widen it"):
        build_experiment(own(tmp_path, 10 * POINTS), tmp_path / "run")
