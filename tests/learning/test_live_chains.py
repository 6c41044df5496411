"""Live chains: where they end by hand, and how the ends depend on the parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.learning import run_live_chains

EPS = np.finfo(np.float32).eps
KEY = jax.random.key(3)
STARTS = jnp.array([[1.0, -2.0], [0.5, 3.0], [-1.5, 0.25]])
LABELS = jnp.array([0, 1, 0])


def quadratic(precision):
    """f(x) = -precision |x - label|^2 / 2."""
    return lambda label: lambda x: -0.5 * precision * jnp.sum((x - label) ** 2)


def ends(precision, *, starts=STARTS, key=KEY, step_size=0.2, noise_scale=0.3, **options):
    return run_live_chains(
        key,
        quadratic(precision),
        starts,
        LABELS,
        step_size=step_size,
        noise_scale=noise_scale,
        **options,
    )


@pytest.mark.parametrize("num_steps", [1, 3])
def test_without_noise_ends_and_their_derivative_are_known(num_steps):
    """x - y shrinks by 1 - e a each step: d/da of (1 - e a)^K is -K e (1 - e a)^(K - 1)."""
    a, e = 1.5, 0.2

    def run(a):
        return ends(a, noise_scale=0.0, num_steps=num_steps)

    value, derivative = jax.jit(lambda a: jax.jvp(run, (a,), (1.0,)))(a)
    mean = np.float64(LABELS)[:, None]
    offset = np.float64(STARTS) - mean
    atol = 8 * num_steps * EPS * 4
    np.testing.assert_allclose(value, mean + (1 - e * a) ** num_steps * offset, atol=atol)
    want = -num_steps * e * (1 - e * a) ** (num_steps - 1) * offset
    np.testing.assert_allclose(derivative, want, atol=atol)


def test_the_noise_is_that_of_a_langevin_step():
    starts = jnp.full(40000, 2.0)
    density = quadratic(1.5)
    moved = jax.jit(
        lambda key: run_live_chains(
            key, density, starts, jnp.zeros(40000, int), step_size=0.2, noise_scale=0.3
        )
    )(KEY)
    noise = (np.float64(moved) - (1 - 0.2 * 1.5) * 2.0) / 0.3
    assert abs(noise.mean()) < 5 / np.sqrt(40000)
    assert abs(noise.var() - 1) < 5 * np.sqrt(2 / 40000)
    assert abs(np.mean(noise[1:] * noise[:-1])) < 5 / np.sqrt(40000)


def test_starts_are_constants():
    moved = jax.grad(lambda x: jnp.sum(ends(1.5, starts=x)))(STARTS)
    np.testing.assert_array_equal(moved, np.zeros_like(STARTS))


def test_every_step_ends_in_the_box_and_clipped_coordinates_do_not_depend_on_parameters():
    """At a = 1/2 a step shrinks x - y by 0.9, and by 0.2 (x - y) per unit of a."""

    def run(a, num_steps):
        return ends(a, noise_scale=0.0, num_steps=num_steps, low=-1.0, high=0.6)

    value, derivative = jax.jvp(lambda a: run(a, 1), (0.5,), (1.0,))
    free = np.array([[0.9, -1.8], [0.55, 2.8], [-1.35, 0.225]])
    np.testing.assert_allclose(value, np.clip(free, -1.0, 0.6), atol=8 * EPS)
    np.testing.assert_allclose(derivative, [[0, 0], [0.1, 0], [0, -0.05]], atol=EPS)
    # The second step goes on from the box: 0.6 and -1 shrink to 0.54 and -0.9.
    np.testing.assert_allclose(run(0.5, 2)[0], [0.54, -0.9], atol=8 * EPS)
