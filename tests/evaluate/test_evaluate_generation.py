"""Distances of generated images, whose features are their pixels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import data, evaluate, metrics
from ebmjax.evaluate import Chains, Extractor, rms_displacement
from ebmjax.evaluate._generation import NO_SCORES, manifold_scores

TRAIN = np.random.default_rng(0).integers(0, 256, (9, 3, 1, 1), np.uint8)
FEATURES = np.random.default_rng(0).normal(size=(60, 3))
PIXELS = Extractor(
    "pixels",
    lambda images: (
        np.float64(images).reshape(len(images), -1),  # pyright: ignore
        np.full((len(images), 2), 0.5),
    ),
    {},
)
DISTANCES = evaluate.Distances(TRAIN, PIXELS, batch_size=6)


def test_the_training_images_are_at_distance_zero_from_themselves():
    distances = DISTANCES(TRAIN)
    # Rounding of float64 traces of order 1e4.
    assert abs(distances["fid_pixels"]) < 1e-9
    assert distances["is_pixels"] == pytest.approx(1.0)
    assert distances["num_images"] == 9
    # Each of them in its own ball and those of five others.
    scores = {"precision": 1.0, "recall": 1.0, "density": 6 / 5, "coverage": 1.0}
    assert {name: distances[f"{name}_pixels"] for name in scores} == pytest.approx(scores)


def test_a_shift_of_all_images_is_the_distance():
    train = np.full((4, 3, 1, 1), 10, np.uint8)
    distances = evaluate.Distances(train, PIXELS)(train + 2)
    assert distances["fid_pixels"] == pytest.approx(3 * 2.0**2)


def test_along_training_what_is_not_finite_is_left_out_and_one_image_has_no_distance():
    found = DISTANCES
    ends = np.asarray(data.to_signed_unit(jnp.asarray(TRAIN)))
    lost = np.concatenate([ends, np.full((1, 3, 1, 1), np.nan, np.float32)])
    numbers = found.along_training(lost)
    assert abs(numbers["sample_fid"]) < 1e-9
    assert numbers["sample_is"] == pytest.approx(1.0)
    # KID leaves out an image's kernel with itself on both sides, but not between them.
    x = np.float64(TRAIN).reshape(9, 3)
    gram = (x @ x.T / 3 + 1) ** 3
    own = np.mean(gram[~np.eye(9, dtype=bool)])
    assert numbers["sample_kid"] == pytest.approx(2 * own - 2 * gram.mean())
    assert all(np.isnan(value) for value in found.along_training(lost[-2:]).values())


def test_the_displacement_is_of_the_chains_pixels():
    """Two chains of two pixels: squares 0, 1, 4 and 4, in units of pixels in [-1, 1]."""
    starts = np.zeros((2, 2, 1, 1), np.float32)
    ends = np.array([[0.0, 1.0], [-2.0, 2.0]], np.float32).reshape(2, 2, 1, 1)
    assert rms_displacement(starts, ends) == 1.5
    assert np.isnan(rms_displacement(starts[:0], ends[:0]))


def test_diverged_samples_are_counted_and_left_out():
    """And so are the starts of those chains, for equal numbers."""
    ends = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3, 1, 1)
    starts = ends[::-1].copy()
    ends[1, 0] = np.nan
    report = DISTANCES.of_chains(Chains(starts, ends))
    assert (report["num_diverged"], report["num_images"]) == (1, 3)
    assert report["starts"]["num_images"] == 3
    assert report["rms_displacement"] == rms_displacement(starts[[0, 2, 3]], ends[[0, 2, 3]])
    report = DISTANCES.of_chains(Chains(starts, np.full_like(ends, np.inf)))
    assert (report["num_diverged"], report["num_images"]) == (4, 0)
    assert evaluate.finite_images(ends).ravel().tolist() == [
        0,
        23,
        46,
        139,
        162,
        185,
        209,
        232,
        255,
    ]


def test_without_an_extractor_images_are_counted():
    ends = np.zeros((4, 3, 1, 1), np.float32)
    found = evaluate.generation(
        {"fresh": Chains(ends, ends)}, TRAIN, evaluate.Distances(TRAIN, None)
    )
    assert found["extractor"] is None
    assert found["test_images"] == {"num_images": 4}
    assert found["fresh"]["starts"] == {"num_images": 4}


def test_samples_are_beside_their_starts_and_as_many_test_images():
    """The ends are the training images, of which FID and a shift of two levels are known."""
    ends = np.asarray(data.to_signed_unit(jnp.asarray(TRAIN[:6])))
    chains = Chains(np.zeros_like(ends), ends)
    found = evaluate.generation(
        {"fresh": chains, "few": Chains(*(x[:3] for x in chains[:2]))},
        np.concatenate([TRAIN, TRAIN]),
        DISTANCES,
    )
    assert found["num_reference"] == 9
    assert found["extractor"] == {"name": "pixels"}
    assert [found[name]["num_images"] for name in ("fresh", "few", "test_images")] == [6, 3, 6]
    assert found["fresh"]["fid_pixels"] == DISTANCES(TRAIN[:6])["fid_pixels"]
    assert found["fresh"]["starts"]["fid_pixels"] > found["fresh"]["fid_pixels"]
    # Grey images, 128: a shift of the means, and none of the covariance.
    moments = metrics.feature_moments(np.float64(TRAIN).reshape(9, 3))
    expected = np.sum((128 - moments.mean) ** 2) + np.trace(moments.cov)
    assert found["fresh"]["starts"]["fid_pixels"] == pytest.approx(expected, rel=1e-9)


def test_a_size_beyond_the_images_has_no_value():
    found = DISTANCES.at_sizes(jax.random.key(0), TRAIN, [4, 9, 10])
    assert np.isfinite(found["fid"]).tolist() == [True, True, False]
    assert abs(found["fid"][1]) < 1e-9  # all training images, in some order
    assert found["kid_polynomial"][1] == pytest.approx(DISTANCES(TRAIN)["kid_pixels"])
    none = DISTANCES.at_sizes(jax.random.key(0), TRAIN, [10])
    assert np.isnan([*none["fid"], *none["kid_rbf"], *none["manifold"].values()]).all()


@pytest.mark.parametrize(
    ("starts", "ends"), [((4, 3, 1, 1), (3, 3, 1, 1)), ((4, 3), (4, 3)), ((3, 1, 1), (3, 1, 1))]
)
def test_chains_that_are_no_images_are_refused(starts, ends):
    with pytest.raises(ValueError, match=r"one shape \(N, H, W, C\), got"):
        DISTANCES.of_chains(Chains(np.zeros(starts), np.zeros(ends)))


def test_no_set_of_samples_is_refused():
    with pytest.raises(ValueError, match="at least one set of samples"):
        evaluate.generation({}, TRAIN, DISTANCES)


def test_as_many_reference_images_as_are_judged(monkeypatch):
    """From all over the data set, which may come class by class, and the same for every run."""
    given = []

    def record(generated, reference, num_neighbours):
        given.append(reference)
        return metrics.ManifoldScores(len(generated), len(reference), num_neighbours, 0.0)

    monkeypatch.setattr(metrics, "manifold_scores", record)
    reference = np.arange(1000.0)[:, None]
    scores = [manifold_scores(FEATURES[:num], reference) for num in (20, 60)]
    assert scores[1] == {"precision": 60, "recall": 60, "density": 5, "coverage": 0.0}
    few, many = (rows[:, 0].tolist() for rows in given)
    assert few == many[:20]
    assert len(set(many)) == 60
    # None of 60 in one of the four quarters: 4 x 0.75^60 is 1e-7.
    assert {int(row // 250) for row in many} == {0, 1, 2, 3}


def test_fewer_reference_images_are_all_taken():
    assert manifold_scores(FEATURES, FEATURES[:20])["recall"] == 1.0
    both = np.concatenate([FEATURES[:10], FEATURES[10:20] + 1000.0])
    assert manifold_scores(FEATURES, both)["recall"] == 0.5


@pytest.mark.parametrize(("num_images", "num_reference"), [(5, 60), (60, 5), (0, 60)])
def test_too_few_images_have_no_scores(num_images, num_reference):
    found = manifold_scores(FEATURES[:num_images], FEATURES[:num_reference])
    assert found.keys() == NO_SCORES.keys() == {"precision", "recall", "density", "coverage"}
    assert np.isnan(list(found.values())).all()
