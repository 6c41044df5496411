"""The thresholds of novelty that the evaluator of other images reports."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import data, metrics
from ebmjax.recipes.evaluators import ood
from experiments.configs import jem_digits


def logits_fn(images):
    """The log density is minus the square of the mean pixel, in [-1, 1], plus log 2."""
    value = -jnp.square(jnp.mean(images, axis=(1, 2, 3)))
    return jnp.stack([value, value], axis=1)


def make_images(seed, num):
    images = np.random.default_rng(seed).integers(0, 256, (num, 4, 4, 1), np.uint8)
    return data.ImageData(images, np.arange(num) % 2)


def model_of(held_out):
    config = jem_digits.get_config("smoke")
    return SimpleNamespace(logits=logits_fn, held_out=held_out, config=config)


@pytest.fixture
def sets(monkeypatch):
    """White images in place of the usual sets."""
    white = np.full((60, 4, 4, 1), 255, np.uint8)
    monkeypatch.setattr(ood.evaluate, "ood_sets", lambda images: {"white": white[: len(images)]})


@pytest.mark.usefixtures("sets")
def test_thresholds_come_from_images_held_out(tmp_path):
    test, held_out = make_images(0, 60), make_images(1, 39)
    model = model_of(held_out)
    found = ood.ood(jax.random.key(0), model, test)
    report = found.report["ood"]["threshold"]
    squares, tested = (
        -((images.images / 127.5 - 1).mean((1, 2, 3)) ** 2) for images in (held_out, test)
    )
    want = metrics.novelty_threshold(squares + np.log(2.0), ood.RATE)
    one = report["log_density"]
    assert one["threshold"] == pytest.approx(want.threshold, abs=1e-6)
    assert one["rate_high"] == pytest.approx(want.rate_high)
    share = np.mean(tested < want.threshold - np.log(2.0))
    assert one["below"] == {"test": pytest.approx(share), "white": 1.0}
    found.pictures["ood"](tmp_path / "ood.png")


@pytest.mark.usefixtures("sets")
def test_images_that_chose_the_threshold_do_not_judge_it():
    held_out = make_images(1, 39)
    model = model_of(held_out)
    evaluator = partial(ood.ood, jax.random.key(0))
    report = evaluator(model, held_out).report["ood"]["threshold"]
    assert set(report["log_density"]["below"]) == {"white"}
    model.held_out = make_images(1, 18)
    report = evaluator(model, held_out).report["ood"]["threshold"]
    assert "needs at least 19 scores, got 18" in report["skipped"]
    model.held_out = None
    assert "threshold" not in evaluator(model, held_out).report["ood"]
