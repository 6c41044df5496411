"""Nested R-hat against ArviZ, the plain formula and arrays with known answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats

from ebmjax.metrics import nested_potential_scale_reduction as nested


def by_hand(draws, superchains):
    """The formula of Margossian et al. 2024, for draws (chains, draws), in float64."""
    groups = [draws[superchains == name] for name in np.unique(superchains)]
    between = np.var([group.mean() for group in groups], ddof=1)
    within = []
    for group in groups:
        of_means = group.mean(1).var(ddof=1) if len(group) > 1 else 0.0
        of_draws = group.var(1, ddof=1).mean() if group.shape[1] > 1 else 0.0
        within.append(of_means + of_draws)
    return np.sqrt(1 + between / np.mean(within))


@pytest.mark.parametrize("shape", [(4, 8, 5), (3, 1, 20), (6, 10, 1)], ids=str)
def test_it_is_the_formula_and_arvizs(shape):
    num_superchains, num_chains, num_draws = shape
    rng = np.random.default_rng(0)
    superchains = rng.permutation(np.repeat(np.arange(num_superchains), num_chains))
    draws = rng.normal(size=(len(superchains), num_draws)) + superchains[:, None]
    found = nested(draws, superchains)
    np.testing.assert_allclose(found, by_hand(draws, superchains), rtol=1e-5)
    if num_chains > 1 and num_draws > 3:
        theirs = array_stats.rhat_nested(
            draws, superchains, method="identity", chain_axis=0, draw_axis=1
        )
        np.testing.assert_allclose(found, theirs, rtol=1e-5)


def test_known_answers():
    superchains = np.array([0, 0, 1, 1])
    # Superchains -1 and 3 in the mean: B = 8. Chains apart by 2: 2; draws apart by 2: 2. W = 4.
    draws = np.array([[-3.0, -1.0], [-1.0, 1.0], [1.0, 3.0], [3.0, 5.0]])
    np.testing.assert_allclose(nested(draws, superchains), np.sqrt(1 + 8 / 4), rtol=1e-6)
    np.testing.assert_allclose(nested(draws + 1e6, superchains), np.sqrt(3), rtol=1e-6)
    still = np.repeat(np.array([0.1, 0.1, 0.3, 0.3])[:, None], 7, axis=1)
    assert np.isposinf(nested(still, superchains))
    assert np.isnan(nested(0.0 * still, superchains))
    assert np.isnan(nested(np.where(draws == 5, np.nan, draws), superchains))


def test_independent_draws_are_near_one_and_their_number_says_how_near():
    """In the mean over coordinates, the square is about 1 + 1 / (M (N + 1))."""
    superchains = np.repeat(np.arange(5), 8)
    draws = jax.random.normal(jax.random.key(0), (40, 3, 4000))
    squares = np.asarray(nested(draws, superchains), np.float64) ** 2 - 1
    # The denominator has 35 degrees of freedom or more: 2 / 35 above 1 at most.
    error = 5 * squares.std() / np.sqrt(4000)
    assert abs(squares.mean() * 32 - 1) < 2 / 35 + 32 * error


def test_trees_and_compiled():
    superchains = np.array([0, 0, 1, 1])
    draws = {"a": jnp.arange(8.0).reshape(4, 2), "b": jnp.ones((4, 2, 3)).at[0].set(2.0)}
    found = jax.jit(lambda draws: nested(draws, superchains))(draws)
    assert jax.tree.map(jnp.shape, found) == {"a": (), "b": (3,)}
    np.testing.assert_allclose(found["a"], by_hand(np.asarray(draws["a"]), superchains), rtol=1e-6)


@pytest.mark.parametrize(
    ("superchains", "shape", "message"),
    [
        ([0, 0, 0, 0], (4, 2), "at least two"),
        ([0, 0, 0, 1], (4, 2), "equally often"),
        ([[0, 1], [0, 1]], (4, 2), "a row"),
        ([0, 1, 0, 1], (2, 4), r"shape \(4, draws"),
        ([0, 1], (2, 1), "two draws in a superchain"),
    ],
)
def test_refusals(superchains, shape, message):
    with pytest.raises(ValueError, match=message):
        nested(np.zeros(shape), np.array(superchains))
