"""--mode=eval: what it refuses, and its numbers against other people's code."""

import json
import shutil
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import contents, digits, run_script, strict_json
from ml_collections import ConfigDict
from PIL import Image
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.metrics import average_precision_score, roc_auc_score

from ebmjax import data, samplers, training
from ebmjax.networks import Classifier
from experiments import families, jem_extractors, jem_ood
from experiments.configs import jem_digits
from experiments.errors import ConfigError, WorkdirError
from experiments.jem_assessment_plots import _extremes
from experiments.jem_chains import ANY_CLASS, Trained, chain_density, fresh_chains, trained
from experiments.jem_extractors import Extractor
from experiments.jem_generation import Generation
from experiments.jem_robustness import classify_fn, robustness
from experiments.launch import launch
from experiments.validate import check_ranges

EPS = float(jnp.finfo(jnp.float32).eps)
OFF = {"eval.num_ood": 0, "eval.num_attacked": 0, "eval.num_generated": 0}


def smoke(**overrides):
    config = jem_digits.get_config("smoke")
    config.update_from_flattened_dict(overrides)
    return config


def evaluate(config, folder):
    return launch(config, "configs/jem_digits.py:smoke", str(folder), "eval")


@pytest.fixture(scope="module", autouse=True)
def quick_extractor(tmp_path_factory):
    """Trained for two steps, and kept where nobody else looks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jem_extractors, "CACHE", tmp_path_factory.mktemp("extractors"))
        patch.setitem(jem_extractors.SETTINGS, "max_steps", 2)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory, quick_extractor):
    """The folder of a run by --mode=all: to be read, and copied before it is changed."""
    folder = tmp_path_factory.mktemp("jem") / "run"
    assert launch(smoke(), "configs/jem_digits.py:smoke", str(folder), "all") is None
    return folder


@pytest.fixture
def copied(run, tmp_path):
    return shutil.copytree(run, tmp_path / "run")


def report_of(folder):
    return strict_json((folder / "evaluation.json").read_text())


def test_a_later_evaluation_repeats_the_one_after_training(run, copied):
    (copied / "evaluation.json").unlink()
    shutil.rmtree(copied / "plots")
    assert evaluate(smoke(), copied) is None
    first, second = report_of(run), report_of(copied)
    assert first.pop("evaluation_seconds") > 0
    assert second.pop("evaluation_seconds") > 0
    assert first == second
    with np.load(run / "evaluation.npz") as ours, np.load(copied / "evaluation.npz") as theirs:
        assert set(ours) == set(theirs)
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    names = ("conditional", "landscape", "ood", "reliability", "robustness", "samples")
    for name in names:
        with Image.open(copied / "plots" / f"eval_{name}.png") as image:
            assert min(image.size) > 200
    assert not list(copied.glob("*.tmp"))


def test_the_classification_is_that_of_numpy_and_scikit_learn(run):
    report, arrays = report_of(run)["classification"], np.load(run / "evaluation.npz")
    logits, labels = np.float64(arrays["logits"]), arrays["labels"]
    np.testing.assert_array_equal(labels, data.load_digits("test").labels[:32])
    assert report["num_images"] == 32
    p = softmax(logits, axis=1)
    correct, confidence = p.argmax(1) == labels, p.max(1)
    one_hot = np.eye(10)[labels]
    bins = np.ceil(confidence * 20) - 1
    ece = sum(
        abs(np.sum(correct[bins == b]) - np.sum(confidence[bins == b])) / 32 for b in range(20)
    )
    # Sums of a few hundred float32 terms of order one, whose order decides a few eps each.
    close = partial(np.testing.assert_allclose, rtol=0, atol=300 * EPS)
    close(report["accuracy"], correct.mean())
    close(report["nll"], -log_softmax(logits, axis=1)[np.arange(32), labels].mean())
    close(report["brier"], ((p - one_hot) ** 2).sum(1).mean())
    close(report["ece"], ece)
    assert sum(report["reliability"]["count"]) == 32
    assert len(report["reliability"]["count"]) == 20


def test_out_of_distribution_numbers_are_those_of_scikit_learn(run):
    report, arrays = report_of(run)["ood"], np.load(run / "evaluation.npz")
    assert set(report["sets"]) == {"natural_patches", "interp", "noise", "constant"}
    assert report["num_images"] == 32
    for score in ("log_density", "max_probability", "negative_score_norm"):
        areas = []
        for name, found in report["sets"].items():
            ours, theirs = arrays[f"test_{score}"], arrays[f"{name}_{score}"]
            values = np.concatenate([ours, theirs])
            is_ours = np.arange(64) < 32
            areas.append(roc_auc_score(is_ours, values))
            np.testing.assert_allclose(found[score]["auroc"], areas[-1], rtol=64 * EPS)
            precision = average_precision_score(is_ours, values)
            np.testing.assert_allclose(found[score]["aupr"], precision, rtol=64 * EPS)
        np.testing.assert_allclose(report["mean_auroc"][score], np.mean(areas), rtol=64 * EPS)
    expected = logsumexp(np.float64(arrays["logits"]), axis=1)
    np.testing.assert_allclose(arrays["test_log_density"], expected, rtol=20 * EPS)


def test_robust_accuracy_starts_at_the_accuracy_of_the_attacked(run):
    report, arrays = report_of(run), np.load(run / "evaluation.npz")
    clean = np.mean(arrays["logits"][:16].argmax(1) == arrays["labels"][:16])
    for norm in ("linf", "l2"):
        curve = report["robustness"][norm]
        assert curve["0"] == clean
        assert max(curve.values()) == clean
    protocol = report["robustness"]["protocol"]
    assert (protocol["num_images"], protocol["num_steps"], protocol["num_eot"]) == (16, 2, 1)


def test_generated_sets_are_complete_and_named_after_the_extractor(run):
    report, arrays = report_of(run)["generation"], np.load(run / "evaluation.npz")
    assert report["num_chain_steps"] == 20  # ten times the two of training
    assert report["num_reference"] == 64
    assert report["extractor"]["name"] == "classifier_features"
    for name in ("fresh", "conditional", "buffer"):
        assert (report[name]["num_images"], report[name]["num_diverged"]) == (20, 0)
        assert arrays[f"{name}_images"].shape == (20, 8, 8, 1)
        assert arrays[f"{name}_images"].dtype == np.uint8
        for number in ("fid", "kid", "is"):
            assert np.isfinite(report[name][f"{number}_classifier_features"])
    assert np.bincount(arrays["conditional_labels"]).tolist() == [2] * 10
    assert np.unique(arrays["fresh_images"], axis=0).shape[0] == 20


def test_the_centre_of_the_landscape_is_the_mean_energy(run):
    experiment = families.build(smoke(), run)
    assessment, model = experiment.assess, trained(experiment.state)
    key = jax.random.key(5)
    report, grid = assessment._landscape(key, model)
    chosen = np.asarray(jax.random.permutation(jax.random.split(key, 3)[0], 64))[:6]
    scores = assessment._score(model, data.to_signed_unit(assessment.train.images[chosen]))
    # Means of six log densities of order one, in two compilations.
    expected = -np.mean(scores["log_density"])
    np.testing.assert_allclose(grid["energies"][1, 1], expected, rtol=0, atol=100 * EPS)
    assert grid["coordinates"].tolist() == [-1, 0, 1]
    assert report["landscape_range"] == float(np.ptp(grid["energies"]))
    assert (report["num_points"], report["num_images"]) == (3, 6)
    assert np.ptp(grid["energies"]) > 0


def test_sizes_of_zero_leave_their_parts_out(copied):
    assert evaluate(smoke(**OFF, **{"eval.landscape_points": 0}), copied) is None
    report = report_of(copied)
    assert "classification" in report
    assert not report.keys() & {"ood", "robustness", "generation", "landscape"}
    assert set(np.load(copied / "evaluation.npz")) == {"labels", "logits"}


def refusal(error, config, folder):
    before = contents(folder.parent)
    with pytest.raises(error) as caught:
        evaluate(config, folder)
    assert contents(folder.parent) == before
    return str(caught.value)


def test_another_configuration_is_refused(copied):
    message = refusal(WorkdirError, smoke(**{"loss.energy_l2": 0.5}), copied)
    assert "loss.energy_l2 was 0.0 and is now 0.5" in message


def test_an_unfinished_run_is_refused(copied):
    shutil.rmtree(copied / "checkpoints" / "8")
    assert "of step 4 of 8. Continue it" in refusal(WorkdirError, smoke(), copied)


def test_a_folder_without_a_run_is_refused(copied, tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "missing"):
        assert "holds no checkpoint" in refusal(WorkdirError, smoke(), folder)
    shutil.rmtree(copied / "checkpoints")
    assert "holds no checkpoint" in refusal(WorkdirError, smoke(), copied)
    (copied / "config.json").write_text("no json")
    assert "not a configuration in JSON" in refusal(WorkdirError, smoke(), copied)
    with pytest.raises(WorkdirError, match="needs --workdir"):
        launch(smoke(), "jem_digits.py:smoke", None, "eval")


def test_a_family_without_an_evaluation_says_so_before_it_trains(tmp_path):
    with pytest.raises(ConfigError, match="'thermo' has no evaluation"):
        launch(digits(), "thermo_digits.py:smoke", str(tmp_path / "run"), "all")
    assert not (tmp_path / "run").exists()


def test_bad_weights_are_refused(copied):
    config = smoke(**{"eval.inception_weights": str(copied / "nothing.npz")})
    assert "config.eval.inception_weights: no weights" in refusal(ConfigError, config, copied)


def test_the_command_line(tmp_path):
    config = "--config=configs/jem_digits.py:smoke"
    finished = run_script(config, "--mode=eval", "--workdir=none", cwd=tmp_path)
    assert finished.returncode == 1
    assert finished.stderr.startswith("error: --workdir none holds no checkpoint")
    assert len(finished.stderr.splitlines()) == 1
    finished = run_script(config, "--mode=judge", cwd=tmp_path)
    assert finished.returncode == 1
    assert "train|eval|all" in finished.stderr


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_generated", 1),
        ("landscape_points", 1),
        ("num_ood", -1),
        ("num_eot", 0),
        ("num_chain_steps", 0),
        ("attack_linf", (4, -1)),
        ("attack_l2", ("four",)),
    ],
)
def test_fields_out_of_range(field, value):
    with pytest.raises(ConfigError, match=f"config.eval.{field} must be"):
        check_ranges(smoke(**{f"eval.{field}": value}))


# Parts, on networks and samplers whose outcome is known.

WEIGHTS = np.array([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25]], np.float32)  # (pixels, classes)


def linear(images):
    return images.reshape(*images.shape[:-3], 3) @ WEIGHTS


LINEAR = Classifier(
    init=lambda key, images: ({}, {}),
    logits=lambda params, statistics, images, **_: (linear(images), statistics),
    first_layer=lambda params, images: 2.0 * images,
    head=lambda params, statistics, hidden, **_: (linear(hidden / 2.0), statistics),
)
MODEL = Trained({}, {}, jnp.float32(0.5))


def negatives(**overrides):
    options = {
        "sampler": partial(samplers.gradient_descent, step_size=0.1),
        "num_steps": 2,
        "num_samples": 4,
        "law": jax.tree_util.Partial(lambda key, label: jnp.full((3, 1, 1), label, jnp.float32)),
        "reinit_prob": 0.0,
        "density_scale": 0.25,
    }
    return training.Negatives(**options | overrides)


@pytest.mark.parametrize("label", [ANY_CLASS, 0, 1])
def test_the_density_of_chains(label):
    x = np.array([0.3, -0.2, 0.7], np.float32)
    logits = x @ WEIGHTS
    expected = 0.25 / 0.5 * (logsumexp(logits) if label < 0 else logits[label])
    density = chain_density(LINEAR, 0.25, MODEL, jnp.int32(label))
    position = jnp.asarray(x).reshape(3, 1, 1)
    assert density(position) == pytest.approx(expected, rel=20 * EPS)
    composed = density.head(density.first_layer(position))
    assert composed == pytest.approx(expected, rel=20 * EPS)


def test_fresh_chains_start_from_their_class_and_climb_its_logit():
    labels = np.array([[0, 1], [1, ANY_CLASS]], np.int32)
    law = negatives().law
    run = partial(fresh_chains, num_classes=2, num_steps=7)
    ends = run(jax.random.key(0), LINEAR, negatives(), MODEL, law, labels)
    assert ends.shape == (2, 2, 3, 1, 1)
    for i, label in [((0, 0), 0), ((0, 1), 1), ((1, 0), 1)]:
        expected = label + 7 * 0.1 * (0.25 / 0.5) * WEIGHTS[:, label]
        np.testing.assert_allclose(ends[i].ravel(), expected, rtol=40 * EPS, atol=0)
    # Between the two starts' paths of the joint density: it lies within 7 steps of either start.
    free = np.asarray(ends[1, 1]).ravel()
    assert min(np.abs(free - start).max() for start in (0, 1)) <= 7 * 0.05 * 3.0


class Stub:
    """Features are the pixels, probabilities are uniform."""

    extractor = Extractor(
        "pixels",
        lambda images: (
            np.float64(images).reshape(len(images), -1),
            np.full((len(images), 2), 0.5),
        ),
        {},
    )

    @staticmethod
    def score(model, images):
        logits = np.asarray(linear(images))
        return {"logits": logits, "log_density": logsumexp(logits, axis=1)}


def generation(**overrides):
    images = np.random.default_rng(0).integers(0, 256, (9, 3, 1, 1), np.uint8)
    section = {"num_generated": 10, "batch_size": 6, "num_chain_steps": 3}
    options = {
        "classifier": LINEAR,
        "negatives": negatives(),
        "extractor": Stub.extractor,
        "train": images,
        "test": images,
        "score": Stub.score,
        "config": ConfigDict(
            {"eval": section, "data": {"num_classes": 2}, "sampler": {"name": "x", "num_steps": 1}}
        ),
    }
    return Generation(**options | overrides)


def buffer_of(positions):
    buffer = samplers.ReplayBuffer(positions)
    return SimpleNamespace(shards=SimpleNamespace(buffer=buffer))


def test_the_training_images_are_at_distance_zero_from_themselves():
    found = generation()
    distances = found._distances(found.train, found._features(found.train)[0])
    # Rounding of float64 traces of order 1e4.
    assert abs(distances["fid_pixels"]) < 1e-9
    assert distances["is_pixels"] == pytest.approx(1.0)
    assert distances["num_images"] == 9


def test_a_shift_of_all_images_is_the_distance():
    found = generation(train=np.full((4, 3, 1, 1), 10, np.uint8))
    distances = found._distances(found.train + 2, found._features(found.train)[0])
    assert distances["fid_pixels"] == pytest.approx(3 * 2.0**2)


def test_generation_of_every_set():
    positions = jnp.linspace(-1, 1, 2 * 7 * 3).reshape(2, 7, 3, 1, 1)  # two shards
    report, samples = generation()(jax.random.key(0), MODEL, buffer_of(positions))
    assert report["num_chain_steps"] == 3
    # Ten chains in groups of six; the buffer's slots come from both shards, none twice.
    assert [len(samples[name]["images"]) for name in ("fresh", "conditional", "buffer")] == [
        12,
        12,
        10,
    ]
    assert samples["conditional"]["labels"].tolist() == [0, 1] * 6
    shown = samples["conditional"]["class_probability"]
    assert report["conditional"]["mean_class_probability"] == pytest.approx(shown.mean())
    slots = {tuple(image.ravel()) for image in samples["buffer"]["images"]}
    every = np.asarray(data.from_signed_unit(positions.reshape(14, 3, 1, 1)))
    assert len(slots) == 10
    assert slots <= {tuple(image.ravel()) for image in every}


def test_interacting_particles_move_in_their_own_number_without_a_class():
    found = generation(negatives=negatives(is_interacting=True, num_samples=4))
    any_class, of_class = found._labels()
    assert any_class.shape == (3, 4)
    assert np.all(any_class == ANY_CLASS)
    assert of_class.size == 0


def test_diverged_samples_are_counted_and_left_out():
    found = generation()
    ends = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3, 1, 1)
    ends[1, 0] = np.nan
    reference = found._features(found.train)[0]
    report, samples = found._judge(MODEL, reference, ends, np.array([0, 1, 0, 1]))
    assert (report["num_diverged"], report["num_images"]) == (1, 3)
    assert samples["labels"].tolist() == [0, 0, 1]
    report, samples = found._judge(MODEL, reference, np.full_like(ends, np.inf), None)
    assert report == {"num_diverged": 4}
    assert samples["images"].shape == (0, 3, 1, 1)


def attack_section(**overrides):
    section = {
        "batch_size": 2,
        "attack_linf": (0, 10, 60),
        "attack_l2": (),
        "attack_steps": 3,
        "attack_restarts": 1,
        "refine_steps": 0,
        "num_eot": 1,
    }
    return ConfigDict(section | overrides)


def test_robust_accuracy_of_a_linear_classifier():
    """The margin falls by radius times the l1 norm of the weights' difference, and no more."""
    x = np.array(
        [[0.0, 0.15, 0.0], [0.0, 0.3, 0.0], [0.0, -0.8, 0.0], [0.0, 0.01, 0.0]], np.float32
    )
    difference = WEIGHTS[:, 1] - WEIGHTS[:, 0]
    levels = np.array([0, 10, 60])
    reach = 2 * levels / 255 * np.abs(difference).sum()
    expected = ((x @ difference)[:, None] > reach[None]).mean(0)
    assert expected.tolist() == [0.75, 0.25, 0.0]  # every radius tells something
    report = robustness(
        jax.random.key(0),
        classify_fn(LINEAR, LINEAR, None, 0),
        MODEL,
        jnp.asarray(x).reshape(4, 3, 1, 1),
        jnp.ones(4, jnp.int32),
        attack_section(),
    )
    assert report["linf"] == dict(zip(["0", "10", "60"], expected, strict=True))
    assert "l2" not in report
    assert report["protocol"]["num_images"] == 4


def test_refinement_moves_the_images_and_passes_gradients_through():
    classify = classify_fn(LINEAR, LINEAR, negatives(), 2)
    x = jnp.array([0.3, -0.2, 0.7], jnp.float32).reshape(1, 3, 1, 1)
    position, step = np.float64(x).ravel(), 0.1 * 0.25 / 0.5
    for _ in range(2):
        position = position + step * WEIGHTS @ softmax(position @ WEIGHTS)
    logits = classify(MODEL, jax.random.key(0), x)
    np.testing.assert_allclose(logits[0], position @ WEIGHTS, rtol=0, atol=60 * EPS)
    gradient = jax.grad(lambda x: classify(MODEL, jax.random.key(0), x)[0, 1])(x)
    np.testing.assert_array_equal(gradient.ravel(), WEIGHTS[:, 1])


@pytest.mark.parametrize("sampler", [None, negatives(is_interacting=True)])
def test_refinement_needs_independent_chains(sampler):
    with pytest.raises(ConfigError, match="refine_steps=2 needs"):
        classify_fn(LINEAR, LINEAR, sampler, 2)


def test_the_extractor_is_kept_and_mended(tmp_path, monkeypatch):
    monkeypatch.setattr(jem_extractors, "CACHE", tmp_path / "cache")
    train = data.ImageData(*(array[:64] for array in data.load_digits("train")))
    test = data.ImageData(*(array[:8] for array in data.load_digits("test")))

    def outputs():
        return jem_extractors.own_classifier(train, test, 10).outputs_fn(test.images)

    first = outputs()
    (path,) = (tmp_path / "cache").iterdir()
    assert path.suffix == ".npz"
    assert first[0].shape == (8, 64)
    with monkeypatch.context() as patch:
        patch.setattr(jem_extractors, "_train", lambda *_: pytest.fail("trained again"))
        jax.tree.map(np.testing.assert_array_equal, outputs(), first)
    path.write_bytes(path.read_bytes()[:1000])
    jax.tree.map(np.testing.assert_array_equal, outputs(), first)
    other = data.ImageData(255 - train.images, train.labels)
    assert jem_extractors._digest(other, 10) != jem_extractors._digest(train, 10)
    assert jem_extractors._digest(train, 11) != jem_extractors._digest(train, 10)
    assert [found.suffix for found in (tmp_path / "cache").iterdir()] == [".npz"]


def test_sets_that_are_not_there_are_skipped_with_the_reason(tmp_path):
    test = data.load_digits("test").images[:6]
    config = smoke(**{"eval.ood_tfds": ("svhn_cropped",), "data.data_dir": str(tmp_path)})
    sets, skipped = jem_ood.ood_sets(config, test)
    assert all(images.shape == test.shape for images in sets.values())
    assert "is not prepared" in skipped["svhn_cropped"]
    assert json.dumps(skipped)
    with pytest.raises(ConfigError, match=r"config\.eval\.ood_tfds"):
        jem_ood.ood_sets(smoke(**{"eval.ood_tfds": ("no_such_set",)}), test)


def test_not_a_number_is_told_and_not_ranked():
    scores = jnp.array([0.0, jnp.nan])
    assert all(np.isnan(value) for value in jem_ood.detection(scores, scores).values())


def test_the_extremes_are_the_highest_and_then_the_lowest():
    values = np.array([3.0, 1.0, 4.0, 1.5, 9.0, 2.0])
    assert _extremes(values, 4).tolist() == [4, 2, 3, 1]
    assert _extremes(values, 6).tolist() == [4, 2, 0, 5, 3, 1]
