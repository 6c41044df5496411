"""Robust accuracy of a linear model, behind refinement too, against what its margins say."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear_model import DENSITIES_OF, EPS, LINEAR, MODEL, WEIGHTS, chain_plan
from ml_collections import ConfigDict
from scipy.special import softmax

from ebmjax import metrics
from ebmjax.recipes.core.fields import ConfigError
from ebmjax.recipes.joint.robustness import classify_fn, robustness


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
    report, withstood = robustness(
        jax.random.key(0),
        classify_fn(LINEAR, None, DENSITIES_OF, 0),
        MODEL,
        jnp.asarray(x).reshape(4, 3, 1, 1),
        jnp.ones(4, jnp.int32),
        attack_section(),
    )
    assert report["linf"] == dict(zip(["0", "10", "60"], expected, strict=True))
    assert withstood["linf.10"].tolist() == ((x @ difference) > reach[1]).tolist()
    assert {name: found.mean() for name, found in withstood.items()} == {
        f"linf.{level}": share for level, share in report["linf"].items()
    }
    assert "l2" not in report
    assert report["protocol"]["num_images"] == 4
    assert report["protocol"]["step_size"] == "2.5 epsilon / num_steps"


def test_steps_of_an_attack_may_be_given():
    """A step of the default length crosses the margin, one of a fiftieth of a level does not."""
    difference = WEIGHTS[:, 1] - WEIGHTS[:, 0]
    x = 0.05 * difference / np.abs(difference).sum() / np.abs(difference).max()
    margin = float(x @ difference) / np.abs(difference).sum()
    attacked = partial(
        robustness,
        jax.random.key(0),
        classify_fn(LINEAR, None, DENSITIES_OF, 0),
        MODEL,
        jnp.asarray(x, jnp.float32).reshape(1, 3, 1, 1),
        jnp.ones(1, jnp.int32),
    )
    level = 255 * margin / 2  # of a radius that just reaches the boundary
    assert level > 0.1
    sizes = {"attack_linf": (1.5 * level,), "attack_steps": 1}
    name = f"{1.5 * level:g}"
    broken, _ = attacked(attack_section(**sizes))
    assert broken["linf"] == {name: 0.0}
    # From a random start, whose logits differ by less than the margin on average.
    small, _ = attacked(attack_section(attack_step_size=0.02 * level, **sizes))
    assert small["linf"] == {name: 1.0}
    assert small["protocol"]["step_size"] == 0.02 * level


def test_the_settings_of_an_attack_reach_it(monkeypatch):
    """And every batch of either norm has random numbers of its own."""
    asked, keys = [], set()

    def curve(key, classify, images, labels, epsilons, **options):
        asked.append(options)
        jax.debug.callback(lambda bits: keys.add(tuple(bits.tolist())), jax.random.key_data(key))
        return jnp.zeros((len(epsilons), len(images)), bool)

    monkeypatch.setattr(metrics, "robust_images", curve)
    settings = {"num_steps": 4, "num_restarts": 2, "num_eot": 3}
    section = attack_section(
        attack_l2=(0, 30),
        attack_steps=4,
        attack_step_size=5.1,
        attack_restarts=2,
        num_eot=3,
    )
    images = jnp.zeros((4, 3, 1, 1))
    classify = classify_fn(LINEAR, None, DENSITIES_OF, 0)
    report, _ = robustness(jax.random.key(0), classify, MODEL, images, jnp.zeros(4, int), section)
    assert asked == [
        {"norm": norm, "step_size": pytest.approx(0.04, rel=4 * EPS), **settings}
        for norm in ("linf", "l2")
    ]
    jax.effects_barrier()
    assert len(keys) == 2 * 2
    assert report["l2"] == {"0": 0.0, "30": 0.0}
    assert {name: report["protocol"][name] for name in settings} == settings


def test_refinement_moves_the_images_and_passes_gradients_through():
    classify = classify_fn(LINEAR, chain_plan(), DENSITIES_OF, 2)
    x = jnp.array([0.3, -0.2, 0.7], jnp.float32).reshape(1, 3, 1, 1)
    position, step = np.float64(x).ravel(), 0.1 * 0.25 / 0.5
    for _ in range(2):
        position = position + step * WEIGHTS @ softmax(position @ WEIGHTS)
    logits = classify(MODEL, jax.random.key(0), x)
    np.testing.assert_allclose(logits[0], position @ WEIGHTS, rtol=0, atol=60 * EPS)
    gradient = jax.grad(lambda x: classify(MODEL, jax.random.key(0), x)[0, 1])(x)
    np.testing.assert_array_equal(gradient.ravel(), WEIGHTS[:, 1])


@pytest.mark.parametrize("plan", [None, chain_plan(is_interacting=True)])
def test_refinement_needs_independent_chains(plan):
    with pytest.raises(ConfigError, match="refine_steps=2 needs"):
        classify_fn(LINEAR, plan, DENSITIES_OF, 2)
