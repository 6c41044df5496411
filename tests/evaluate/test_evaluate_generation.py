"""Scores of generated images, whose features are their pixels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import data, evaluate, metrics
from ebmjax.evaluate import Chains, Extractor
from ebmjax.evaluate._distances import fid_line
from ebmjax.evaluate._generation import draw_gaussians, score_chains, take_balanced

TRAIN = np.random.default_rng(0).integers(0, 256, (9, 3, 1, 1), np.uint8)
PIXELS = Extractor(
    "pixels",
    lambda images: (
        np.float64(images).reshape(len(images), -1),  # pyright: ignore
        np.full((len(images), 2), 0.5),
    ),
    {},
)


def unlabelled(images):
    return data.ImageData(images, np.zeros(len(images), np.int32))


DISTANCES = evaluate.Distances(unlabelled(TRAIN), PIXELS, batch_size=6)


def floats(images):
    return np.asarray(data.to_signed_unit(jnp.asarray(images)))


def test_the_training_images_are_at_distance_zero_from_themselves():
    numbers = DISTANCES.scores(TRAIN).numbers
    # Rounding of float64 traces of order 1e4.
    assert abs(numbers["fid"]) < 1e-9
    assert numbers["is"] == pytest.approx(1.0)
    assert numbers["num_images"] == numbers["fid_num_images"] == 9
    # KID leaves out an image's kernel with itself on both sides, but not between them.
    x = np.float64(TRAIN).reshape(9, 3)
    gram = (x @ x.T / 3 + 1) ** 3
    own = np.mean(gram[~np.eye(9, dtype=bool)])
    assert numbers["kid"] == pytest.approx(2 * own - 2 * gram.mean())


def test_one_image_has_no_scores_but_their_names():
    numbers = DISTANCES.scores(TRAIN[:1]).numbers
    assert numbers.keys() == DISTANCES.scores(TRAIN).numbers.keys()
    assert numbers.pop("num_images") == 1
    assert np.isnan(list(numbers.values())).all()


@pytest.mark.slow
def test_fid_is_stated_for_another_number_by_its_line():
    """FID of draws from the reference: at 120 images foretold from 60, and 0 at infinity."""
    rng, num_trials = np.random.default_rng(0), 80
    many = rng.normal(128, 20, (1000, 3, 1, 1)).round().clip(0, 255).astype(np.uint8)
    distances = evaluate.Distances(unlabelled(many), PIXELS)
    found = np.empty((num_trials, 4))
    for trial in range(num_trials):
        drawn = many[rng.integers(0, 1000, 120)]
        few = distances.scores(drawn[:60], at=120).numbers
        assert few["fid_num_images"] == 120
        at_60 = distances.scores(drawn[:60], at=60).numbers["fid"]
        at_120 = distances.scores(drawn).numbers["fid"]
        found[trial] = at_60, at_120, few["fid"], few["fid_infinity"]
    means, errors = found.mean(0), found.std(0) / np.sqrt(num_trials)
    assert means[0] > means[1] + 5 * errors[:2].max()  # the bias
    assert means[2] == pytest.approx(means[1], abs=5 * np.hypot(*errors[1:3]))
    assert means[3] == pytest.approx(0.0, abs=5 * errors[3])


def test_fewer_images_than_twice_the_features_have_no_line():
    """FID is then stated for the images that there are."""
    numbers = DISTANCES.scores(TRAIN[:5], at=100).numbers
    assert numbers["fid_num_images"] == 5
    assert np.isnan(numbers["fid_infinity"])
    assert numbers["fid"] == DISTANCES.scores(TRAIN[:5]).numbers["fid"]
    halves = metrics.split_in_halves(jax.random.key(0), np.zeros(9, int))
    assert fid_line(1.0, np.ones((50, 2)), halves, 5) is None
    found = fid_line(1.0, np.full((50, 2), 2.0), halves, 4)
    # Through (1/9, 1) and (1/4, 2).
    assert found[0] == pytest.approx(1 - (1 / 9) / (1 / 4 - 1 / 9))


def test_labels_keep_their_numbers_in_errors():
    """Two classes that lie far apart: the error of fixed numbers of them is smaller."""
    labels = np.arange(40) % 2
    images = (
        np.random.default_rng(0).integers(0, 20, (40, 3, 1, 1)) + 200 * labels[:, None, None, None]
    )
    images = images.astype(np.uint8)
    distances = evaluate.Distances(unlabelled(images[:20]), PIXELS)
    fixed, free = (distances.scores(images, x).numbers for x in (labels, None))
    assert fixed["fid"] == free["fid"]
    assert fixed["fid_error"] < 0.5 * free["fid_error"]
    assert fixed["kid_error"] < 0.5 * free["kid_error"]


def test_ends_minus_starts_are_in_pairs():
    """Each end is its start, a little brighter: known far better than either score."""
    rng = np.random.default_rng(0)
    starts = rng.integers(0, 200, (60, 3, 1, 1)).astype(np.uint8)
    distances = evaluate.Distances(unlabelled(starts + np.uint8(40)), PIXELS)
    chains = Chains(floats(starts), floats(starts + np.uint8(20)), None)
    test = unlabelled(starts)
    found = {
        are_the_same: evaluate.generation(
            {"fresh": chains._replace(are_the_same=are_the_same)}, test, distances
        )["fresh"]
        for are_the_same in (True, False)
    }
    for name, score in (("minus_starts", "fid"), ("kid_minus_starts", "kid")):
        pairs, apart = (one[name] for one in found.values())
        expected = found[True][score] - found[True]["starts"][score]
        assert pairs["difference"] == apart["difference"] == expected
        assert pairs["low"] < expected < pairs["high"] < 0  # the ends are nearer
        assert pairs["high"] - pairs["low"] < 0.75 * (apart["high"] - apart["low"])
    # FID is 3 x 40^2 at the starts and 3 x 20^2 at the ends.
    assert found[True]["minus_starts"]["difference"] == pytest.approx(-3600, rel=1e-9)
    assert "rms_displacement" not in found[False]


def test_balanced_images_have_the_classes_in_turn():
    labels = np.array([2, 0, 0, 2, 1, 0, 2, 1])
    split = data.ImageData(np.arange(8, dtype=np.uint8).reshape(8, 1, 1, 1), labels)
    found = take_balanced(split, 100)
    assert found.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert found.images.ravel().tolist() == [1, 4, 0, 2, 7, 3]
    assert take_balanced(split, 4).labels.tolist() == [0, 1, 2, 0]
    assert take_balanced(unlabelled(split.images), 5).images.ravel().tolist() == [*range(5)]


def test_gaussians_have_the_moments_of_their_class(monkeypatch):
    monkeypatch.setattr("ebmjax.evaluate._generation.AT_ONCE", 7)  # some are read at a time
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(4, 4))
    images = 128 + 10 * rng.normal(size=(40, 4)) @ mixing
    images[1::2] += 20
    train = data.ImageData(
        images.round().clip(0, 255).astype(np.uint8).reshape(40, 2, 2, 1), np.arange(40) % 2
    )
    drawn = draw_gaussians(train, 20_000)
    assert drawn.labels.tolist() == [0, 1] * 10_000
    for label in (0, 1):
        mine = np.float64(train.images[label::2]).reshape(-1, 4)
        theirs = np.float64(drawn.images[drawn.labels == label]).reshape(-1, 4)
        cov = np.cov(mine.T, ddof=0)
        scale = np.sqrt(np.diag(cov))
        # Errors of 10,000 draws; rounding adds 1/12 to variances.
        np.testing.assert_allclose(
            theirs.mean(0), mine.mean(0), rtol=0, atol=5 * scale.max() / np.sqrt(10_000)
        )
        atol = 5 * np.sqrt(2) * scale.max() ** 2 / np.sqrt(10_000) + 1 / 12
        np.testing.assert_allclose(np.cov(theirs.T), cov, rtol=0, atol=atol)
    again = draw_gaussians(train, 20_000)
    np.testing.assert_array_equal(again.images, drawn.images)


def test_the_displacement_is_of_the_chains_pixels():
    """Two chains of two pixels: squares 0, 1, 4 and 4, in units of pixels in [-1, 1]."""
    starts = np.zeros((2, 2, 1, 1), np.float32)
    ends = np.array([[0.0, 1.0], [-2.0, 2.0]], np.float32).reshape(2, 2, 1, 1)
    assert Chains(starts, ends).rms_displacement() == 1.5
    assert np.isnan(Chains(starts[:0], ends[:0]).rms_displacement())
    assert Chains(starts, ends, ways=np.array([[3.0], [4.0]])).rms_displacement() == 12.5**0.5


def test_diverged_samples_are_counted_and_left_out():
    """And so are the starts of those chains, for equal numbers."""
    ends = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3, 1, 1)
    starts = ends[::-1].copy()
    ends[1, 0] = np.nan
    labels = np.array([0, 1, 0, 1])
    found = score_chains(Chains(starts, ends, labels), DISTANCES)
    assert (found["num_diverged"], found["num_images"]) == (1, 3)
    assert found["starts"]["num_images"] == 3
    left = Chains(starts[[0, 2, 3]], ends[[0, 2, 3]])
    assert found["rms_displacement"] == left.rms_displacement()
    whole = score_chains(Chains(starts, starts, labels), DISTANCES)
    assert whole["starts"]["num_images"] == 4
    found = score_chains(Chains(starts, np.full_like(ends, np.inf)), DISTANCES)
    assert (found["num_diverged"], found["num_images"]) == (4, 0)
    assert np.isnan([*found["minus_starts"].values()]).all()
    found = evaluate.finite_images(ends).ravel().tolist()
    assert found == [0, 23, 46, 139, 162, 186, 209, 232, 255]


def test_samples_are_beside_their_starts_test_images_and_gaussians():
    """The ends are training images, of which FID and a shift of two levels are known."""
    chains = Chains(np.zeros((6, 3, 1, 1), np.float32), floats(TRAIN[:6]))
    found = evaluate.generation(
        {"fresh": chains, "few": Chains(*(x[:3] for x in chains[:2]))},
        unlabelled(np.concatenate([TRAIN, TRAIN])),
        DISTANCES,
    )
    assert (found["num_reference"], found["num_images"], found["num_compared"]) == (9, 6, 6)
    assert found["extractor"] == {"name": "pixels"}
    sizes = {"fresh": 6, "few": 3, "test_images": 6, "gaussian": 6}
    assert {name: found[name]["num_images"] for name in sizes} == sizes
    assert found["fresh"]["fid"] == DISTANCES.scores(TRAIN[:6]).numbers["fid"]
    assert found["fresh"]["starts"]["fid"] > found["fresh"]["fid"]
    # Grey images, 128: a shift of the means, and none of the covariance.
    moments = metrics.feature_moments(np.float64(TRAIN).reshape(9, 3))
    expected = np.sum((128 - moments.mean) ** 2) + np.trace(moments.cov)
    assert found["fresh"]["starts"]["fid"] == pytest.approx(expected, rel=1e-9)


def test_inception_scores_use_as_many_images_as_there_are_test_images():
    """There are six, as many of each class, though the test images have more of one."""
    labels = np.arange(9) % 3
    train = data.ImageData(TRAIN, labels)
    test = data.ImageData(TRAIN[:7], labels[:7])
    chains = Chains(floats(TRAIN), floats(TRAIN), labels)
    share = lambda x: np.concatenate([x[:, 0, 0], 255.0 - x[:, 0, 0]], axis=1) / 255  # noqa: E731
    classes = Extractor("", lambda x: (np.float64(x).reshape(len(x), -1), share(x)), {})  # pyright: ignore
    distances = evaluate.Distances(train, classes)
    found = evaluate.generation({"fresh": chains}, test, distances)
    assert (found["num_images"], found["num_compared"]) == (9, 6)
    assert found["test_images"]["num_images"] == 6
    assert found["fresh"]["is"] == metrics.inception_score(share(TRAIN[:6]))
    assert found["fresh"]["is"] != metrics.inception_score(share(TRAIN))


def test_scores_of_what_no_update_changes_are_kept():
    """Those of starts for as long as the starts stay, and of test images and Gaussians."""
    rng = np.random.default_rng(0)
    starts, ends = rng.uniform(-1, 1, (2, 9, 3, 1, 1)).astype(np.float32)
    test, distances = unlabelled(TRAIN), evaluate.Distances(unlabelled(TRAIN), PIXELS)
    first = evaluate.along_training(Chains(starts, ends), test, distances)
    scored = score_chains(Chains(starts, ends), distances, at=9)
    assert first["sample_fid"] == scored["fid"]
    assert first["fid_minus_starts"] == scored["minus_starts"]["difference"]
    assert abs(first["test_images_fid"]) < 1e-9
    assert first["gaussian_fid"] > 0
    assert "gaussian_kid" not in first
    calls, score = [], distances.scores
    distances.scores = lambda *args, **options: calls.append(1) or score(*args, **options)
    again = evaluate.along_training(Chains(starts, starts), test, distances)
    assert len(calls) == 1
    assert again["fid_minus_starts"] == 0.0
    evaluate.along_training(Chains(ends, ends), test, distances)
    assert len(calls) == 3
