"""Distances of a latent EBM's samples where some of them diverged."""

import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import check_use, digits, launch
from test_latent_evaluators import KEY, linear

from ebmjax.data import ImageData, load_digits
from ebmjax.evaluate import Distances, Extractor
from ebmjax.evaluate._evidence import METHODS
from ebmjax.metrics import feature_moments, frechet_distance
from ebmjax.recipes.evaluators.generation import at_sizes, generation
from ebmjax.recipes.evaluators.result_tables import results

NUM = 40
IMAGES = np.random.default_rng(0).integers(0, 256, (NUM, 2, 2, 1), dtype=np.uint8)


def features(images):
    flat = jnp.asarray(images, jnp.float32).reshape(len(images), -1)
    return flat, None


DATA = ImageData(IMAGES, np.zeros(NUM, np.int32))
DISTANCES = Distances(DATA, Extractor("flat", features, {}))


def generated(num_diverged):
    """Judges samples that are the training images, but for the first ``num_diverged``.

    Their chains began at black images, and moved half a unit in every latent.
    """
    samples = IMAGES / 127.5 - 1.0
    samples[:num_diverged, 0] = np.nan
    drawn = np.full_like(samples, -1.0), samples, np.full((NUM, 3), -0.5)
    model = linear(distances=DISTANCES, programs={("prior", NUM, 40): lambda *_: drawn})
    found = generation(KEY, model, DATA, num_images=NUM)
    return found.report["generation"]


def test_no_sample_diverged():
    report = generated(0)
    found = report["fresh"]
    assert found["num_diverged"] == 0
    assert report["extractor"] == {"name": "flat"}
    # The samples are the data: float64 of covariances of order 1e4.
    assert found["fid"] == pytest.approx(0.0, abs=1e-6)
    assert "FID of fresh chains (flat)" in results({"generation": report})


def test_distances_at_infinity_are_lines_through_ten_sizes():
    images = IMAGES[: NUM // 2]
    found = at_sizes(KEY, DISTANCES, images)
    sizes = np.linspace(len(images) / 4.5, len(images), 10).round().astype(int)
    fid = []
    for key, size in zip(jax.random.split(KEY, 10), sizes, strict=True):
        some = images[np.asarray(jax.random.permutation(key, len(images)))[:size]]
        moments = [feature_moments(np.asarray(features(x)[0])) for x in (some, IMAGES)]
        fid.append(frechet_distance(*moments[0], *moments[1]))
    assert found["fid"] == pytest.approx(np.polyfit(1 / sizes, fid, 1)[1])
    assert np.isfinite(found["kid_rbf"])
    assert np.isnan(at_sizes(KEY, DISTANCES, images[:4])["fid"])


def test_diverged_samples_are_left_out_and_counted():
    """Black images in their place would be 0 in every feature."""
    found = generated(10)["fresh"]
    assert (found["num_diverged"], found["num_images"]) == (10, 30)
    # The starts of as many chains, by the same numbers.
    assert found["rms_displacement"] == pytest.approx(0.5)  # of latents
    starts = found["starts"]
    assert starts["num_images"] == 30
    black = DISTANCES.scores(np.zeros_like(IMAGES[10:]), at=NUM).numbers
    assert starts["fid"] == pytest.approx(black["fid"])
    assert found["minus_starts"]["high"] < 0  # the samples are the data, and their starts black


@pytest.mark.parametrize("num_left", [0, 3, 5, 7])
def test_too_few_samples_have_no_distance(num_left):
    found = generated(NUM - num_left)["fresh"]
    assert np.isfinite(found["fid"]) == (num_left >= 2)
    assert np.isfinite(found["fid_error"]) == (num_left >= 4)
    assert np.isnan(found["fid_infinity"])


@pytest.mark.slow
def test_a_trained_latent_model_is_used(smoke, monkeypatch, tmp_path):
    images = load_digits("test").images[:3]
    used = check_use(smoke, monkeypatch, tmp_path, images, ["log_evidence"])
    assert used.model.apply(used.params, jnp.zeros((2, 16))).shape == (2, 8, 8, 1)
    assert np.isfinite(used.score(images)["log_evidence"]).all()


# Steps enough to mix at every power, and eight chains a latent dimension for the divergences.
SETTINGS = {
    "model.latent_dim": 4,
    "train.num_epochs": 10,
    "train.checkpoint_every_epochs": 10,
    "evals.every_epochs": 10,
    "evals.generation.every": "never",
    "evals.evidence.num_images": 4,
    "evals.evidence.num_chains": 128,
    "evals.evidence.num_intervals": 30,
    "evals.evidence.num_steps": 60,
    "evals.evidence.step_size": 0.05,
    "evals.evidence.methods": tuple(METHODS),
}


@pytest.mark.slow
def test_all_methods_agree_on_every_image(tmp_path):
    """Pair by pair within 5 of their standard errors, which are small against the images'."""
    launch(digits("vanilla", **SETTINGS), "digits", str(tmp_path / "run"), "all")
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text())["evidence"]
    assert found.keys() == set(METHODS)
    for one, other in itertools.combinations(found.values(), 2):
        values = [np.array(method["log_evidence"]) for method in (one, other)]
        errors = [np.array(method["standard_error"]) for method in (one, other)]
        assert np.all(np.abs(values[0] - values[1]) < 5 * np.hypot(*errors))
        assert np.all(np.hypot(*errors) < 0.1 * np.ptp(values[0]))
