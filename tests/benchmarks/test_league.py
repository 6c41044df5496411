"""The league: its judge tells wrong samples from right ones, and rows are not run twice."""

import json
from types import SimpleNamespace

import numpy as np
import pytest


@pytest.fixture
def league(load):
    return load("league")


@pytest.fixture
def found(load):
    """Textures without turns would be one image: these are the set's own, 8 pixels wide."""
    return load("image_sets").make_textures(400, 600, 8)


def test_the_judge_knows_equal_samples_and_wrong_ones(league, found):
    judge = league.Judge(found)
    real, _ = league.draw_real("real", found, 0, None)
    equal, noise = judge(real), judge(np.random.default_rng(0).integers(0, 256, real.shape, "u1"))
    # Five standard errors of a share of 400 images, were the folds independent.
    assert abs(equal["c2st"] - 0.5) < 5 * 0.5 / np.sqrt(400)
    assert noise["c2st"] > 0.99
    for name in ("characters_fid", "random_features_fid"):
        assert equal[name] < 0.1 * noise[name]
    assert equal["copies"] == 1.0
    assert noise["copies"] == 0.0
    same = judge(found.test_images)
    assert same["characters_fid"] == pytest.approx(0, abs=1e-3 * noise["characters_fid"])


def test_rows_are_not_run_again_and_errors_are_over_seeds(league, found, tmp_path, monkeypatch):
    calls = []

    def method(name, given, seed, options):
        calls.append((name, seed))
        drawn = given.images[:50] if name == "good" else 255 - given.images[:50]
        return drawn, {"seconds": 1.0 + seed}

    monkeypatch.setattr(league, "METHODS", {"good": method, "bad": method})
    monkeypatch.setitem(league.image_sets.SETS, "textures", lambda: found)
    options = SimpleNamespace(
        out=tmp_path, sets=["textures"], methods=["good", "bad"], minutes=1.0, seeds=2
    )
    rows = league.play(options)
    assert league.play(options) == rows
    assert calls == [("good", 0), ("bad", 0), ("good", 1), ("bad", 1)]
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows
    options.minutes = 2.0  # another row
    league.play(options)
    assert len(calls) == 8
    *_, good, bad, _, last = league.make_tables(rows)
    assert good.startswith("| good |")
    assert good.endswith("| 1.5 ± 0.5 |")
    assert bad.startswith("| bad |")
    assert last.endswith("on 1 sets: good 1, bad 0.")


def test_an_error_is_over_seeds_where_there_are_some(league):
    rows = [{"fid": 1.0, "fid_error": 9.0}, {"fid": 3.0, "fid_error": 9.0}]
    assert league.summarise(rows, "fid") == (2.0, 1.0)
    assert league.summarise(rows[:1], "fid") == (1.0, 9.0)


def test_gaussians_of_classes_have_the_density_of_their_images(league):
    rng, labels, deviation = np.random.default_rng(0), np.arange(3000) % 2, 20.0
    images = (
        80 + 90 * labels[:, None, None, None] + deviation * rng.standard_normal((3000, 4, 4, 1))
    )
    images = np.clip(np.round(images), 0, 255).astype(np.uint8)
    found = league.image_sets.split_shuffled(images, labels, 2000)
    drawn, row = league.train_mixture("gaussians", found, 0, SimpleNamespace(minutes=1.0))
    variance = (deviation**2 + 2 / 12) / 128**2  # rounding and dequantisation add to it
    exact = -8 * np.log(2 * np.pi * np.e * variance) - np.log(2)
    # 152 parameters of a class cost half a nat each over its 1,000 images; chi-squares of 16
    # degrees, halved, have a deviation of sqrt(8).
    assert abs(row["nats"] - exact) < 152 / 2000 + 5 * np.sqrt(8 / 1000)
    assert drawn.shape == found.test_images.shape
    assert abs(drawn.mean() - images.mean()) < 5 * 45 * np.sqrt(1 / 1000)  # half of the means' gap
    assert row["auroc"]["noise"] > 0.9
