"""Tests what a study's figure over training shows of its rows."""

import json

import numpy as np
import pytest
from PIL import Image

from ebmjax.recipes.folder.run_folder import as_json
from ebmjax.recipes.study.cells import load
from ebmjax.recipes.study.figures import over_training
from experiments.configs import jem_digits

GAP = ("energy_gap", "gap", "linear")
FID = ("sample_fid", "FID ({extractor})", "log")


def write_run(folder, row, seed, rows, weights=""):
    run = folder / row / f"seed{seed}"
    run.mkdir(parents=True)
    config = jem_digits.get_config()
    config.evals.inception_weights = weights
    (run / "config.json").write_text(json.dumps(as_json(config)))
    (run / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))


@pytest.fixture
def study(tmp_path):
    """Two rows that log the gap, the first of two seeds; a third of FIDs alone."""
    gaps = [{"step": 1, "energy_gap": 1.0}, {"step": 5, "energy_gap": 2.0, "sample_fid": 0.0}]
    write_run(tmp_path, "beta_0", 0, [*gaps, {"step": 10, "energy_gap": None, "sample_fid": 3.0}])
    write_run(tmp_path, "beta_0", 1, [{"step": 1, "energy_gap": 3.0}])
    write_run(tmp_path, "beta_2", 0, [{"step": 4, "energy_gap": 5.0}])
    write_run(tmp_path, "other", 0, [{"step": 6, "sample_fid": 7.0}])
    (tmp_path / "table.md").write_text("no row")
    return tmp_path


def lines(axes):
    """Label to steps and values, the seeds' own lines left out."""
    return {
        line.get_label(): (line.get_xdata().tolist(), line.get_ydata().tolist())
        for line in axes.lines
        if not line.get_label().startswith("_")
    }


def test_a_panel_has_means_and_seeds(study, figures):
    over_training((GAP, FID), "both", study)
    gap, fid = figures["both.png"].axes
    assert lines(gap) == {"beta 0": ([1], [2.0]), "beta 2": ([4], [5.0])}
    # The seeds themselves, as far as they came.
    seeds = [curve.get_ydata() for curve in gap.lines if curve.get_label().startswith("_child")]
    for found, expected in zip(seeds, ([1.0, 2.0, np.nan], [3.0], [5.0]), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(lines(fid)["beta 0"], [[5, 10], [np.nan, 3.0]])
    assert (fid.get_yscale(), fid.get_ylabel()) == ("log", "FID (digits features)")
    (legend,) = figures["both.png"].legends
    assert [text.get_text() for text in legend.get_texts()] == ["beta 0", "beta 2", "other"]
    with Image.open(study / "both.png") as image:
        assert image.width > image.height


def test_what_the_starts_score_is_dotted_beside_the_samples(tmp_path, figures):
    rows = [{"step": step, "sample_fid": 9.0 - step, "start_fid": 4.0} for step in (2, 5)]
    write_run(tmp_path, "row", 0, rows, weights="weights.npz")
    over_training((FID,), "fid", tmp_path)
    (axes,) = figures["fid.png"].axes
    assert axes.get_ylabel() == "FID (inception v3)"
    dotted = axes.lines[-1]
    assert (dotted.get_linestyle(), dotted.get_ydata().tolist()) == (":", [4.0, 4.0])
    assert len(axes.lines) == 3  # the starts of single seeds would hide the samples


def test_there_is_no_figure_of_no_run(study, figures):
    over_training((GAP,), "none", study, ["missing"])
    assert not figures
    assert not (study / "none.png").exists()


@pytest.mark.parametrize("name", ["studies/chains.py", "studies/chains.py:igebm"])
def test_chains_are_drawn_by_their_rows(name, tmp_path, figures):
    study = load(name)
    accepted = {"step": 3, "chain_acceptance_prob": 0.5}
    for label in study.rows:
        write_run(tmp_path, label.replace(" ", "_"), 0, [accepted])
        (tmp_path / label.replace(" ", "_") / "seed0" / "monitor").mkdir()
        np.savez(
            tmp_path / label.replace(" ", "_") / "seed0" / "monitor" / "000003.npz",
            **{"profile.sgld.acceptance_prob": np.array([0.25, 0.75])},
        )
    for draw in study.draw:
        draw(tmp_path)
    titles = " ".join(axes.get_title() for axes in figures["chains.png"].axes)
    assert all(label in titles.replace("\n", " ") for label in study.rows)
