"""--mode=eval: what it refuses, and its numbers against other people's code."""

import shutil
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import build_experiment, check_use, launch, strict_json
from PIL import Image
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.metrics import roc_auc_score
from test_joint_runs import assert_trained

from ebmjax import data, metrics, training
from ebmjax.recipes.config.errors import ConfigError, flatten
from ebmjax.recipes.evaluators.landscape import landscape
from ebmjax.recipes.folder import run_folder
from experiments.configs import jem_digits

SCORES = ("log_density", "max_probability", "negative_score_norm")
pytestmark = pytest.mark.usefixtures("shallow")

EPS = float(jnp.finfo(jnp.float32).eps)
PLOTS = ("buffer", "conditional", "landscape", "ood", "reliability", "samples")


def smoke(**overrides):
    config = jem_digits.get_config("smoke")
    config.update_from_flattened_dict(overrides)
    return config


def evaluate(config, folder):
    return launch(config, "configs/jem_digits.py:smoke", str(folder), "eval")


@pytest.fixture(scope="module")
def run(tmp_path_factory, shallow):
    """The folder of a run by --mode=all: to be read, and copied before it is changed."""
    folder = tmp_path_factory.mktemp("jem") / "run"
    assert launch(smoke(), "configs/jem_digits.py:smoke", str(folder), "all") is None
    return folder


@pytest.fixture
def copied(run, tmp_path):
    return shutil.copytree(run, tmp_path / "run")


def report_of(folder):
    return strict_json((folder / "evaluation.json").read_text())


def test_the_run_has_rows_a_summary_and_pictures(run):
    assert_trained(run, 8, 1)


@pytest.mark.slow
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
    for name in PLOTS:
        with Image.open(copied / "plots" / f"eval_{name}.png") as image:
            assert min(image.size) > 100
    assert not list(copied.glob("evaluation.*.json"))


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
    is_ours = np.arange(64) < 32
    for score in SCORES:
        for name, one in report["sets"].items():
            assert one["num_images"] == 32
            values = np.concatenate([arrays[f"test_{score}"], arrays[f"{name}_{score}"]])
            expected = {"auroc": roc_auc_score(is_ours, values)}
            assert one[score] == pytest.approx(expected, rel=64 * EPS)
    densities = logsumexp(np.float64(arrays["logits"]), axis=1)
    np.testing.assert_allclose(arrays["test_log_density"], densities, rtol=20 * EPS)


def test_robust_accuracy_starts_at_the_accuracy_of_the_attacked(run):
    report, arrays = report_of(run), np.load(run / "evaluation.npz")
    clean = np.mean(arrays["logits"][:16].argmax(1) == arrays["labels"][:16])
    for norm in ("linf", "l2"):
        curve = report["robustness"][norm]
        assert curve["0"] == clean
        assert max(curve.values()) == clean
    protocol = report["robustness"]["protocol"]
    assert (protocol["num_images"], protocol["num_steps"], protocol["num_eot"]) == (16, 2, 1)


def test_numbers_image_by_image_add_up_to_the_report(run):
    """Every one that is an average over test images; its error is that of the same file."""
    report = report_of(run)
    names = [f"classification.{name}" for name in ("accuracy", "ece", "nll", "brier")]
    names += [
        f"ood.sets.{name}.{score}.auroc" for name in report["ood"]["sets"] for score in SCORES
    ]
    names += [
        f"robustness.{norm}.{x}" for norm in ("linf", "l2") for x in report["robustness"][norm]
    ]
    assert set(report["test_set_error"]) == set(names)
    for name in names:
        parts = run_folder.read_per_image(run, name)
        number = sum(float(np.mean(part, dtype=np.float64)) for part in parts.values())
        np.testing.assert_allclose(number, flatten(report)[name], rtol=0, atol=300 * EPS)
        error = metrics.sampling_error(tuple(parts.values()))
        assert report["test_set_error"][name] == error
    right = run_folder.read_per_image(run, "classification.accuracy")
    assert right["test"].dtype == bool  # which paired differences take for right and wrong
    images = data.load_digits("test").images[:32]
    assert report["images_sha256"] == training.tree_digest(images)


def test_generated_sets_are_complete_and_named_after_the_extractor(run):
    whole, arrays = report_of(run), np.load(run / "evaluation.npz")
    report = whole["generation"]
    assert whole["num_chain_steps"] == 20  # ten times the two of training
    assert report["num_reference"] == 64
    assert report["extractor"]["name"] == "digits_features"
    for name in ("fresh", "conditional", "buffer"):
        assert (report[name]["num_images"], report[name]["num_diverged"]) == (16, 0)
        assert report[name]["starts"]["num_images"] == 16
        for images in (arrays[f"{name}_images"], arrays[f"{name}_start_images"]):
            assert (images.shape, images.dtype) == ((16, 8, 8, 1), np.uint8)
        for number in ("fid", "kid", "is"):
            assert np.isfinite([report[name][number], report[name]["starts"][number]]).all()
        assert ("rms_displacement" in report[name]) == (name != "buffer")
    assert whole["temperature"] == pytest.approx(0.01**2 / 2)
    assert np.bincount(arrays["conditional_labels"]).tolist() == [2] * 6 + [1] * 4
    assert arrays["buffer_labels"].shape == arrays["buffer_class_probability"].shape == (16,)
    assert np.unique(arrays["fresh_images"], axis=0).shape[0] == 16


def test_the_centre_of_the_landscape_is_the_mean_energy(run):
    experiment = build_experiment(smoke(), run)
    model, key = experiment.use(experiment.state), jax.random.key(5)
    found = landscape(key, model, experiment.evaluate.__self__.tests[1], num_points=3)
    image_key = jax.random.split(jax.random.split(key, 3)[2], 3)[0]
    chosen = np.asarray(jax.random.permutation(image_key, 64))[:6]
    scores = model.log_densities(model.train.images[chosen])
    # Means of six log densities of order one, in two compilations.
    expected, energies = -np.mean(scores), found.arrays["landscape_energies"]
    np.testing.assert_allclose(energies[1, 1], expected, rtol=0, atol=100 * EPS)
    assert found.arrays["landscape_coordinates"].tolist() == [-1, 0, 1]
    report = found.report["landscape"]
    assert report["landscape_range"] == float(np.ptp(energies)) > 0
    assert (report["num_points"], report["num_images"]) == (3, 6)


def test_missing_weights_are_told_before_training(tmp_path):
    config = smoke(**{"evals.inception_weights": "~/nothing.npz"})
    with pytest.raises(ConfigError, match=r"inception_weights: no weights at .*/nothing\.npz"):
        launch(config, "jem_digits.py:smoke", str(tmp_path / "run"), "all")
    assert not (tmp_path / "run").exists()


# Parts, on networks and samplers whose outcome is known.


@pytest.mark.slow
def test_a_trained_classifier_is_used(run, monkeypatch, tmp_path):
    images = data.load_digits("test").images[:32]
    probabilities = [f"class_probability_{i}" for i in range(10)]
    used = check_use(run, monkeypatch, tmp_path, images, [*probabilities, *SCORES])
    found = used.score(images)
    with np.load(run / "evaluation.npz") as arrays:
        # The same program on the same images.
        np.testing.assert_array_equal(found["log_density"], arrays["test_log_density"])
        logits = used.model.apply(used.params, data.to_signed_unit(jnp.asarray(images)))
        np.testing.assert_allclose(logits, arrays["logits"], atol=300 * EPS)
