"""An attack that cannot move shows nothing: its images do not count as correct, and it says so."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attack_problems import attack, binary, linear, pixel, problem

from ebmjax.metrics import pgd_attack

KEY = jax.random.key(0)
WEIGHTS, IMAGES, LABELS = problem()
PLAIN = linear(WEIGHTS)
RADII = (0.0, 0.02, 0.05)


def root_of_nothing(x):
    """Returns zeros (N,) whose slope is infinite in every pixel."""
    return jnp.sqrt(jnp.sum(x - jax.lax.stop_gradient(x), axis=tuple(range(1, x.ndim))))


# The same answers as PLAIN, behind derivatives that no attack can follow.
MASKED = {
    "NaN": lambda key, x: PLAIN(key, x) + 0.0 * root_of_nothing(x)[:, None],
    "NaN at one pixel": lambda key, x: PLAIN(key, x) + 0.0 * root_of_nothing(x[:, 0, 0])[:, None],
    "infinite": lambda key, x: PLAIN(key, x).at[:, 0].add(root_of_nothing(x)),
    "zero": lambda key, x: PLAIN(key, jax.lax.stop_gradient(x)),
    "rounded": lambda key, x: PLAIN(key, jnp.round(x * 2**16) / 2**16),
    "saturated": lambda key, x: binary(jnp.tanh(1e8 * (PLAIN(key, x) @ jnp.array([1.0, -1.0])))),
}
masked = pytest.mark.parametrize("kind", list(MASKED))


@masked
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_no_radius_above_0_is_called_robust(kind, norm):
    options = {"norm": norm, "num_steps": 3, "num_restarts": 2}
    clean = np.argmax(PLAIN(None, IMAGES), axis=1) == LABELS
    assert clean.all()
    for radius in RADII:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = pgd_attack(KEY, MASKED[kind], IMAGES, LABELS, epsilon=radius, **options)
        assert np.all(found.is_correct == (radius == 0))
        assert bool(caught) == (radius > 0)


@masked
def test_an_image_found_broken_needs_no_gradient(kind):
    """Wrong answers, and none of the images that are right, however they are attacked."""
    labels = LABELS.at[:3].set(1 - LABELS[:3])
    result = attack(MASKED[kind], IMAGES, labels, epsilon=1e-3, norm="linf", num_steps=2)
    np.testing.assert_array_equal(result.had_gradient, [True] * 3 + [False] * 5)
    assert not np.any(result.is_correct)
    np.testing.assert_array_equal(result.margin > 0, [False] * 3 + [True] * 5)


@pytest.mark.parametrize(("num_restarts", "had_gradient"), [(1, 0.5), (3, 1 - 0.5**3)])
def test_one_restart_with_a_gradient_at_every_step_is_enough(num_restarts, had_gradient):
    """The slope is zero below 0, where half of the starts are and where they then stay."""
    num = 2000

    def half(key, x):
        return binary(5.0 - jnp.maximum(pixel(x), 0.0))

    result = attack(half, jnp.zeros((num, 1)), jnp.zeros(num, int), epsilon=0.1, norm="linf",
                    num_steps=2, num_restarts=num_restarts)  # fmt: skip
    error = np.sqrt(had_gradient * (1 - had_gradient) / num)
    assert abs(np.mean(result.had_gradient) - had_gradient) < 5 * error
    np.testing.assert_array_equal(result.is_correct, result.had_gradient)


def test_every_step_needs_a_gradient():
    """The slope ends at 0.15: the first step gets there, and the second cannot go on."""

    def flat_further_on(key, x):
        return binary(1.0 - jnp.minimum(pixel(x), 0.15))

    options = {"norm": "linf", "step_size": 0.2, "random_start": False}
    images, labels = jnp.zeros((1, 1)), jnp.zeros(1, int)
    for num_steps, expected in [(1, True), (2, False)]:
        result = attack(
            flat_further_on, images, labels, epsilon=0.5, num_steps=num_steps, **options
        )
        assert bool(result.had_gradient[0]) == expected
        assert bool(result.is_correct[0]) == expected


def test_the_warning_has_the_numbers_and_comes_outside_of_jit_only():
    def flat(key, x):  # for images whose first pixel is below 0.5
        return jnp.where(pixel(x)[:, None] < 0.5, jax.lax.stop_gradient(x), x)

    images = jnp.array([[0.1, 0.2], [0.3, 0.9], [0.9, 0.6]])
    arguments = {"epsilon": 0.01, "norm": "linf", "num_steps": 1}
    labels = jnp.array([1, 1, 0])
    with pytest.warns(UserWarning, match="^2 of 3 attacked images had no usable gradient"):
        result = pgd_attack(KEY, flat, images, labels, **arguments)
    np.testing.assert_array_equal(result.had_gradient, [False, False, True])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = jax.jit(partial(pgd_attack, logits_fn=flat, **arguments))
        flags = again(KEY, images=images, labels=labels).had_gradient
    np.testing.assert_array_equal(flags, [False, False, True])
