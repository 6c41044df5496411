"""A particle system that is spread over a mapped axis, handled like one that is not."""

import jax

from ebmjax.samplers import Sampler


def spread_over(num_shards, make, *given, **options):
    """``make(*given, **options)`` whose particles (n, ...) lie on ``num_shards`` shards."""
    sampler = make(*given, axis_name="shard", **options)

    def step(key, state):
        keys = jax.random.split(key, num_shards)
        parts = jax.tree.map(lambda leaf: leaf.reshape(num_shards, -1, *leaf.shape[1:]), state)
        parts, infos = jax.vmap(sampler.step, axis_name="shard")(keys, parts)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), parts), infos

    return Sampler(sampler.init, step)
