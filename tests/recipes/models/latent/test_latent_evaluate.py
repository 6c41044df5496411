"""Distances of a latent EBM's samples where some of them diverged."""

import time
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import digits

from ebmjax.data import ImageData
from ebmjax.evaluate import Extractor
from ebmjax.metrics import feature_moments, frechet_distance, manifold_scores
from ebmjax.recipes.evaluators.distances import RunDistances
from ebmjax.recipes.models.latent import cost, evaluate
from ebmjax.recipes.models.latent.evaluate import LatentEvaluation
from ebmjax.recipes.models.latent.monitor import PriorSamples
from ebmjax.recipes.run.tracking import evaluation_table

NUM = 40
IMAGES = np.random.default_rng(0).integers(0, 256, (NUM, 2, 2, 1), dtype=np.uint8)
LATENTS = np.random.default_rng(1).normal(size=(NUM, 3))


def features(images):
    flat = jnp.asarray(images, jnp.float32).reshape(len(images), -1)
    return flat, None


class FlatDistances(RunDistances):
    extractor = Extractor("flat", features, {})


@pytest.fixture
def evaluation():
    """Uses samples that are the training images, but for the first ``num_diverged``.

    Their chains began at black images, half a unit from each latent.
    """

    def make(num_diverged):
        samples = IMAGES / 127.5 - 1.0
        samples[:num_diverged, 0] = np.nan
        found = PriorSamples(samples, np.full_like(samples, -1.0), LATENTS, LATENTS + 0.5)
        config = digits(**{"eval.generation.num_images": NUM, "eval.generation.smallest_num": 4})
        train = ImageData(IMAGES, np.zeros(NUM, np.int32))
        monitor = SimpleNamespace(
            programs=SimpleNamespace(sample=lambda *_: found),
            distances=FlatDistances(train, train, config),
        )
        return LatentEvaluation(monitor=monitor, test=train, config=config)  # pyright: ignore

    return make


KEYS = [evaluate.keys_of(jax.random.key(0))]


def generated(made):
    return made._generation(KEYS, [None], np.array(False))


def test_no_sample_diverged(evaluation):
    made = evaluation(0)
    report = generated(made)
    found = report["fresh"]
    assert found["num_diverged"] == 0
    assert report["extractor"] == {"name": "flat"}
    # The samples are the data: float64 of covariances of order 1e4.
    assert found["fid"] == pytest.approx(0.0, abs=1e-6)
    sized = found["at_sizes"]
    assert all(np.isfinite(sized[name]["values"]).all() for name in sized)
    assert sized["fid"]["values"][-1] == pytest.approx(0.0, abs=1e-6)
    # Each in its own ball and five others'.
    scores = {"precision": 1.0, "recall": 1.0, "density": 6 / 5, "coverage": 1.0}
    assert {name: found[name] for name in scores} == pytest.approx(scores)
    assert "FID of fresh chains (flat)" in evaluation_table({"generation": report})


def test_diverged_samples_are_left_out_and_counted(evaluation):
    """Black images in their place would be 0 in every feature."""
    made = evaluation(10)
    found = generated(made)["fresh"]
    assert (found["num_diverged"], found["num_images"]) == (10, 30)
    is_reached = np.array(made.sizes) <= 30
    assert 2 <= is_reached.sum() < 10
    values = np.array(found["at_sizes"]["fid"]["values"])
    np.testing.assert_array_equal(np.isfinite(values), is_reached)
    left, training = features(IMAGES[10:])[0], features(IMAGES)[0]
    chosen = np.random.default_rng(0).permutation(NUM)[:30]
    expected = manifold_scores(left, training[chosen], num_neighbours=5)._asdict()
    assert {name: found[name] for name in expected} == expected
    # The starts of as many chains, by the same numbers.
    assert found["rms_displacement"] == pytest.approx(0.5)  # of latents
    starts = found["starts"]
    assert starts["num_images"] == 30
    black = made.monitor.distances.scores(np.zeros_like(IMAGES[10:]), at=NUM).numbers
    assert starts["fid"] == pytest.approx(black["fid"])
    assert found["minus_starts"]["high"] < 0  # the samples are the data, and their starts black
    expected = np.polyfit(1 / np.array(made.sizes)[is_reached], values[is_reached], 1)[1]
    assert found["at_sizes"]["fid"]["infinity"] == pytest.approx(expected)


@pytest.mark.parametrize("num_left", [0, 3, 5, 7])
def test_too_few_samples_have_no_distance_at_infinity(evaluation, num_left):
    found = generated(evaluation(NUM - num_left))["fresh"]
    assert np.isfinite(found["fid"]) == (num_left >= 2)
    assert np.isfinite(found["fid_error"]) == (num_left >= 4)
    values = found["at_sizes"]["fid"]["values"]
    assert np.isfinite(values).sum() == (num_left >= 4)
    assert np.isfinite(found["recall"]) == (num_left > 5)
    assert np.isnan(found["at_sizes"]["fid"]["infinity"])


@pytest.mark.parametrize("num_test", [NUM, NUM // 2])
def test_test_images_are_judged_at_as_many_or_proportional_sizes(evaluation, num_test):
    made = evaluation(0)
    made = replace(made, test=ImageData(IMAGES[:num_test], np.zeros(num_test, np.int32)))
    report = generated(made)
    found = report["test_images"]["at_sizes"]["fid"]
    assert report["sizes"] == made.sizes
    assert np.isfinite(found["values"]).all()
    assert np.isfinite(found["infinity"])
    # All test images are the training images, or the first half of them.
    features_of = [features(images)[0] for images in (IMAGES[:num_test], IMAGES)]
    moments = [feature_moments(np.asarray(x)) for x in features_of]
    # In float64, of traces of order 1e4.
    assert found["values"][-1] == pytest.approx(
        frechet_distance(*moments[0], *moments[1]), abs=1e-6
    )


def test_the_report_keeps_errors_and_evidence_image_by_image(monkeypatch):
    """Has two repeats; the second diverged."""
    values = np.random.default_rng(1).normal(size=(2, NUM)).astype(np.float32)
    evidence = {"ais": {"log_evidence": values[:, :3], "mean": values[:, :3].mean(axis=1)}}
    monkeypatch.setattr(evaluate.latent_evidence, "compare", lambda *given: evidence)
    monkeypatch.setattr(evaluate, "params_of_repeats", lambda state: [None, None])
    monkeypatch.setattr(LatentEvaluation, "_cost", lambda *given: {})
    row = {"test_reconstruction_error": values.mean(axis=1)}
    monitor = SimpleNamespace(
        measure=lambda state: (row, {"squared_errors": values}), powers=np.ones(2), model=None
    )
    config = digits(**{"eval.generation.every": "never", "train.max_consecutive_skips": 5})
    test = ImageData(IMAGES, np.zeros(NUM, np.int32))
    evaluation = LatentEvaluation(monitor=monitor, test=test, config=config)  # pyright: ignore
    report = evaluation(SimpleNamespace(consecutive_skipped=np.array([0, 5]), step=3))  # pyright: ignore
    found = report["per_image"]
    assert set(found) == {"test_reconstruction_error", "evidence.ais.mean"}
    for name, number in (
        ("test_reconstruction_error", report["test_reconstruction_error"]),
        ("evidence.ais.mean", report["evidence"]["ais"]["mean"]),
    ):
        kept = found[name]["test"]
        assert np.isnan(kept[1]).all()
        assert kept[0].mean() == pytest.approx(number[0], rel=1e-5)
    assert len(report["images_sha256"]) == 64


def test_the_cost_is_the_median_of_calls_after_the_first(monkeypatch):
    monkeypatch.setattr(cost.metrics, "compiled_flops", lambda *_: 7.0)
    calls = []

    def gradient_fn(x):
        calls.append(x)
        time.sleep(0.01 if calls[1:] else 1.0)
        return x

    found = cost.cost(gradient_fn, 3.0, num_steps=10, pilot_seconds=2.0)
    assert calls == [3.0] * 6
    assert 0.01 <= found["seconds_per_step"] < 1.0
    assert found["train_seconds"] == 2.0 + 10 * found["seconds_per_step"]
    assert found["flops_per_step"] == 7.0
