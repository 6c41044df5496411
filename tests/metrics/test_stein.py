"""Kernel Stein discrepancy against loops of automatic derivatives, its level and its power."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.metrics import kernel_stein_discrepancy

KERNELS = {
    "imq": lambda x, y, h: (1 + jnp.sum((x - y) ** 2) / h**2) ** -0.5,
    "rbf": lambda x, y, h: jnp.exp(-jnp.sum((x - y) ** 2) / (2 * h**2)),
}


def make_positions(num=6, dimension=3):
    key_x, key_s = jax.random.split(jax.random.key(3))
    return jax.random.normal(key_x, (num, dimension)) + 5.0, jax.random.normal(
        key_s, (num, dimension)
    )


@pytest.mark.parametrize("kernel", ["imq", "rbf"])
def test_it_is_the_double_loop_of_automatic_derivatives(kernel):
    x, s = make_positions()

    def k(x, y):
        return KERNELS[kernel](x, y, 1.3)

    def u(a, b):
        mixed = jnp.trace(jax.jacfwd(jax.grad(k, 0), 1)(x[a], x[b]))
        slopes = s[a] @ jax.grad(k, 1)(x[a], x[b]) + s[b] @ jax.grad(k, 0)(x[a], x[b])
        return s[a] @ s[b] * k(x[a], x[b]) + slopes + mixed

    pairs = jnp.array(list(itertools.permutations(range(len(x)), 2)))
    want = jnp.mean(jax.jit(jax.vmap(u))(pairs[:, 0], pairs[:, 1]))
    found = kernel_stein_discrepancy(jax.random.key(0), x, s, kernel=kernel, bandwidth=1.3)
    assert found.statistic == pytest.approx(float(want), abs=2e-5)


def test_the_default_bandwidth_is_the_median_distance():
    x, s = make_positions()
    pairs = itertools.combinations(np.asarray(x), 2)
    median = float(np.median([np.linalg.norm(a - b) for a, b in pairs]))
    found, want = (
        kernel_stein_discrepancy(jax.random.key(0), x, s, bandwidth=h) for h in (None, median)
    )
    assert found.statistic == pytest.approx(float(want.statistic), rel=1e-4)
    image = kernel_stein_discrepancy(jax.random.key(0), x.reshape(6, 3, 1), s.reshape(6, 3, 1))
    assert image == found


@pytest.mark.parametrize("kernel", ["imq", "rbf"])
def test_in_a_box_it_is_the_double_loop_with_a_factor_that_vanishes_on_the_faces(kernel):
    x, s = make_positions()
    low, high = 1.0, 10.0

    def h(z):
        return 4 * (z - low) * (high - z) / (high - low) ** 2

    def u(a, b):
        total = 0.0
        for i in range(3):

            def g(x, y, i=i):
                return h(x[i]) * KERNELS[kernel](x, y, 1.3) * h(y[i])

            def once(x, y, i=i, g=g):
                return s[a, i] * g(x, y) + jax.grad(g, 0)(x, y)[i]

            total += s[b, i] * once(x[a], x[b]) + jax.grad(once, 1)(x[a], x[b])[i]
        return total

    pairs = jnp.array(list(itertools.permutations(range(len(x)), 2)))
    want = jnp.mean(jax.jit(jax.vmap(u))(pairs[:, 0], pairs[:, 1]))
    found = kernel_stein_discrepancy(
        jax.random.key(0), x, s, kernel=kernel, bandwidth=1.3, box=(low, high)
    )
    assert found.statistic == pytest.approx(float(want), abs=2e-5)


BOX, NUM_SEEDS = (-1.0, 0.5), 400


def share_rejected(precision, box, level=0.05, num_seeds=50, num=100, true_precision=None):
    """Draws exactly from a Gaussian (precision 0: the uniform law) in [-1, 0.5]^2, and tests it."""
    true_precision = precision if true_precision is None else true_precision

    def one(key):
        width = true_precision**0.5
        if width:
            x = jax.random.truncated_normal(key, width * BOX[0], width * BOX[1], (num, 2)) / width
        else:
            x = jax.random.uniform(key, (num, 2), minval=BOX[0], maxval=BOX[1])
        return kernel_stein_discrepancy(key, x, -precision * x, box=box, num_bootstrap=199).p_value

    found = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(8), num_seeds))
    return np.mean(np.asarray(found)[:, None] <= np.asarray(level), axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("precision", [0.0, 1.0])
def test_level_in_a_box(precision):
    level = np.array([0.05, 0.2, 0.5])
    rejected = share_rejected(precision, BOX, level, NUM_SEEDS, 50)
    assert (np.abs(rejected - level) < 5 * np.sqrt(level * (1 - level) / NUM_SEEDS)).all(), rejected


@pytest.mark.slow
def test_power_in_a_box_and_what_happens_without_it():
    for precision in (0.0, 1.0):
        assert share_rejected(precision, None) > 0.9
        assert share_rejected(precision, BOX, true_precision=8.0) > 0.9


def test_positions_on_a_face_are_seen():
    """Clamped draws have the right law inside and a share of draws on the faces."""
    x = jnp.clip(jax.random.normal(jax.random.key(0), (100, 2)), *BOX)
    found = kernel_stein_discrepancy(jax.random.key(1), x, -x, box=BOX)
    assert found.p_value < 0.01


def p_values(shift, kernel, num_seeds=1000, num=50):
    def one(key):
        x = jax.random.normal(key, (num, 2)) + shift
        return kernel_stein_discrepancy(key, x, -x, kernel=kernel, num_bootstrap=199).p_value

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(7), num_seeds)))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["imq", "rbf"])
def test_level_and_power(kernel):
    for level in (0.05, 0.5):
        rejected = np.mean(p_values(0.0, kernel) <= level)
        assert abs(rejected - level) < 5 * np.sqrt(level * (1 - level) / 1000)
    assert np.mean(p_values(0.5, kernel) <= 0.05) > 0.9


@pytest.mark.slow
def test_chains_need_a_smaller_probability_of_a_flip():
    """An autoregression of the right law is rejected by independent signs."""

    def one(key, flip_prob):
        steps = jax.random.normal(key, (100, 1))
        rho = 0.8

        def move(x, noise):
            new = rho * x + jnp.sqrt(1 - rho**2) * noise
            return new, new

        x = jax.lax.scan(move, steps[0], steps[1:])[1]
        return kernel_stein_discrepancy(key, x, -x, num_bootstrap=199, flip_prob=flip_prob).p_value

    keys = jax.random.split(jax.random.key(2), 500)
    independent, dependent = (
        np.mean(np.asarray(jax.vmap(one, (0, None))(keys, flip)) <= 0.05) for flip in (0.5, 0.05)
    )
    assert independent > 0.3
    assert dependent < 0.12


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"scores": jnp.zeros((6, 2))}, "one shape"),
        ({"positions": jnp.zeros((1, 3)), "scores": jnp.zeros((1, 3))}, "n >= 2"),
        ({"kernel": "cubic"}, "'imq' or 'rbf'"),
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"num_bootstrap": 0}, "num_bootstrap"),
        ({"flip_prob": 1.5}, "flip_prob"),
        ({"scores": jnp.full((6, 3), jnp.nan)}, "scores"),
        ({"box": (1.0, 0.0)}, "low must be below high"),
        ({"box": (0.0, jnp.inf)}, "box"),
        ({"box": (-1.0, 1.0)}, r"positions must lie in box=\(-1.0, 1.0\), got 18 .* outside"),
    ],
)
def test_bad_input(changes, text):
    x, s = make_positions()
    given = {"positions": x, "scores": s} | changes
    with pytest.raises(ValueError, match=text):
        kernel_stein_discrepancy(jax.random.key(0), **given)


def test_scores_that_are_not_finite_inside_jit_have_no_p_value():
    x, s = make_positions()
    found = jax.jit(kernel_stein_discrepancy)(jax.random.key(0), x, s.at[0].set(jnp.inf))
    assert np.isnan(found.p_value)
