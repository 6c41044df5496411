"""Mistakes of ``ebmjax sample``, ``score`` and ``export`` are one line, and nothing is written.

What the commands write of real models is tested with each family (``check_use``).
"""

import csv
import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
from experiment_runs import command, contents
from linear_family import linear
from PIL import Image

from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.parts import image_data
from ebmjax.recipes.run import trained
from ebmjax.recipes.run.use import OUTPUTS
from experiments.configs import jem_digits

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 8, 8, 1), np.uint8)
MEANS = IMAGES.mean((1, 2, 3)).astype(np.float32)
LABELS = np.arange(7) % 3


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The folder of a run, and of a model that scores images by their mean."""

    def score(images):
        means = trained.check_inputs(images, (8, 8, 1)).mean((1, 2, 3)).astype(np.float32)
        return {"log_density": means, "class_probability": np.stack([means, -means], axis=1)}

    def sample(key, num, num_steps, label=None, given=None, **known):
        if given is None:
            return {"images": IMAGES[:num]}
        asked.append({"num": num, "label": label, "given": np.asarray(given), **known})
        mask = np.arange(64).reshape(8, 8) % 2 == 0
        return {"images": (drawn := np.zeros((7, num, 8, 8, 1), np.uint8)), "start_images": drawn,
                "mask": mask}  # fmt: skip

    asked = []

    params = {"file": np.ones(2, np.float32), "allow_pickle": np.zeros((), np.float32)}
    model = SimpleNamespace(input_shape=(8, 8, 1), score=score, sample=sample, params=params)
    model.model, model.asked = SimpleNamespace(class_names=("no", "yes")), asked
    model.config = jem_digits.get_config()
    model.config.data.range = (0.0, 255.0)  # as the images that it was trained on
    monkeypatch.setattr(trained, "load", lambda folder, **_: model)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(run_folder.as_json(linear())))
    return folder


@pytest.fixture
def unloaded(run, monkeypatch):
    """The folder of a run that must not be loaded."""

    def refuse(*_, **__):
        raise AssertionError("the model was loaded although one look would have told the mistake")

    monkeypatch.setattr(trained, "load", refuse)
    return run


def npz(folder):
    np.savez(folder / "own.npz", images=IMAGES, labels=LABELS)
    return folder / "own.npz"


def files(folder, names):
    for name, image in zip(names, IMAGES, strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.squeeze()).save(folder / name)
    return names


def folder_of_classes(folder):
    files(folder / "own", [f"class{index // 3}/{index}.png" for index in range(7)])
    return folder / "own"


def function(folder):
    npz(folder)
    (folder / "own.py").write_text(
        "import numpy as np\n\ndef read(split):\n"
        "    if split == 'train':\n        return np.load('own.npz')['images'], None\n"
    )
    return "own.py:read"


@pytest.mark.parametrize("source", [npz, folder_of_classes, function], ids=lambda one: one.__name__)
@pytest.mark.parametrize("ending", OUTPUTS["score"])
def test_every_source_is_scored_into_every_format(
    source, ending, run, tmp_path, monkeypatch, capsys
):
    place, out = source(tmp_path), tmp_path / f"scores{ending}"
    command(monkeypatch, "score", run, out, f"--data={place}")
    assert f"{place}: 7 images, all that it holds" in capsys.readouterr().out
    if ending == ".csv":
        header, *rows = csv.reader(out.read_text().splitlines())
        columns = dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))
        assert columns.pop("image") == [str(index) for index in range(7)]
        both = columns.pop("class_probability_no"), columns.pop("class_probability_yes")
        found = {"class_probability": np.array(both, float).T} | columns
    else:
        with np.load(out, allow_pickle=False) as arrays:
            found = dict(arrays)
    # The text of a float32 has nine digits or fewer.
    np.testing.assert_allclose(np.asarray(found["log_density"], float), MEANS, rtol=1e-7)
    assert np.shape(found["class_probability"]) == (7, 2)
    if "folder" in source.__name__:
        assert [name[-5:] for name in found["file"]] == [f"{index}.png" for index in range(7)]
    else:
        assert "file" not in found


def test_without_data_the_images_of_the_evaluation_are_scored(run, tmp_path, monkeypatch, capsys):
    folder_of_classes(tmp_path)
    config = trained.load(run).config
    config.data.update({"path": "own", "name": "folder", "max_train": None, "num_classes": 3})
    config.data.update({"holdout": 3})
    images, config = image_data.load(config)
    trained.load(run).config.update(config)
    command(monkeypatch, "score", run, "s.npz")
    assert "the run's own data: 3 that its evaluation is of" in capsys.readouterr().out
    with np.load("s.npz") as found:
        means = images.evaluated.images.mean((1, 2, 3))
        np.testing.assert_allclose(found["log_density"], means, rtol=1e-6)


@pytest.mark.parametrize("ending", OUTPUTS["score"])
def test_files_of_any_name_are_scored(ending, run, tmp_path, monkeypatch):
    names = ['a, "b".png', "c\nd.png", os.fsdecode(b"\xff.png"), "été 日本.PNG"]
    files(tmp_path / "own", names + [f"z{index}.png" for index in range(3)])
    command(monkeypatch, "score", run, f"scores{ending}", "--data=own")
    if ending == ".npz":
        with np.load("scores.npz", allow_pickle=False) as arrays:
            found = arrays["file"].tolist()
    else:
        with open("scores.csv", newline="", encoding="utf-8", errors="surrogateescape") as file:
            found = [row["file"] for row in csv.DictReader(file)]
    assert found == sorted([*names, "z0.png", "z1.png", "z2.png"])


@pytest.mark.parametrize("ending", OUTPUTS["sample"])
@pytest.mark.parametrize("source", [npz, folder_of_classes, function], ids=lambda one: one.__name__)
def test_images_of_every_source_are_completed(source, ending, run, tmp_path, monkeypatch, capsys):
    place, out = source(tmp_path), tmp_path / f"samples{ending}"
    command(monkeypatch, "sample", run, out, f"--given={place}", "--mask=left", "--class=yes")
    (asked,) = trained.load(run).asked
    order = np.argsort([index // 3 for index in range(7)], stable=True)
    np.testing.assert_array_equal(asked.pop("given"), IMAGES[order])
    assert asked == {"num": 8, "label": "yes", "mask": "left"}
    told = capsys.readouterr().out
    assert "samples of an image" in told
    assert "true pixels inside the samples' interval" in told
    if ending == ".npz":
        with np.load(out, allow_pickle=False) as found:
            assert found["images"].shape == (7, 8, 8, 8, 1)
            assert {"given", "mask", "psnr", "start_psnr", "coverage"} <= {*found}


def test_an_operator_observes_the_images_under_noise(run, tmp_path, monkeypatch):
    npz(tmp_path)
    (tmp_path / "own.py").write_text("def mean(image):\n    return image.mean((0, 1))\n")
    further = "--given=own.npz", "--operator=own.py:mean", "--noise=0.25", "--num=3"
    command(monkeypatch, "sample", run, "s.npz", *further)
    (asked,) = trained.load(run).asked
    exact = (IMAGES / 127.5 - 1).mean((1, 2))
    noise = (asked["given"] - exact) / 0.25
    assert asked["given"].shape == (7, 1)
    assert 0.1 < np.mean(noise**2) < 26 / 7  # of 7 draws: else once in 500 seeds
    assert (asked["noise"], asked["num"]) == (0.25, 3)
    np.testing.assert_allclose(asked["operator"](IMAGES[0] / 255), (IMAGES[0] / 255).mean((0, 1)))
    with np.load("s.npz") as found:
        np.testing.assert_array_equal(found["observed"], asked["given"])


@pytest.mark.parametrize(
    ("name", "out", "further", "expected"),
    [
        ("sample", "s.png", ["--given=own.npz"], "--given goes with --mask, or --operator"),
        ("sample", "s.png", ["--mask=left"], "got --mask."),
        ("sample", "s.png", ["--given=own.npz", "--operator=a.py:f"], "got --given, --operator."),
        ("sample", "s.png", ["--given=own.npz", "--mask=left", "--noise=1"], "--mask, --noise."),
        ("sample", "s.png", ["--given=nowhere", "--mask=left"], "images do not exist: nowhere"),
        ("sample", "s.txt", [], "--out must end in .png or .npz, got"),
        ("sample", "no/s.png", [], "--out must lie in a folder that exists"),
        ("score", "s.csv", ["--data=nowhere"], "images do not exist: nowhere."),
        ("sample", "own.npz", [], "--out must be a new file, got"),
        ("sample", "dangling.npz", [], "--out must be a new file, got"),
        ("sample", "run/new.png", [], "--out must not lie in the run's folder"),
        ("sample", "run/plots/../new.npz", [], "--out must not lie in the run's fol"),
        ("sample", "linked/new.npz", [], "--out must not lie in the run's folder"),
        ("sample", "s.png", ["--num=0"], "must be from 1 to"),
    ],
)
def test_mistakes_that_one_look_tells_are_told_before_anything_is_loaded(
    name, out, further, expected, unloaded, monkeypatch, tmp_path, capsys
):
    npz(tmp_path)
    (tmp_path / "dangling.npz").symlink_to("nowhere")
    (tmp_path / "linked").symlink_to("run")
    (unloaded / "plots").mkdir()
    before = contents(tmp_path)
    with pytest.raises(SystemExit) as ended:
        command(monkeypatch, name, unloaded, out, *further)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert expected in told
    assert told.count("\n") == 1
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("further", "expected"),
    [
        (["--data=own.npz"], "--data=own.npz: inputs must have shape"),
        (["--data=own"], "must hold the train images"),
        (["--data=leave.py:read"], "SystemExit"),
        (["--data=unit.npz"], "0..255 as those of the training images, got 0 to 1 (dtype float"),
    ],
)
def test_images_that_cannot_be_scored_are_named(
    further, expected, run, tmp_path, capsys, monkeypatch
):
    np.savez("own.npz", images=np.zeros((3, 8, 8, 3), np.uint8))
    np.savez("unit.npz", images=np.linspace(0, 1, 128).reshape(2, 8, 8))
    (tmp_path / "own").mkdir()
    np.save(tmp_path / "own" / "x_other.npy", IMAGES)
    (tmp_path / "leave.py").write_text("import sys\nsys.exit(3)\n")
    with pytest.raises(SystemExit) as ended:
        command(monkeypatch, "score", run, "s.csv", *further)
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "s.csv").exists()
