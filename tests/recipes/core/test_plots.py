import json
import shutil

import numpy as np
import pytest
from experiment_runs import contents, rows_of
from matplotlib import pyplot as plt
from PIL import Image

from ebmjax.latent import power_schedule
from ebmjax.recipes.core import plots
from ebmjax.recipes.latent import plots as thermo_plots

LINE = 96


def test_a_montage_by_hand():
    """Three grey images of one row and two columns, two to a row: a line around each."""
    images = np.array([[[1, 2]], [[3, 4]], [[5, 6]]], np.uint8)[..., None]
    sheet = plots.montage(images, 2)
    o = LINE
    expected = [
        [o, o, o, o, o, o, o],
        [o, 1, 2, o, 3, 4, o],
        [o, o, o, o, o, o, o],
        [o, 5, 6, o, o, o, o],
        [o, o, o, o, o, o, o],
    ]
    assert sheet.dtype == np.uint8
    assert sheet.shape == (5, 7, 3)
    for channel in range(3):
        np.testing.assert_array_equal(sheet[..., channel], expected)


def test_a_montage_keeps_colours_apart():
    images = np.arange(2 * 2 * 1 * 3, dtype=np.uint8).reshape(2, 2, 1, 3)
    sheet = plots.montage(images, 1)
    assert sheet.shape == (7, 3, 3)
    np.testing.assert_array_equal(sheet[1:3, 1], images[0, :, 0])
    np.testing.assert_array_equal(sheet[4:6, 1], images[1, :, 0])
    lines = np.delete(sheet, [1, 2, 4, 5], axis=0)
    assert (lines == LINE).all()


def test_fewer_images_than_columns_leave_no_empty_place():
    assert plots.montage(np.zeros((2, 4, 4, 1), np.uint8), 10).shape == (6, 11, 3)


def test_an_image_grid_is_enlarged_without_smoothing(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (4, 3, 3, 3), np.uint8)
    plots.image_grid(tmp_path / "grid.png", images, columns=2, min_side=20)
    with Image.open(tmp_path / "grid.png") as image:
        grid = np.asarray(image)
    # The montage has 2 (3 + 1) + 1 = 9 pixels a side: three times that is the first to reach 20.
    assert grid.shape == (27, 27, 3)
    np.testing.assert_array_equal(grid[1::3, 1::3], plots.montage(images, 2))
    np.testing.assert_array_equal(grid, grid[::3, ::3].repeat(3, axis=0).repeat(3, axis=1))


def test_a_column_skips_rows_without_it_and_turns_null_into_nan():
    rows = [
        {"step": 0},
        {"step": 2, "loss": 1.5, "energies": [1.0, None]},
        {"step": 3, "loss": None, "energies": [3.0, 4]},
    ]
    steps, losses = plots.column(rows, "loss")
    np.testing.assert_array_equal(steps, [2, 3])
    np.testing.assert_array_equal(losses, [1.5, np.nan])
    _, energies = plots.column(rows, "energies")
    np.testing.assert_array_equal(energies, [[1.0, np.nan], [3.0, 4.0]])
    assert len(plots.column(rows, "absent")[0]) == 0


def test_a_curve_draws_what_is_there():
    _, axes = plt.subplots()
    rows = [{"step": 0}, {"step": 4, "prior_energy": 2.0}, {"step": 6, "prior_energy": 1.0}]
    plots.curve(axes, rows, "prior_energy")
    plots.curve(axes, rows, "absent")
    (line,) = axes.lines
    np.testing.assert_array_equal(line.get_xydata(), [[4, 2], [6, 1]])
    assert line.get_label() == "prior energy"
    plt.close()


@pytest.fixture
def bare(smoke, tmp_path):
    """Makes a folder with only the files that a run's plots are drawn from."""
    shutil.copytree(smoke / "monitor", tmp_path / "evaluations")  # as runs made before have it
    shutil.copy(smoke / "metrics.jsonl", tmp_path)
    (tmp_path / "plots").mkdir()
    return tmp_path


POWERS = np.asarray(power_schedule(3, 6.0))


def test_the_plots_can_be_drawn_again_from_the_folder_alone(bare, smoke):
    before = contents(bare)
    thermo_plots.draw(bare, POWERS)
    drawn = contents(bare)
    assert {name: drawn[name] for name in before} == before
    new = drawn.keys() - before.keys()
    assert len(new) == 5
    original = contents(smoke)
    for name in new:
        assert drawn[name] == original[name], name
    assert not plt.get_fignums(), "figures stay open"


def test_a_run_full_of_nulls_can_be_drawn(bare):
    names = ("loss", "test_log_evidence", "test_trapezium_log_evidence", "prior_acceptance")
    names += ("reconstruction_error", "test_reconstruction_error")
    rows = [row | {name: None for name in names if name in row} for row in rows_of(bare)]
    (bare / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    thermo_plots.draw(bare, POWERS)
    assert len(list((bare / "plots").iterdir())) == 5


def test_samplers_without_acceptance_leave_that_panel_empty(bare):
    rows = [{k: v for k, v in row.items() if "acceptance" not in k} for row in rows_of(bare)]
    (bare / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    thermo_plots.draw(bare, POWERS)
    assert (bare / "plots" / "training.png").exists()


def test_distances_have_panels_where_there_are_any(bare, monkeypatch):
    drawn = []
    monkeypatch.setattr(thermo_plots, "finish", lambda figure, path: drawn.append(figure))
    rows = rows_of(bare)
    thermo_plots.training_curves(bare / "unused.png", rows)
    of_samples = ("sample_", "start_")
    without = [{k: v for k, v in row.items() if not k.startswith(of_samples)} for row in rows]
    thermo_plots.training_curves(bare / "unused.png", without)
    labels = [[axes.get_ylabel() for axes in figure.axes] for figure in drawn]
    common = ["loss", "energy", "error a pixel", "nats", "variance"]
    assert labels[0] == [*common, "FID of samples", "KID of samples", "acceptance probability"]
    assert labels[1] == [*common, "acceptance probability"]
    fid = drawn[0].axes[5].lines[0].get_ydata()
    assert fid.tolist() == [row["sample_fid"] for row in rows if "sample_fid" in row]
    assert [line.get_label() for line in drawn[0].axes[5].lines] == ["sample fid", "start fid"]
    plt.close("all")


def test_e_t_is_drawn_against_the_power_for_each_snapshot(bare, monkeypatch):
    drawn = []
    monkeypatch.setattr(thermo_plots, "finish", lambda figure, path: drawn.append(figure))
    rows = rows_of(bare)
    thermo_plots.log_likelihood_by_power(bare / "unused.png", rows, POWERS)
    (axes,) = drawn[0].axes
    evaluated = [row for row in rows if "test_mean_log_likelihoods" in row]
    assert [line.get_label() for line in axes.lines] == [f"step {r['step']}" for r in evaluated]
    for line, row in zip(axes.lines, evaluated, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), POWERS)
        np.testing.assert_array_equal(line.get_ydata(), row["test_mean_log_likelihoods"])
    plt.close(drawn[0])
