"""Models in Python: trained there, packaged with ebmjax, and the inputs that they score."""

import json
import re
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from experiment_runs import launch

import ebmjax
from ebmjax import data, recipes
from ebmjax.recipes.config import command_line, declare, families, files
from ebmjax.recipes.config.errors import ConfigError, flatten
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.folder.run_folder import as_json
from ebmjax.recipes.run import trained
from ebmjax.recipes.run.run import Run
from experiments.configs import igebm_digits, jem_digits, thermo_digits

KEPT = (".step", ".params", ".carry.statistics", ".carry.smoothing", ".carry.adaptation")
"""Leaves of a state that a model needs, by the beginnings of their names."""
NAMES = ["digits", "digits_energy", "digits_latent", "plane"]
BYTES = np.arange(128, dtype=np.uint8).reshape(2, 8, 8, 1)
FLOATS = BYTES / np.float32(127.5) - 1


@pytest.mark.parametrize(
    ("inputs", "shape"), [(BYTES, (8, 8, 1)), (FLOATS, (8, 8, 1)), (np.ones((3, 2)), (2,))]
)
def test_bytes_signed_floats_and_points_stay_as_they_are(inputs, shape):
    np.testing.assert_array_equal(trained.check_inputs(inputs, shape), inputs)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (BYTES[..., 0], r"shape \(N, 8, 8, 1\), at least one; got \(2, 8, 8\)"),
        (BYTES / 127, "some are below 0, or finite points; got float64 from 0 to 1."),
        (BYTES.astype(int), "got int64 from 0 to 127"),
        (np.full((1, 8, 8, 1), np.nan), "finite points; got float64 from nan"),
    ],
)
def test_other_images_are_refused(inputs, message):
    with pytest.raises(ValueError, match=message):
        trained.check_inputs(inputs, (8, 8, 1))


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "mine"
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (60, 8, 8), np.uint8), np.arange(60) % 3
    fields = {"train.batch_size": 8}
    train = lambda images: recipes.train(  # noqa: E731
        "configs/joint.py:smoke", images, labels, folder=folder, fields=fields
    )
    return train(images), train, images, folder


@pytest.mark.slow
def test_a_run_of_arrays_is_a_run_of_the_command(mine):
    run, train, images, folder = mine
    config = json.loads((folder / "config.json").read_text())
    assert (config["data"]["name"], config["train"]["batch_size"]) == ("npz", 8)
    assert (folder / "summary.json").exists()
    assert run.input_shape == (8, 8, 1)
    assert run.sample(jax.random.key(0), 4)["images"].shape == (4, 8, 8, 1)
    again = train(images)  # nothing is left to do
    jax.tree.map(np.testing.assert_array_equal, again.params, run.params)
    with pytest.raises(ConfigError, match=r"mine\.npz holds other images"):
        train(images[::-1])


def labelled(config, names=(), shape=(8, 8, 1)):
    """A run whose model returns the arguments of its samples."""
    sample = lambda key, num, num_steps, label=None: {"label": label}  # noqa: E731
    config.data.num_classes = 3
    model = SimpleNamespace(class_names=names, sample=sample)
    return trained.TrainedRun(config, model, shape, 1, True)


@pytest.mark.parametrize(
    ("names", "label", "expected"),
    [((), 2, 2), ((), "1", 1), (("a", "b", "c"), "c", 2), (("2", "1", "0"), "2", 0)],
)
def test_a_label_is_the_name_or_number_of_a_class(names, label, expected):
    run = labelled(jem_digits.get_config(), names)
    assert run.sample(jax.random.key(0), 1, label=label) == {"label": expected}
    assert run.sample(jax.random.key(0), 1) == {"label": None}


@pytest.mark.parametrize(
    ("config", "label", "expected"),
    [(jem_digits, 3, r"\['0', '1', '2'\]; got 3"), (jem_digits, "x", "got 'x'"),
     (igebm_digits, 0, r"a class of the model, \[\]; got 0"), (thermo_digits, 0, r"\[\]; got 0")],
)  # fmt: skip
def test_a_class_that_a_model_lacks_is_refused(config, label, expected):
    with pytest.raises(ConfigError, match=expected):
        labelled(config.get_config()).sample(jax.random.key(0), 1, label=label)


@pytest.mark.parametrize(
    ("shape", "options", "expected"),
    [
        ((2,), {"given": np.ones((1, 2))}, "given must be images, and the model is one of points"),
        ((8, 8, 1), {"given": BYTES}, "mask must be left or centre"),
        ((8, 8, 1), {"given": BYTES[:, :4], "mask": "left"}, "inputs must have shape"),
        ((8, 8, 1), {"given": BYTES, "operator": np.sum, "noise": 0.0}, "noise must be positive"),
        ((8, 8, 1), {"given": BYTES, "mask": "left", "num": 1}, "num must be an integer of at lea"),
    ],
)
def test_mistakes_in_what_is_given_are_named(shape, options, expected):
    run = labelled(jem_digits.get_config(), shape=shape)
    with pytest.raises(ValueError, match=expected):
        run.sample(jax.random.key(0), **{"num": 2, **options})


def test_other_fields_may_not_differ(smoke):
    with pytest.raises(ConfigError, match=r"num_steps may not differ.*evals.checkpoint"):
        recipes.load(smoke, sampler_num_steps=3)


@pytest.mark.parametrize("name", NAMES)
def test_the_command_of_a_card_makes_the_models_configuration(name):
    """So the command can be repeated, and fields that are new since then are at their defaults."""
    command = re.search(r"`ebmjax run (.*?)`", files.models()[name], re.DOTALL).group(1).split()
    arguments = [one for one in command if one != "--mode=all"]
    config = command_line.read(arguments[0].removeprefix("--config="), arguments[1:])
    expected = flatten(as_json(config))
    kept = json.loads((files.MODELS / name / "fields.json").read_text())
    assert kept.items() <= expected.items()
    defaults = families.all_fields(kept["family"], kept)
    for one in expected.keys() - kept.keys():
        default = defaults[one].default
        assert expected[one] == (list(default) if isinstance(default, tuple) else default), one


@pytest.mark.parametrize("name", ["digit", "../at_hand/digits", 3])
def test_an_unknown_name_is_refused_with_those_that_there_are(name):
    with pytest.raises(ConfigError, match="There are digits, digits_energy, digits_latent, plane"):
        ebmjax.load(name)


@pytest.mark.slow
def test_the_joint_model_has_the_accuracy_of_its_card():
    model, test = ebmjax.load("digits"), data.load_digits("test")
    assert model.card == files.models()["digits"]
    scores = model.score(test.images)
    accuracy = np.mean(scores["class_probability"].argmax(1) == test.labels)
    # Another processor's rounding may move one image of 357.
    assert abs(accuracy - float(re.search(r"test accuracy +([\d.]+)", model.card)[1])) < 1.5 / 357


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits_energy", "digits_latent"])
def test_test_images_score_above_noise(name):
    model, test = ebmjax.load(name), data.load_digits("test")
    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 8, 1), np.uint8)
    score = "log_density" if name == "digits_energy" else "log_evidence"
    found = model.score(np.concatenate([test.images[:8], noise]))[score]
    assert np.min(found[:8]) > np.max(found[8:])
    assert model.sample(jax.random.key(0), 3, num_steps=2)["images"].shape == (3, 8, 8, 1)


@pytest.mark.slow
def test_points_of_the_plane_lie_on_the_circles():
    """Radii 1 to 4, of deviation 0.15: the data have all but 6e-5 within 4 deviations."""
    points = ebmjax.load("plane").sample(jax.random.key(0), 1000)["points"]
    radii = np.linalg.norm(points, axis=1)
    far = np.abs(radii - np.clip(np.round(radii), 1, 4)) > 4 * 0.15
    assert np.mean(far) < 0.01


def keep(folder, place):
    """Writes fields.json and state.npz of a run, as they lie in ebmjax/recipes/at_hand."""
    run = Run(run_folder.config_of(folder), folder)
    state, _ = run.open(None)
    leaves = jax.tree_util.tree_leaves_with_path(jax.device_get(state))
    named = {trained.name_leaf(path): np.asarray(leaf) for path, leaf in leaves}
    place.mkdir(parents=True)
    arrays = {name: array for name, array in named.items() if name.startswith(KEPT)}
    run_folder.write_arrays(place / "state.npz", arrays)
    defaults = declare.defaults(families.all_fields(run.config.family))
    fields, usual = (flatten(as_json(one)) for one in (run.config, defaults))
    fields = {k: v for k, v in fields.items() if k == "family" or v != usual.get(k, declare)}
    (place / "fields.json").write_text(json.dumps(fields))


@pytest.mark.slow
def test_a_run_is_kept_and_comes_back(tmp_path, monkeypatch):
    config = command_line.read("configs/jem_digits.py:smoke", ["--max_steps=2"])
    run = tmp_path / "run"
    assert launch(config, "configs/jem_digits.py:smoke", str(run)) is None
    keep(run, tmp_path / "models" / "mine")
    (tmp_path / "models" / "mine" / "card.md").write_text("Mine.")
    monkeypatch.setattr(files, "MODELS", tmp_path / "models")
    mine, theirs = ebmjax.load("mine"), recipes.load(run)
    assert (mine.card, mine.step, mine.is_finished) == ("Mine.", 2, True)
    jax.tree.map(np.testing.assert_array_equal, mine.params, theirs.params)
    assert as_json(mine.config) == as_json(theirs.config)
    images = data.load_digits("test").images[:3]
    scores = mine.score(images), theirs.score(images)
    jax.tree.map(np.testing.assert_array_equal, *scores)
