"""The parts of a full evaluation on models whose answers are known, without a run."""

import json
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict
from scipy.special import logsumexp, softmax

from ebmjax import data, samplers, training
from ebmjax.networks import Classifier
from experiments import jem_extractors, jem_ood
from experiments.configs import jem_digits
from experiments.errors import ConfigError
from experiments.jem_assessment_plots import _extremes
from experiments.jem_chains import ANY_CLASS, Trained, chain_density, fresh_chains
from experiments.jem_extractors import Extractor
from experiments.jem_generation import Generation
from experiments.jem_robustness import classify_fn, robustness

EPS = float(jnp.finfo(jnp.float32).eps)


def smoke(**overrides):
    config = jem_digits.get_config("smoke")
    config.update_from_flattened_dict(overrides)
    return config


@pytest.fixture(scope="module", autouse=True)
def quick_extractor(tmp_path_factory):
    """Trained for two steps, and kept where nobody else looks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jem_extractors, "CACHE", tmp_path_factory.mktemp("extractors"))
        patch.setitem(jem_extractors.SETTINGS, "max_steps", 2)
        yield


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
            {
                "eval": section,
                "data": {"num_classes": 2},
                "sampler": {"name": "x", "num_steps": 1, "num_samples": 4},
            }
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
    for name in ("fresh", "conditional", "buffer"):
        assert len(samples[name]["images"]) == report[name]["num_images"] == 10
    assert samples["conditional"]["labels"].tolist() == [0, 1] * 5
    shown = samples["conditional"]["class_probability"]
    assert report["conditional"]["mean_class_probability"] == pytest.approx(shown.mean())
    slots = {tuple(image.ravel()) for image in samples["buffer"]["images"]}
    every = np.asarray(data.from_signed_unit(positions.reshape(14, 3, 1, 1)))
    assert len(slots) == 10
    assert slots <= {tuple(image.ravel()) for image in every}


def test_interacting_particles_move_in_their_own_number_without_a_class():
    spread = {"is_interacting": True, "axis_name": ("data", "shard")}
    sampler = partial(samplers.svgd, step_size=0.1)
    of_two_shards = negatives(num_samples=2, sampler=sampler, **spread)
    found = generation(negatives=of_two_shards)
    any_class, of_class = found._labels()
    assert any_class.shape == (3, 4)
    assert np.all(any_class == ANY_CLASS)
    assert of_class.size == 0
    ends = found._chains(jax.random.key(0), MODEL)["fresh"][0]  # without training's axes
    assert ends.shape == (10, 3, 1, 1)


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
        "attack_step_size": None,
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
    assert report["protocol"]["step_size"] == "2.5 epsilon / num_steps"


def test_steps_of_an_attack_may_be_given():
    """One step of the default length crosses the margin, and one of a thousandth of it does not."""
    difference = WEIGHTS[:, 1] - WEIGHTS[:, 0]
    x = 0.05 * difference / np.abs(difference).sum() / np.abs(difference).max()
    margin = float(x @ difference) / np.abs(difference).sum()
    attacked = partial(
        robustness,
        jax.random.key(0),
        classify_fn(LINEAR, LINEAR, None, 0),
        MODEL,
        jnp.asarray(x, jnp.float32).reshape(1, 3, 1, 1),
        jnp.ones(1, jnp.int32),
    )
    level = 255 * margin / 2  # of a radius that just reaches the boundary
    assert level > 0.1
    sizes = {"attack_linf": (1.5 * level,), "attack_steps": 1}
    name = f"{1.5 * level:g}"
    broken = attacked(attack_section(**sizes))
    assert broken["linf"] == {name: 0.0}
    # From a random start, whose logits differ by less than the margin on average.
    small = attacked(attack_section(attack_step_size=1e-3 * level, **sizes))
    assert small["linf"] == {name: 1.0}
    assert small["protocol"]["step_size"] == 1e-3 * level


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


def test_a_set_with_fewer_images_is_skipped_with_the_numbers(monkeypatch):
    """The area under precision and recall depends on how many there are of each."""
    test = data.load_digits("test").images[:6]
    few = data.ImageData(test[:4], np.zeros(4, np.int32))
    monkeypatch.setattr(data, "load_tfds", lambda *_, **__: few)
    sets, skipped = jem_ood.ood_sets(smoke(**{"eval.ood_tfds": ("svhn_cropped",)}), test)
    assert "svhn_cropped" not in sets
    assert "has 4 test images where 6 are tested" in skipped["svhn_cropped"]


def test_not_a_number_is_told_and_not_ranked():
    scores = jnp.array([0.0, jnp.nan])
    assert all(np.isnan(value) for value in jem_ood.detection(scores, scores).values())


def test_the_extremes_are_the_highest_and_then_the_lowest():
    values = np.array([3.0, 1.0, 4.0, 1.5, 9.0, 2.0])
    assert _extremes(values, 4).tolist() == [4, 2, 3, 1]
    assert _extremes(values, 6).tolist() == [4, 2, 0, 5, 3, 1]
