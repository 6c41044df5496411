"""Attacks on classifiers whose worst case is known in closed form, and what counts as broken."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from attack_problems import (
    DUAL,
    EPS,
    attack,
    binary,
    binary_margins,
    exact_margins,
    linear,
    pixel,
    problem,
    rounding,
)

from ebmjax.metrics import epsilon_from_levels, pgd_attack

KEY = jax.random.key(0)
BOTH = pytest.mark.parametrize("norm", ["linf", "l2"])


def entropies(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels)


@BOTH
@pytest.mark.parametrize("random_start", [True, False])
def test_the_worst_margin_of_a_linear_classifier_is_reached(norm, random_start):
    weights, images, labels = problem()
    radius = {"linf": 0.05, "l2": 0.15}[norm]
    # A step of the radius halves at least the angle to the best direction: 2^-30 is left of it.
    result = attack(linear(weights), images, labels, epsilon=radius, step_size=radius, norm=norm,
                    num_steps=30, random_start=random_start)  # fmt: skip
    margins, slopes = binary_margins(weights, images, labels, norm)
    expected = margins - radius * slopes
    np.testing.assert_allclose(result.margin, expected, rtol=0, atol=rounding(weights))
    np.testing.assert_array_equal(result.is_correct, expected > 0)
    assert 0 < np.mean(result.is_correct) < 1


@BOTH
def test_accuracy_falls_at_the_analytic_radii_one_image_at_a_time(norm):
    weights, images, labels = problem()
    labels = labels.at[0].set(1 - labels[0])  # one image is wrong from the start
    margins, slopes = binary_margins(weights, images, labels, norm)
    breaks = np.sort(margins / slopes)
    assert breaks[0] < 0 < breaks[1]
    assert np.diff(breaks).min() > 1e-4, "no two so close that rounding decides"
    radii = np.concatenate([[0.0], (breaks[1:-1] + breaks[2:]) / 2, [breaks[-1] + 0.01]])

    @jax.jit
    def accuracy(epsilon):
        options = {"epsilon": epsilon, "norm": norm, "num_steps": 20}
        return jnp.mean(pgd_attack(KEY, linear(weights), images, labels, **options).is_correct)

    accuracies = [accuracy(radius) for radius in radii]
    np.testing.assert_array_equal(accuracies, np.arange(7, -1, -1, dtype=np.float32) / 8)


@BOTH
def test_no_attack_goes_beyond_the_closed_form_the_ball_or_the_box(norm):
    weights, images, _ = problem(num=32, num_classes=4)
    images = images.at[:16].multiply(3.3)  # some pixels within the radius of the box's ends
    labels = jnp.argmax(linear(weights)(None, images), axis=1)
    radius = 0.15
    result = attack(linear(weights), images, labels, epsilon=radius, norm=norm, num_steps=7,
                    step_size=0.1, num_restarts=2)  # fmt: skip
    moved = np.asarray(result.adversarial - images, np.float64).reshape(32, -1)
    lengths = np.linalg.norm(moved, ord={"linf": np.inf, "l2": 2}[norm], axis=1)
    # Pixels below 1 round by EPS / 2; the norm of 6 of them by less than 6 times that.
    assert 0.9 * radius < lengths.max() <= radius + 6 * EPS
    assert np.abs(result.adversarial).max() == 1.0
    margins, directions = exact_margins(weights, images, labels)
    bounds = margins - radius * np.linalg.norm(directions, ord=DUAL[norm], axis=-1)
    bounds = np.where(np.eye(4, dtype=bool)[np.asarray(labels)], np.inf, bounds).min(axis=1)
    assert np.all(result.margin >= bounds - rounding(weights))


def test_the_box_limits_the_worst_margin_pixel_by_pixel():
    weights, images, _ = problem()
    low, high, radius = -0.25, 0.28, 0.05
    images = jnp.clip(images, low, high)
    labels = jnp.argmax(linear(weights)(None, images), axis=1)
    result = attack(linear(weights), images, labels, epsilon=radius, norm="linf", num_steps=5,
                    low=low, high=high)  # fmt: skip
    _, directions = exact_margins(weights, images, labels)
    direction = directions[np.arange(8), 1 - np.asarray(labels)]
    pixels = np.asarray(images, np.float64).reshape(8, -1)
    corner = np.clip(pixels - radius * np.sign(direction), low, high)
    assert np.any(corner == low), "the box matters below"
    assert np.any(corner == high), "and above"
    flat = np.asarray(result.adversarial).reshape(8, -1)
    np.testing.assert_allclose(flat, corner, rtol=0, atol=EPS)
    expected = np.sum(direction * corner, axis=1)
    np.testing.assert_allclose(result.margin, expected, rtol=0, atol=rounding(weights))


@BOTH
@pytest.mark.parametrize("scale", [1e-25, 1e4])
def test_saturated_and_tiny_logits_do_not_stop_the_attack(norm, scale):
    """Cross-entropy's gradient is exactly zero here, or its squares underflow."""
    weights, images, labels = problem()
    logits_fn = linear(scale * weights)
    if scale > 1:
        gradients = jax.grad(lambda x: entropies(logits_fn(None, x), labels).sum())(images)
        assert np.any(np.all(gradients == 0, axis=(1, 2, 3)))
    result = attack(logits_fn, images, labels, epsilon=0.2, norm=norm, num_steps=1,
                    step_size=0.5, random_start=False)  # fmt: skip
    margins, slopes = binary_margins(weights, images, labels, norm)
    np.testing.assert_allclose(
        np.asarray(result.margin) / scale, margins - 0.2 * slopes, rtol=0, atol=rounding(weights)
    )


def test_steps_are_those_of_cross_entropy_and_the_worst_image_met_comes_back():
    """Against a loop in NumPy around the gradient of optax's cross-entropy, three classes."""
    weights, images, _ = problem(num=16, num_classes=3)

    def logits_fn(key, x):
        return jnp.tanh(4.0 * linear(weights)(key, x)) + x.reshape(16, -1)[:, :3]

    def entropy(x):
        logits = logits_fn(None, x)
        return entropies(logits, labels).sum(), logits

    def norms(a):
        return np.linalg.norm(a.reshape(16, -1), axis=1).reshape(16, 1, 1, 1)

    labels = jnp.argmax(logits_fn(None, images), axis=1)
    is_label = np.eye(3, dtype=bool)[np.asarray(labels)]
    gradient_fn = jax.jit(jax.grad(entropy, has_aux=True))
    x, xs, margins = np.asarray(images, np.float64), [], []
    for _ in range(7):
        gradient, logits = (np.asarray(a, np.float64) for a in gradient_fn(x.astype(np.float32)))
        xs.append(x)
        margins.append(logits[is_label] - np.where(is_label, -np.inf, logits).max(axis=1))
        moved = x + 0.11 * gradient / norms(gradient) - np.asarray(images, np.float64)
        x = np.asarray(images) + moved * np.minimum(1.0, 0.3 / norms(moved))
    worst = np.argmin(margins, axis=0)
    assert len(set(worst.tolist())) > 1, "the last step is not always the worst"
    result = attack(logits_fn, images, labels, epsilon=0.3, norm="l2", num_steps=6, step_size=0.11,
                    random_start=False)  # fmt: skip
    # An error grows in a step by at most 1 + step * curvature / slope. For tanh(4 w x) that ratio
    # is at most 8 |w|, 24 for the longest w: below 4, so six steps make 4^6 of one rounding.
    tolerance = 4**6 * EPS
    np.testing.assert_allclose(result.margin, np.min(margins, axis=0), rtol=0, atol=tolerance)
    met = np.stack(xs)[worst, np.arange(16)]
    np.testing.assert_allclose(result.adversarial, met, rtol=0, atol=tolerance)


ONE_IMAGE, ONE_LABEL = jnp.zeros((1, 1)), jnp.zeros(1, int)


def test_broken_at_any_step_is_broken():
    """The first step lands in the gap around 0.1, the second leaves it again."""

    def gap(key, x):
        return binary(10.0 * jnp.abs(pixel(x) - 0.1) - 0.5)

    result = attack(gap, ONE_IMAGE, ONE_LABEL, epsilon=0.5, norm="linf", num_steps=2,
                    step_size=0.12, random_start=False)  # fmt: skip
    assert not result.is_correct[0]
    np.testing.assert_allclose(result.adversarial, [[0.12]], rtol=EPS)
    np.testing.assert_allclose(result.margin, [-0.3], rtol=0, atol=20 * EPS)


@pytest.mark.parametrize(
    ("margin", "expected"),
    [(lambda x: jnp.abs(x) - 1e-6, 0.0), (lambda x: 0.15 - x, 0.2)],
    ids=["only the clean image is wrong", "only the last step is wrong"],
)
def test_the_clean_image_and_the_last_step_are_judged_too(margin, expected):
    random_start = expected == 0.0
    result = attack(lambda key, x: binary(margin(pixel(x))), ONE_IMAGE, ONE_LABEL, epsilon=0.2,
                    norm="linf", num_steps=1, step_size=0.2, random_start=random_start)  # fmt: skip
    assert not result.is_correct[0]
    np.testing.assert_allclose(result.adversarial, [[expected]], rtol=EPS)


def test_ties_and_nan_count_as_broken_for_their_own_image_alone():
    values = jnp.array([1.0, 0.0, jnp.nan, 2.0])
    result = attack(lambda key, x: binary(values + 1e-12 * pixel(x)), jnp.zeros((4, 2)),
                    jnp.zeros(4, int), epsilon=0.1, norm="l2", num_steps=1)  # fmt: skip
    np.testing.assert_array_equal(result.is_correct, [True, False, False, True])
    # Of the tie, the start or the step is 1e-13 away, which nothing else rounds to.
    np.testing.assert_allclose(result.margin, [1.0, 0.0, -np.inf, 2.0], rtol=0, atol=1e-12)


@BOTH
def test_a_derivative_that_is_nan_stops_its_pixel_only(norm):
    def logits_fn(key, x):  # the square root's derivative at 0 is infinite, and 0 times it NaN
        return binary(0.5 - x[:, 1] + jnp.sqrt(0.0 * x[:, 0]))

    result = attack(logits_fn, jnp.zeros((1, 2)), ONE_LABEL, epsilon=0.2, norm=norm, num_steps=1,
                    step_size=0.1, random_start=False)  # fmt: skip
    np.testing.assert_array_equal(result.adversarial, np.array([[0.0, 0.1]], np.float32))


def test_levels_are_two_255ths():
    levels = np.array([1, 2, 4, 8, 12, 16, 22, 30, 255])
    np.testing.assert_allclose(epsilon_from_levels(levels), levels / 127.5, rtol=2 * EPS)
    with pytest.raises(ValueError, match="levels must be zero or more"):
        epsilon_from_levels(-1)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"epsilon": np.array([0.1, 0.2])}, "epsilon must be one radius"),
        ({"norm": "l1"}, r"norm must be one of \['linf', 'l2'\], got norm='l1'"),
        ({"num_eot": 0}, "num_eot must be an integer of at least 1"),
        ({"low": 0.0}, r"images must lie within \[low, high\] = \[0.0, 1.0\]; \d+ of 48"),
        ({"images": np.full((8, 6), np.nan)}, "images must lie within .*; 48 of 48 .*NaN"),
        ({"labels": np.full(8, 2)}, r"labels must lie in 0\.\.1.* from 2 to 2"),
        ({"logits_fn": lambda key, x: x[:, 0]}, "logits_fn.* must return shape .*two classes"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_arguments_are_named(bad, message):
    weights, images, labels = problem()
    arguments = {"logits_fn": linear(weights), "images": images, "labels": labels}
    arguments |= {"epsilon": 0.1, "norm": "linf", "num_steps": 1, **bad}
    with pytest.raises(ValueError, match=message):
        pgd_attack(KEY, **arguments)
