"""Repeats of the persistent chains' problem, which the tests of repeats share."""

import jax
import jax.numpy as jnp
import optax

from ebmjax.training import Plan, init_state

SEEDS = (7, 2, 11)
LEARNING_RATE = 0.02
NUM_STEPS = 23


def keys(seeds=SEEDS):
    return jnp.stack([jax.random.key(seed) for seed in seeds])


def initial(seed):
    """A Gaussian energy and persistent chains whose start depends on the seed."""
    params = {"mean": jnp.full(2, 0.1 * seed), "log_precision": jnp.zeros(2)}
    shards = jax.random.normal(jax.random.key(100 + seed), (8, 4, 2))
    return init_state(params, optax.adam(LEARNING_RATE), shards)


def make_plan(data_seed=SEEDS, **changes):
    sizes = {"total_steps": NUM_STEPS, "batch_size": 16, "num_shards": 8, "steps_per_dispatch": 5}
    return Plan(**(sizes | {"data_seed": data_seed} | changes))
