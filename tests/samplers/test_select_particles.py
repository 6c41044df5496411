"""Which particles return to the buffer: the law of the choice, its corners, its refusals."""

from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ebmjax.samplers import select_particles

POSITIONS = {"index": jnp.arange(4.0), "pixels": jnp.arange(8.0).reshape(4, 2)}
LOG_DENSITIES = jnp.array([-1.0, 2.0, 0.5, -3.0])


def chosen(policy, num, log_densities=LOG_DENSITIES, seed=0):
    select = jax.jit(select_particles, static_argnums=3, static_argnames="policy")
    kept = select(jax.random.key(seed), POSITIONS, log_densities, num, policy=policy)
    np.testing.assert_array_equal(kept["pixels"], POSITIONS["pixels"][kept["index"].astype(int)])
    return kept["index"].astype(int).tolist()


def test_softmax_draws_one_after_another_without_replacement():
    """P(i, then j) = w_i w_j / (1 - w_i), the twelve ordered pairs of four particles."""
    num_trials = 20_000
    keys = jax.random.split(jax.random.key(0), num_trials)
    pairs = jax.jit(jax.vmap(lambda key: select_particles(key, jnp.arange(4), LOG_DENSITIES, 2)))(
        keys
    )
    weights = np.exp(LOG_DENSITIES) / np.exp(LOG_DENSITIES).sum()
    outcomes = list(permutations(range(4), 2))
    probabilities = [weights[i] * weights[j] / (1.0 - weights[i]) for i, j in outcomes]
    counts = [int(np.sum(np.all(np.asarray(pairs) == pair, axis=1))) for pair in outcomes]
    assert sum(counts) == num_trials
    result = stats.chisquare(counts, num_trials * np.array(probabilities) / np.sum(probabilities))
    assert result.pvalue > 1e-6


def test_argmax_takes_the_highest_and_in_place_the_first():
    assert chosen("argmax", 3) == [1, 2, 0]
    assert chosen("in_place", 3) == [0, 1, 2]


@pytest.mark.parametrize("policy", ["softmax", "argmax"])
@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf, -jnp.inf])
def test_what_is_not_finite_comes_last(policy, bad):
    log_densities = LOG_DENSITIES.at[1].set(bad)
    for seed in range(5):
        assert chosen(policy, 4, log_densities, seed)[-1] == 1


@pytest.mark.parametrize(
    ("arguments", "policy", "message"),
    [
        ((POSITIONS, LOG_DENSITIES, 5), "softmax", "^num must be at most the 4 .*num=5"),
        ((POSITIONS, LOG_DENSITIES[:3], 2), "softmax", r"^log_densities must be .*\(3,\)"),
        ((POSITIONS, LOG_DENSITIES, 2), "best", "^policy must be .*'best'"),
        (({"a": jnp.ones(2), "b": jnp.ones(3)}, LOG_DENSITIES, 2), "softmax", "^positions must be"),
    ],
)
def test_bad_arguments(arguments, policy, message):
    with pytest.raises(ValueError, match=message):
        select_particles(jax.random.key(0), *arguments, policy=policy)


def test_equal_bfloat16_densities_favour_no_particle():
    """Noise of eight bits ties, and ties would go to the lowest index."""
    num_trials = 4000
    keys = jax.random.split(jax.random.key(1), num_trials)
    equal = jnp.zeros(200, jnp.bfloat16)
    kept = jax.jit(jax.vmap(lambda key: select_particles(key, jnp.arange(200), equal, 1)))(keys)
    # Five standard deviations of a binomial share of one half.
    assert abs(np.mean(np.asarray(kept) < 100) - 0.5) < 5 * 0.5 / np.sqrt(num_trials)
