import json
import shutil

import matplotlib
import numpy as np
import pytest
from experiment_runs import contents, digits, rows_of
from legible import faults
from matplotlib.figure import Figure

from ebmjax.latent import power_schedule
from ebmjax.recipes.evaluators import plots
from ebmjax.recipes.models.energy import plots as image_plots
from ebmjax.recipes.models.joint import plots as joint_plots
from ebmjax.recipes.models.latent import plots as latent_plots

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


@pytest.mark.parametrize(
    "values", [(3.1, 4.7), (2900.0, 4100.0), (0.00031, 0.00047), (2000, 40000)]
)
def test_ticks_of_a_short_logarithmic_axis_are_few_and_plain(values, tmp_path):
    with plots.figure(tmp_path / "a.png", 1, 4, size=(2.0, 2.0)) as (grid,):
        for axes in grid:
            axes.plot(values, values, "o")
            axes.set(xscale="log", yscale="log")
    assert faults(grid[0].figure) == []
    for axis in (grid[0].xaxis, grid[0].yaxis):
        assert 2 <= len(axis.get_ticklocs()) <= 6
        assert not len(axis.get_ticklocs(minor=True))


def test_fewer_images_than_columns_leave_no_empty_place():
    assert plots.montage(np.zeros((2, 4, 4, 1), np.uint8), 10).shape == (6, 11, 3)


def test_a_column_skips_rows_without_it_and_turns_null_into_nan():
    rows = [
        {"step": 1},
        {"step": 2, "loss": 1.5, "energies": [1.0, None]},
        {"step": 3, "loss": None, "energies": [3.0, 4]},
    ]
    steps, losses = plots.column(rows, "loss")
    np.testing.assert_array_equal(steps, [2, 3])
    np.testing.assert_array_equal(losses, [1.5, np.nan])
    _, energies = plots.column(rows, "energies")
    np.testing.assert_array_equal(energies, [[1.0, np.nan], [3.0, 4.0]])
    assert len(plots.column(rows, "absent")[0]) == 0


def drawn(*rows):
    axes = Figure().subplots()
    for name in ("prior_energy", "absent"):
        plots.curve(axes, list(rows), name)
    (line,) = axes.lines
    return axes, line


def test_a_curve_draws_what_is_there():
    rows = [{"step": 2}, {"step": 4, "prior_energy": 2.0}, {"step": 6, "prior_energy": 1.0}]
    _, line = drawn(*rows)
    np.testing.assert_array_equal(line.get_xydata(), [[4, 2], [6, 1]])
    assert line.get_label() == "prior energy"


def test_the_untrained_model_does_not_rule_the_axes():
    untrained = {"step": 0, "prior_energy": 1e6}
    axes, line = drawn(
        untrained, {"step": 4, "prior_energy": 2.0}, {"step": 8, "prior_energy": 1.0}
    )
    np.testing.assert_array_equal(line.get_xydata(), [[4, 2], [8, 1]])
    assert axes.get_ylim()[1] < 3.0
    assert axes.get_xlim()[0] > 3.0


@pytest.mark.parametrize("step", [0, 5])
def test_a_single_number_is_a_dot(step):
    axes, line = drawn({"step": step, "prior_energy": 2.0})
    np.testing.assert_array_equal(line.get_xydata(), [[step, 2]])
    assert line.get_marker() == "."
    assert axes.get_ylim()[0] < 2.0 < axes.get_ylim()[1]


@pytest.mark.parametrize(("num", "marker"), [(plots.FEW, "."), (plots.FEW + 1, "")])
def test_each_of_a_few_numbers_is_a_dot(num, marker):
    _, line = drawn(*({"step": step, "prior_energy": 2.0} for step in range(1, num + 1)))
    assert line.get_marker() == marker


def test_several_repeats_are_a_mean_in_its_range():
    axes, line = drawn(
        {"step": 1, "prior_energy": [1.0, 5.0]}, {"step": 2, "prior_energy": [2.0, 4.0]}
    )
    np.testing.assert_array_equal(line.get_ydata(), [3.0, 3.0])
    corners = axes.collections[0].get_paths()[0].vertices
    assert (corners[:, 1].min(), corners[:, 1].max()) == (1.0, 5.0)


LONG = "the distance of the samples from the images of the training set, in units of a pixel"


def fill(grid):
    for axes in grid.flat:
        axes.plot([1, 2], [3, 4], label="one")
        axes.set(title=LONG, xlabel=LONG, ylabel=LONG)
    plots.legend(grid[0, 0].figure)


@pytest.mark.slow
def test_long_titles_and_labels_are_broken_into_lines(tmp_path, figures):
    with plots.open_figure(2, 3) as grid:
        fill(grid)
        assert faults(grid[0, 0].figure)
    with plots.figure(tmp_path / "long.png", 2, 3) as grid:
        fill(grid)
    assert " ".join(figures["long.png"].axes[0].get_xlabel().split("\n")) == LONG
    assert faults(figures["long.png"]) == []


def test_a_legend_within_a_panel_and_texts_over_each_other_are_faults():
    with plots.open_figure(1, 1) as ((axes,),):
        axes.plot([1, 2], [3, 4], label="one")
        axes.legend()
        axes.set_xticks([1.0, 1.001], ["first", "second"])
        assert faults(axes.figure) == ["'first' over 'second'", "a legend over a panel"]


def test_panels_without_anything_are_hidden(tmp_path, figures):
    with plots.figure(tmp_path / "some.png", *plots.shape(4)) as grid:
        grid[0, 0].plot([1, 2])
        grid[0, 1].text(0.5, 0.5, "why not")
    assert [axes.get_visible() for axes in figures["some.png"].axes] == [True, True, False, False]


def test_a_figure_that_fails_is_not_saved_and_changes_no_style(tmp_path):
    before = dict(matplotlib.rcParams)
    with pytest.raises(ZeroDivisionError), plots.figure(tmp_path / "none.png"):
        1 / 0  # noqa: B018
    assert not (tmp_path / "none.png").exists()
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(
    ("num", "shape"), [(0, (1, 1)), (1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (5, (2, 3)), (7, (3, 3))]
)
def test_panels_fill_their_lines(num, shape):
    assert plots.shape(num) == shape


@pytest.mark.parametrize(
    ("weights", "features"), [("", "digits features"), ("weights.npz", "inception v3")]
)
def test_a_distance_is_named_after_its_features(weights, features, tmp_path, figures):
    data = {"name": "digits", "image_size": 8, "num_classes": 10}
    config = {"eval": {"inception_weights": weights}, "data": data}
    rows = [{"step": 4, "sample_fid": 3.0, "start_fid": 4.0, "sample_kid": 1.0, "loss": None}]
    for family in (joint_plots, image_plots, latent_plots):
        plots.panels(tmp_path / "training.png", rows, family.PANELS, config)
        labels = [axes.get_ylabel() for axes in figures["training.png"].axes]
        assert labels, family
        for label in labels:
            assert " ".join(label.split()).endswith(f"({features})"), label


@pytest.fixture
def bare(smoke, tmp_path):
    """Makes a folder with only the files that a run's plots are drawn from."""
    shutil.copytree(smoke / "monitor", tmp_path / "monitor")
    shutil.copy(smoke / "metrics.jsonl", tmp_path)
    (tmp_path / "plots").mkdir()
    return tmp_path


POWERS = np.asarray(power_schedule(3, 6.0))


def draw(folder):
    latent_plots.draw(folder, digits(), POWERS)


def write(folder, rows):
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_plots_can_be_drawn_again_from_the_folder_alone(bare, smoke):
    before = contents(bare)
    draw(bare)
    again = contents(bare)
    assert {name: again[name] for name in before} == before
    new = again.keys() - before.keys()
    assert len(new) == 5
    original = contents(smoke)
    for name in new:
        assert again[name] == original[name], name


@pytest.mark.slow
def test_pictures_are_of_the_steps_that_have_them(bare, figures):
    *earlier, last = sorted((bare / "monitor").iterdir())
    np.savez(last)
    draw(bare)
    assert figures["reconstructions.png"].axes[0].get_title() == f"step {int(earlier[-1].stem)}"
    for path in earlier:
        np.savez(path)
    for path in (bare / "plots").iterdir():
        path.unlink()
    draw(bare)
    assert len(list((bare / "plots").iterdir())) == 3


def test_a_run_full_of_nulls_can_be_drawn(bare):
    names = ("loss", "test_log_evidence", "test_trapezium_log_evidence", "prior_acceptance")
    names += ("reconstruction_error", "test_reconstruction_error")
    write(bare, [row | {name: None for name in names if name in row} for row in rows_of(bare)])
    draw(bare)
    assert len(list((bare / "plots").iterdir())) == 5


@pytest.mark.slow
def test_numbers_have_panels_where_there_are_any(bare, figures):
    draw(bare)
    whole = figures["training.png"].axes
    rows = rows_of(bare)
    left_out = ("sample_", "start_", "gaussian_", "test_images_", "prior_acc", "posterior_acc")
    write(bare, [{k: v for k, v in r.items() if not k.startswith(left_out)} for r in rows])
    draw(bare)
    common = ["loss", "energy, nats", "squared error, a pixel"]
    common += ["log evidence of test images, nats", "variance of gradients"]
    assert labels(figures["training.png"].axes) == common
    distances = [f"{name} of samples (digits features)" for name in ("FID", "KID")]
    assert labels(whole) == [*common, *distances, "acceptance probability"]
    fid, acceptance = whole[5], whole[7]
    names = ["sample fid", "start fid", "gaussian fid", "test images fid"]
    assert [line.get_label() for line in fid.lines] == names
    expected = [row["sample_fid"] for row in rows if row["step"] and "sample_fid" in row]
    assert fid.lines[0].get_ydata().tolist() == expected
    by_power = [row["posterior_acceptance"] for row in rows if "posterior_acceptance" in row]
    assert [line.get_label() for line in acceptance.lines] == [
        "prior acceptance",
        "posterior, t = 1",
        "posterior, lowest power above 0",
    ]
    assert acceptance.lines[1].get_ydata().tolist() == [one[-1] for one in by_power]
    assert acceptance.lines[2].get_ydata().tolist() == [one[0] for one in by_power]


def labels(panels):
    return [" ".join(axes.get_ylabel().split("\n")) for axes in panels if axes.get_visible()]


def test_e_t_is_drawn_against_the_power_for_each_snapshot(bare, figures):
    draw(bare)
    axes, _ = figures["mean_log_likelihood.png"].axes  # beside a bar of colours
    evaluated = [r for r in rows_of(bare) if r["step"] and "test_mean_log_likelihoods" in r]
    assert [line.get_label() for line in axes.lines] == [f"step {r['step']}" for r in evaluated]
    for line, row in zip(axes.lines, evaluated, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), POWERS)
        np.testing.assert_array_equal(line.get_ydata(), row["test_mean_log_likelihoods"])


def test_numbers_of_the_users_parts_have_panels(tmp_path, monkeypatch):
    rows = [{"step": 1, "loss": 1.0, "my_score": 2.0, "also $mine": None, "sample_fid": 3.0}]
    rows += [{"step": 2, "another": [1.0, 2.0], "recovery": {"number": 1}, "ood.mine": 1.0}]
    own = plots.with_own_panels(rows, {"loss": {"name": "mine.py:loss"}})
    assert own == [
        ("my score", ("my_score",), "linear"),
        (r"also \$mine", ("also $mine",), "linear"),
        ("another", ("another",), "linear"),
    ]
    assert plots.with_own_panels(rows, {"loss": {"name": "beta"}}) == []
    many = [{"step": 1} | {f"mine_{i}": 1.0 for i in range(99)}]
    assert (
        len(plots.with_own_panels(many, {"eval": {"functions": ("mine.py:f",)}})) == plots.MOST_OWN
    )
    drawn = []
    monkeypatch.setattr(plots, "by_step", lambda _, label, scale: drawn.append(label))
    wanted = [("loss", ("loss", "my_score"), "linear"), ("none", ("nothing",), "log")]
    plots.panels(tmp_path / "training.png", rows, wanted, {"loss": {"name": "mine.py:loss"}})
    assert drawn == ["loss", "another"]
