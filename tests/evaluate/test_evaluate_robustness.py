"""Robust accuracy of a linear model, behind a transform too, against what its margins say."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import evaluate, metrics
from ebmjax.data import ImageData
from ebmjax.metrics._attacks import PGDResult

# Labels are 1, where the second class has the larger weights.
WEIGHTS = np.array([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25]], np.float32)  # (pixels, classes)
DIFFERENCE = WEIGHTS[:, 1] - WEIGHTS[:, 0]
IMAGES = np.array([[127, 147, 128], [128, 166, 127], [127, 26, 128], [128, 129, 127]], np.uint8)
TEST = ImageData(IMAGES.reshape(4, 3, 1, 1), np.ones(4, np.int32))
MARGINS = (2.0 * IMAGES - 255.0) / 255.0 @ DIFFERENCE
EPS = float(np.finfo(np.float32).eps)


def linear(images):
    return images.reshape(len(images), 3) @ WEIGHTS


attacked = partial(evaluate.robustness, jax.random.key(0), linear, num_steps=3, batch_size=2)


def test_robust_accuracy_of_a_linear_classifier():
    """The margin falls by radius times the l1 norm of the weights' difference, and no more."""
    levels = np.array([0, 10, 60])
    reach = 2 * levels / 255 * np.abs(DIFFERENCE).sum()
    expected = (MARGINS[:, None] > reach[None]).mean(0)
    assert expected.tolist() == [0.75, 0.25, 0.0]  # every radius tells something
    report = attacked(TEST, linf=levels, l2=())
    assert report["linf"] == dict(zip(["0", "10", "60"], expected, strict=True))
    assert report["per_image"]["linf.10"].tolist() == (reach[1] < MARGINS).tolist()
    assert {name: found.mean() for name, found in report["per_image"].items()} == {
        f"linf.{level}": share for level, share in report["linf"].items()
    }
    assert "l2" not in report
    assert report["protocol"]["num_images"] == 4
    assert report["protocol"]["step_size"] == "2.5 epsilon / num_steps"


def test_steps_of_an_attack_may_be_given():
    """A step of the default length crosses the margin, one of a fiftieth of a level does not."""
    one = ImageData(*(array[1:2] for array in TEST))
    level = 255 * float(MARGINS[1]) / np.abs(DIFFERENCE).sum() / 2  # just reaches the boundary
    assert level > 0.1
    name = f"{1.5 * level:g}"
    radius = {"linf": (1.5 * level,), "l2": (), "num_steps": 1}
    assert attacked(one, **radius)["linf"] == {name: 0.0}
    # From a random start, whose logits differ by less than the margin on average.
    small = attacked(one, **radius, step_size=0.02 * level)
    assert small["linf"] == {name: 1.0}
    assert small["protocol"]["step_size"] == 0.02 * level


def test_the_settings_of_an_attack_reach_it(monkeypatch):
    """And every batch of either norm, radius and attack has random numbers of its own."""
    asked, keys = [], set()

    def attack(key, classify, images, labels, *, epsilon, **options):
        asked.append(options)
        jax.debug.callback(lambda bits: keys.add(tuple(bits.tolist())), jax.random.key_data(key))
        flags = jnp.zeros(len(images), bool)
        return PGDResult(images, flags, jnp.zeros(len(images)), ~flags)

    monkeypatch.setattr(metrics, "pgd_attack", attack)
    settings = {"num_steps": 4, "num_restarts": 2, "num_eot": 3}
    radii = {"linf": (0, 10, 60), "l2": (0, 30)}
    report = attacked(TEST, **radii, transform=lambda key, x: x, **settings)
    assert all(settings.items() <= one.items() for one in asked)
    jax.effects_barrier()
    assert len(keys) == 2 * 2 * (3 + 2)
    assert {name: report["protocol"][name] for name in settings} == settings


# Turns the sign of the last pixel's slope, which the identity for a derivative does not know.
MIXING = np.array([[1.0, 0.2, 0.1], [0.1, 1.0, 0.2], [0.9, -0.2, 1.0]], np.float32)


def mix(key, images):
    return (images.reshape(-1, 3) @ MIXING).reshape(images.shape)


def test_an_attack_through_a_transform_finds_the_worst_image():
    """The margin falls by the l1 norm of the mixed weights; along the unmixed ones by less."""
    flat = IMAGES.reshape(4, 3) / 127.5 - 1
    levels = np.array([0.0, 5.0, 10.0, 14.0, 25.0])
    reach = 2 * levels[:, None] / 255
    margins, slopes = flat @ MIXING @ DIFFERENCE, MIXING @ DIFFERENCE
    full = margins > reach * np.abs(slopes).sum()
    bpda = margins > reach * (np.sign(DIFFERENCE) @ slopes)
    assert 0 < full.mean() < bpda.mean()
    options = {"linf": levels, "l2": ()}
    report = attacked(TEST, **options, transform=mix)
    names = [f"{level:g}" for level in levels]
    found = {
        name: np.array([one["linf"][level] for level in names])
        for name, one in report["by_gradient"].items()
    }
    np.testing.assert_array_equal(found["full"], full.mean(1))
    assert np.all(found["bpda"] >= full.mean(1))
    assert found["bpda"].sum() > full.mean(1).sum()
    np.testing.assert_array_equal([report["linf"][level] for level in names], full.mean(1))
    assert report["protocol"]["gradients"] == ["bpda", "full"]
    alone = attacked(TEST, **options, transform=mix, gradients=("bpda",))
    assert alone["linf"] == report["by_gradient"]["bpda"]["linf"]
    assert alone["protocol"]["gradients"] == ["bpda"]


def test_an_image_withstands_if_all_attacks_fail_and_one_had_a_gradient():
    """Rounding has the derivative zero, so only the attack that takes it as 1 can move."""
    levels = (0, 10, 60)

    def rounded(key, images):
        return jnp.round(images * 2**12) / 2**12

    plain = attacked(TEST, linf=levels, l2=())
    report = attacked(TEST, linf=levels, l2=(), transform=rounded)
    assert report["linf"] == plain["linf"] == {"0": 0.75, "10": 0.25, "60": 0.0}
    assert report["usable_gradient"]["linf"] == dict.fromkeys(["0", "10", "60"], 1.0)
    blind = report["by_gradient"]["full"]
    assert blind["linf"] == {"0": 0.75, "10": 0.0, "60": 0.0}
    assert blind["usable_gradient"]["linf"]["0"] == 1.0
    assert blind["usable_gradient"]["linf"]["10"] < 1.0
    alone = attacked(TEST, linf=levels, l2=(), transform=rounded, gradients=("full",))
    assert alone["linf"] == blind["linf"]
    assert not np.any(alone["per_image"]["linf.10"])


def test_what_cannot_be_attacked_is_refused():
    for gradients in ((), "full", ("true",)):
        with pytest.raises(ValueError, match="gradients must name at least one of 'bpda' and"):
            attacked(TEST, transform=mix, gradients=gradients)
    with pytest.raises(ValueError, match=r"test\.labels must be a class for each image"):
        attacked(ImageData(TEST.images, None))
    with pytest.raises(ValueError, match="batch_size must be an integer of at least 1"):
        attacked(TEST, batch_size=0)
    with pytest.raises(ValueError, match="levels must be zero or more"):
        attacked(TEST, linf=(-1,))
