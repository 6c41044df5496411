"""Generated images and their distances, of a linear model whose features are its pixels."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear_model import MODEL, NETWORK, chain_plan, linear
from ml_collections import ConfigDict
from scipy.special import logsumexp

from ebmjax import data, metrics, samplers
from ebmjax.evaluate import Chains, Distances, Extractor
from ebmjax.learning import ANY_CLASS
from ebmjax.recipes.evaluators.generation import SHARES, generation, most_confident, score_samples
from ebmjax.recipes.models.energy.model import EnergyModel

TRAIN = np.random.default_rng(0).integers(0, 256, (9, 3, 1, 1), np.uint8)


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
    def score(images):
        logits = np.asarray(linear(images))
        return {"logits": logits, "log_density": logsumexp(logits, axis=1)}


def unlabelled(images):
    return data.ImageData(images, np.zeros(len(images), np.int32))


def make_model(positions=(), is_conditional=False, plan=None):
    """A linear model of three pixels, with ``positions`` in its buffer."""
    config = ConfigDict(
        {
            "evals": {"batch_size": 6, "num_chain_steps": 3, "inception_weights": ""},
            "data": {"num_classes": 2},
            "family": "joint",
            "model": {"is_conditional": is_conditional},
            "sampler": {
                "name": "sgld",
                "num_steps": 1,
                "num_samples": 4,
                "sgld": {"step_size": 0.5, "noise_scale": 0.1},
            },
        }
    )
    images = unlabelled(TRAIN)
    return EnergyModel(
        plan=plan or chain_plan(),
        train=images,
        distances=Distances(images, Stub.extractor),
        config=config,
        network=NETWORK,
        logits_fn=lambda params, statistics, x: linear(x),
        state=buffer_of(positions),  # pyright: ignore
        trained=MODEL,
    )


def generate(model, test=TRAIN, **fields):
    """Returns the report and, by set, the samples of ten images a set."""
    found = generation(jax.random.key(0), model, unlabelled(test), num_images=10, **fields)
    samples = {}
    for name, array in found.arrays.items():
        kind, _, number = name.partition("_")
        samples.setdefault(kind, {})[number] = array
    return found.report["generation"], samples


def buffer_of(positions):
    """A state whose buffer holds ``positions``; () for a state without one."""
    buffer = samplers.ReplayBuffer(positions)
    return SimpleNamespace(carry=SimpleNamespace(buffer=buffer))


def test_the_most_confident_of_every_predicted_class():
    """Two of four of class 0, one of one of class 1, by the probability and not by the logit."""
    logits = np.array([[5.0, 4.9], [3.0, 0.0], [0.0, 1.0], [2.0, 1.0], [9.0, 8.8]])
    assert most_confident(logits, 0.5).tolist() == [1, 2, 3]
    assert most_confident(logits, 1.0).tolist() == [0, 1, 2, 3, 4]
    assert most_confident(logits, 0.01).tolist() == [1, 2]
    rng = np.random.default_rng(0)
    many = np.where(np.arange(300)[:, None] % 10 == np.arange(10), 9.0, rng.normal(size=(300, 10)))
    for share, count in ((0.9, 270), (0.1, 30)):
        kept = most_confident(many, share)
        assert np.bincount(kept % 10).tolist() == [count // 10] * 10


def test_what_sada_jems_code_reports_is_of_selected_images_of_the_buffer():
    """The test images, here those of the training, are in the reference a second time."""
    positions = jnp.linspace(-1, 1, 8 * 3).reshape(1, 8, 3, 1, 1)
    report, samples = generate(make_model(positions), selected_by_confidence=True)
    images = np.asarray(data.from_signed_unit(positions[0]))
    logits = Stub.score(positions[0])["logits"]
    found = report["buffer_selected"]
    chosen = {name: images[most_confident(logits, share)] for name, share in SHARES.items()}
    assert found["num_images_fid"] == len(chosen["fid"])
    assert found["num_images_is"] == len(chosen["is"])
    assert found["num_reference"] == 18
    features = [x.reshape(len(x), -1) for x in (chosen["fid"], TRAIN, TRAIN)]
    expected = metrics.frechet_distance(
        *metrics.feature_moments(features[0]),
        *metrics.feature_moments(np.concatenate(features[1:])),
    )
    assert found["fid"] == pytest.approx(expected)
    assert found["fid"] != report["buffer"]["fid"]
    # The starts are selected by the same rule.
    assert found["starts"].keys() == found.keys() - {"starts"}
    assert found["starts"]["fid"] != found["fid"]
    assert "buffer_selected" not in samples


def test_interacting_particles_move_in_their_own_number_without_a_class():
    spread = {"is_interacting": True, "axis_name": ("data", "shard")}
    sampler = partial(samplers.svgd, step_size=0.1)
    model = make_model(plan=chain_plan(num_samples=2, sampler=sampler, **spread))
    found = model.fresh_chains(jax.random.key(0), 10, 3)  # without training's axes
    assert found.ends.shape == (10, 3, 1, 1)
    [(name, run)], given = model.programs.items(), []
    model.programs[name] = lambda *arguments: given.append(arguments[4]) or run(*arguments)
    model.fresh_chains(jax.random.key(0), 10, 3)
    assert given[0].shape == (3, 4)
    assert np.all(given[0] == ANY_CLASS)


def test_diverged_samples_are_left_out():
    """And so are the starts of those chains, for equal numbers."""
    model = make_model(is_conditional=True)
    ends = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3, 1, 1)
    starts = ends[::-1].copy()
    ends[1, 0] = np.nan
    chains = Chains(starts, ends, np.array([0, 1, 0, 1]))
    means, samples = score_samples("buffer", model, chains)
    assert set(means) == {"mean_class_probability", "mean_log_density"}
    assert samples["labels"].tolist() == [0, 0, 1]
    assert len(samples["start_images"]) == 3
    lost = chains._replace(ends=np.full_like(ends, np.inf))
    means, samples = score_samples("fresh", model, lost)
    assert means == {}
    assert samples["images"].shape == (0, 3, 1, 1)
