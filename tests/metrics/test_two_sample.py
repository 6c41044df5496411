"""Two-sample tests: their statistics, levels and power."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ebmjax.metrics import (
    classifier_two_sample_test,
    kernel_distance,
    kernel_two_sample_test,
)


@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
def test_the_statistic_is_the_kernel_distance(kernel):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(9, 3)), rng.normal(size=(7, 3)) + 0.3
    found = kernel_two_sample_test(jax.random.key(0), a, b, kernel=kernel)
    assert found.statistic == pytest.approx(kernel_distance(a, b, kernel=kernel), abs=1e-12)


def test_the_p_value_of_four_rows_by_hand():
    """Two of the six divisions of four rows are as far apart as the given one."""
    rows = np.array([[0.0], [0.1], [5.0], [5.1]])
    found = kernel_two_sample_test(
        jax.random.key(0), rows[:2], rows[2:], bandwidth=1.0, num_permutations=20_000
    )
    assert found.p_value == pytest.approx(1 / 3, abs=5 * np.sqrt(2 / 9 / 20_000))


@pytest.mark.slow
def test_level_and_power_of_the_kernel_test():
    rng, num = np.random.default_rng(1), 1000

    def p_values(shift, num):
        return np.array(
            [
                kernel_two_sample_test(
                    jax.random.key(seed),
                    rng.normal(size=(10, 2)),
                    rng.normal(size=(12, 2)) + shift,
                    num_permutations=99,
                ).p_value
                for seed in range(num)
            ]
        )

    found = p_values(0.0, num)
    for level in (0.05, 0.5):
        assert abs(np.mean(found <= level) - level) < 5 * np.sqrt(level * (1 - level) / num)
    assert np.mean(p_values(2.0, 50) <= 0.05) > 0.9


def classifier_p_values(scale, num_seeds, num=100):
    def one(key):
        a, b = jax.random.normal(key, (2, num, 2))
        return classifier_two_sample_test(key, a, scale * b)

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(5), num_seeds))


@pytest.mark.slow
def test_level_and_power_of_the_classifier():
    num = 1000
    found = classifier_p_values(1.0, num)
    # The binomial law is discrete: its level is the largest attainable one below 5 %.
    right = np.arange(101)
    tail = stats.binom.sf(right - 1, 100, 0.5)
    level = tail[tail <= 0.05].max()
    rejected = np.mean(np.asarray(found.p_value) <= 0.05)
    assert abs(rejected - level) < 5 * np.sqrt(level * (1 - level) / num)
    assert np.mean(found.accuracy) == pytest.approx(0.5, abs=5 * 0.05 / np.sqrt(num))
    # Equal means: only what is not linear tells them apart.
    assert np.mean(np.asarray(classifier_p_values(3.0, 50).p_value) <= 0.05) > 0.9


def test_the_p_value_is_the_binomial_tail():
    found = classifier_p_values(1.5, 8)
    want = stats.binom.sf(np.round(np.asarray(found.accuracy) * 100) - 1, 100, 0.5)
    np.testing.assert_allclose(found.p_value, want, rtol=1e-4)


def test_halves_of_unequal_sides_and_of_images():
    a, b = jnp.zeros((9, 2, 2, 1)), jnp.ones((5, 2, 2, 1))
    found = classifier_two_sample_test(jax.random.key(0), a, b)
    assert found.accuracy == 1.0
    assert found.p_value == pytest.approx(2.0**-6)  # three test examples a side


@pytest.mark.parametrize(
    ("test", "a", "b", "text"),
    [
        (kernel_two_sample_test, np.zeros((3, 2)), np.ones((3, 1)), "one length"),
        (classifier_two_sample_test, np.zeros((4, 2)), np.zeros((4, 3)), "equal axes"),
        (classifier_two_sample_test, np.zeros((4, 2)), np.zeros((3, 2)), "n, m >= 4"),
    ],
)
def test_bad_input(test, a, b, text):
    with pytest.raises(ValueError, match=text):
        test(jax.random.key(0), a, b)
