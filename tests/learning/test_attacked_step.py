"""Attacked labelled images in a step, against closed forms of a linear classifier."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from joint_problems import (
    ATOL,
    DIM,
    KEY,
    PARAMS,
    SHAPE,
    assert_trees_close,
    batch,
    density_gradient,
    joint_objective,
    make_gradient_fn,
    quadratic,
    rows,
    shard_of,
)

from ebmjax.learning import Objective, Samples
from ebmjax.metrics import pgd_attack
from ebmjax.networks import Network
from ebmjax.recipes.parts.objectives import dat, eb_jdat

SLOPES = np.array([1.0, -0.5, 0.25, 2.0])
PGD = partial(pgd_attack, norm="linf", num_steps=5)


def opposite_logits(params, statistics, images, **_):
    """Two classes with the logits -+w.x."""
    x = images.reshape(*images.shape[:-3], DIM)
    return jnp.stack([-x @ params["w"], x @ params["w"]], axis=-1), statistics


LINEAR = Network(lambda key, images: ({"w": jnp.asarray(SLOPES)}, {}), opposite_logits)


def two_classes():
    labelled, data = batch()
    return labelled._replace(labels=labelled.labels % 2), data


def step(attack, classifier=LINEAR, params=None, of=two_classes, **options):
    """(gradients, carry, metrics) without p(x)."""
    given, _ = joint_objective(loss=None, attack=attack, **options)
    gradient_fn = make_gradient_fn(classifier, None, (given, False))
    shard = shard_of(classifier, None, buffer_size=0)
    params = {"w": jnp.asarray(SLOPES, jnp.float32)} if params is None else params
    return jax.jit(gradient_fn)(KEY, params, shard, of())


@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_the_worst_case_of_a_linear_classifier_is_its_closed_form(epsilon):
    """For the label's sign s it is x - s epsilon sign(w), cut at the box, and constant in w.

    So cross-entropy is log(1 + exp(-2 s w.x')), with the gradient -2 s x' sigmoid(-2 s w.x').
    """
    labelled, _ = two_classes()
    x, sign = rows(labelled.images), 2.0 * np.asarray(labelled.labels)[:, None] - 1
    worst = np.clip(x - sign * epsilon * np.sign(SLOPES), -1, 1)
    margins = 2 * sign[:, 0] * (worst @ SLOPES)
    slopes = -2 * sign * worst / (1 + np.exp(margins))[:, None]
    gradients, _, metrics = step(partial(PGD, epsilon=epsilon))
    np.testing.assert_allclose(
        metrics["cross_entropy"], np.log1p(np.exp(-margins)).mean(), atol=ATOL
    )
    np.testing.assert_allclose(metrics["accuracy"], np.mean(margins > 0))
    np.testing.assert_allclose(gradients["w"], slopes.mean(axis=0), atol=ATOL)


def test_a_radius_of_zero_is_no_attack():
    plain, same = (step(one, quadratic(), PARAMS, batch) for one in (None, partial(PGD, epsilon=0)))
    jax.tree.map(np.testing.assert_array_equal, same, plain)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_attacked_images_stay_in_the_ball_and_the_box(norm):
    """A view with noise may show pixels outside [-1, 1]: these move inwards alone."""
    seen = {}

    def attack(key, logits_fn, images, labels, **box):
        found = partial(PGD, epsilon=0.3, norm=norm)(key, logits_fn, images, labels, **box)
        seen.update(clean=images, moved=found.adversarial)
        return found

    labelled, data = batch()
    shard = shard_of(quadratic(), None, buffer_size=0)
    given, _ = joint_objective(loss=None, attack=attack)
    view = lambda key, images: 1.2 * (images / 127.5 - 1.0)  # noqa: E731
    gradient_fn = make_gradient_fn(quadratic(), None, (given, False), classified_view=view)
    gradient_fn(KEY, PARAMS, shard, (labelled, data))
    clean, moved = (np.asarray(seen[name]) for name in ("clean", "moved"))
    assert np.abs(clean).max() > 1.1
    away = (moved - clean).reshape(len(clean), -1)
    lengths = np.abs(away).max(1) if norm == "linf" else np.linalg.norm(away, axis=1)
    assert np.all(lengths <= 0.3 + 1e-6)
    assert lengths.max() > 0.29
    assert np.all(np.abs(moved) <= np.maximum(np.abs(clean), 1.0))


def test_samples_are_told_from_data_by_half_the_sum_of_both_losses():
    """f = 0, 1 of data and 2, -1 of samples: the binary cross-entropy of four is their mean."""
    data, samples = jnp.array([0.0, 1.0]), jnp.array([2.0, -1.0])

    def loss(data, samples):
        return dat(KEY, None, Samples(None, data), Samples(None, samples))[0]

    signed = np.array([0.0, -1.0, 2.0, -1.0])
    np.testing.assert_allclose(loss(data, samples), np.log1p(np.exp(signed)).mean(), rtol=1e-6)
    found = jax.grad(loss, (0, 1))(data, samples)
    shares = 1 / (1 + np.exp(-signed)) / 4
    np.testing.assert_allclose(found[0], -shares[:2], rtol=1e-6)
    np.testing.assert_allclose(found[1], shares[2:], rtol=1e-6)


def test_the_gap_from_attacked_images_to_the_data_has_its_weight():
    """f = 1, 3 of attacked images, 4, 2 of data and 0 of a sample: -3 + 0, and 0.5 (3 - 2)."""

    def loss(attacked, data):
        batch, samples = Samples(None, data, attacked=attacked), Samples(None, jnp.zeros(1))
        return eb_jdat(KEY, None, batch, samples, adversarial_weight=0.5)[0]

    value, found = jax.value_and_grad(loss, (0, 1))(jnp.array([1.0, 3.0]), jnp.array([4.0, 2.0]))
    np.testing.assert_allclose(value, -3 + 0.5)
    np.testing.assert_allclose(found[0], [-0.25, -0.25])
    np.testing.assert_allclose(found[1], [-0.25, -0.25])


@pytest.mark.parametrize("rho", [None, 0.3])
def test_attacked_images_are_constants_whose_density_is_trained(rho):
    """The attack climbs by the parameters, and the gradient sees only where it ended."""
    ends = []

    def attack(key, logits_fn, images, labels, low, high):
        slopes = jax.grad(lambda x: jnp.sum(logits_fn(key, x)[:, 0]))(images)
        ends.append(images + 0.1 * slopes)
        return SimpleNamespace(adversarial=ends[-1])

    def loss(key, model, batch, negatives, numbers):
        return jnp.mean(batch.attacked), {}

    given = Objective(loss=loss, attack=attack, classification_weight=0.0, rho=rho)
    gradient_fn = make_gradient_fn(quadratic(), None, (given, False))
    gradients, *_ = gradient_fn(KEY, PARAMS, shard_of(quadratic(), None, buffer_size=0), batch())
    (x,), at = ends, PARAMS
    x = np.asarray(x).reshape(len(x), -1)
    share = np.full(len(x), 1 / len(x))
    if rho:
        first = density_gradient(PARAMS, x, share)
        norm = np.sqrt(sum(np.sum(leaf**2) for leaf in first.values()))
        at = {name: PARAMS[name] + rho * first[name] / norm for name in PARAMS}
    assert_trees_close(gradients, density_gradient(at, x, share))


def test_climbing_the_labels_logit_attacks_nothing():
    """EB-JDAT's published inner loop, without its perceptual term, on a linear classifier.

    Each of its five steps of 0.01 raises the margin by 2 |w|_1 0.01: cross-entropy falls.
    """
    labelled, _ = two_classes()
    start = jnp.asarray(0.5 * rows(labelled.images), jnp.float32).reshape(-1, *SHAPE)
    params = {"w": jnp.asarray(SLOPES, jnp.float32)}

    def logit(x):
        return opposite_logits(params, {}, x)[0][jnp.arange(len(x)), labelled.labels]

    x = start
    for _ in range(5):
        x = x + 0.01 * jnp.sign(jax.grad(lambda x: jnp.sum(logit(x)))(x))
    raised = 2 * (logit(x) - logit(start))
    np.testing.assert_allclose(raised, 0.1 * np.abs(SLOPES).sum(), rtol=1e-5)
