"""The reliability diagrams of a study of joint energy models."""

import json
import math

import numpy as np
import pytest
from PIL import Image

from ebmjax.metrics import ReliabilityBins
from experiments.figures.joint import pool_bins, reliability

ROWS = {"JEM, SGLD": "SGLD", "SVGD, corrected": "SVGD", "SVGD, literal": "literal"}
EDGES = [0.0, 0.5, 1.0]
FIRST = {"edges": EDGES, "confidence": [0.4, 0.9], "accuracy": [0.5, 1.0], "count": [2, 8]}
SECOND = {"edges": EDGES, "confidence": [0.3, 0.7], "accuracy": [0.0, 0.5], "count": [6, 4]}


def write(folder, accuracy, bins, *, is_diverged=False):
    folder.mkdir(parents=True)
    found = {"accuracy": accuracy, "ece": 0.1 * (accuracy or 0.0), "reliability": bins}
    (folder / "evaluation.json").write_text(json.dumps({"classification": found}))
    if is_diverged:
        (folder / "diverged.txt").touch()


@pytest.fixture
def study(tmp_path):
    """Two seeds of SGLD, one of SVGD beside two that failed, none of the literal loss."""
    write(tmp_path / "JEM,_SGLD" / "seed0", 0.9, FIRST)
    write(tmp_path / "JEM,_SGLD" / "seed1", 0.2, SECOND)
    write(tmp_path / "SVGD,_corrected" / "seed0", 0.9, FIRST)
    write(tmp_path / "SVGD,_corrected" / "seed1", 0.2, SECOND, is_diverged=True)
    write(tmp_path / "SVGD,_corrected" / "seed2", None, SECOND | {"confidence": [0.0, None]})
    (tmp_path / "SVGD,_literal" / "seed0").mkdir(parents=True)
    return tmp_path


def test_seeds_are_pooled_by_their_images():
    """A bin that is empty in every seed stays empty."""
    bins = pool_bins([FIRST, SECOND])
    np.testing.assert_array_equal(bins.edges, EDGES)
    np.testing.assert_array_equal(bins.count, [4, 6])
    np.testing.assert_allclose(bins.accuracy, [1 / 8, 10 / 12], rtol=1e-12)
    np.testing.assert_allclose(bins.confidence, [2.6 / 8, 10 / 12], rtol=1e-12)
    empty = FIRST | {"confidence": [0.0, 0.9], "accuracy": [0.0, 1.0], "count": [0, 8]}
    expected = ReliabilityBins(*(np.array(empty[name]) for name in ReliabilityBins._fields))
    for found, one in zip(pool_bins([empty, empty]), expected, strict=True):
        np.testing.assert_allclose(found, one, rtol=1e-12)


def test_rows_stand_side_by_side_with_what_did_not_fail(study, figures):
    reliability(ROWS, study)
    (figure,) = figures.values()
    sgld, svgd, of_sgld, of_svgd = figure.axes
    spread = math.sqrt(2) * 35
    assert sgld.get_title() == (
        f"SGLD, 2 seeds\naccuracy 55.0 ± {spread:.1f} %\nECE 5.5 ± {spread / 10:.1f} %"
    )
    assert svgd.get_title() == "SVGD, 1 seed\naccuracy 90.0 %\nECE 9.0 %"
    for axis, heights in (
        (sgld, [1 / 8, 10 / 12]),
        (svgd, [0.5, 1.0]),
        (of_sgld, [4, 6]),
        (of_svgd, [2, 8]),
    ):
        bars = axis.containers[0]
        assert [bar.get_height() for bar in bars] == pytest.approx(heights)
    with Image.open(study / "reliability.png") as image:
        assert image.width > image.height


def test_a_study_without_evaluations_has_no_figure(tmp_path):
    reliability(ROWS, tmp_path)
    assert not any(tmp_path.iterdir())
