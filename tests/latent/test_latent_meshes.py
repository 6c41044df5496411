"""Chains under ``jax.shard_map`` with all its checks on, where the key alone or the data differ."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest
from latent_problems import MODEL, OBSERVATIONS, make_params

from ebmjax import evidence, latent
from ebmjax.learning import ChainKind, ChainPlan, profile_chains, run_chains, run_live_chains
from ebmjax.samplers import sgld, uniform_start

SGLD = partial(sgld, step_size=0.1)
LADDER = jnp.array([0.0, 0.5, 1.0])
KIND = ChainKind(sampler=SGLD, num_steps=2)
PLAN = ChainPlan(
    kinds={"sgld": KIND}, num_samples=2, start_fn=uniform_start((3,), -1.0, 1.0), reinit_prob=0.1
)


def prior(key, x):
    params = jax.tree.map(lambda leaf: leaf + x[0, 0], make_params())
    start = jnp.zeros((3, 2))
    return latent.sample_prior(key, params, MODEL, 3, 2, sampler=SGLD, num_steps=2, start=start)


def ladder(key, x):
    chains = latent.LatentChains(2, SGLD, 2, SGLD, 2)
    both = chains, chains._replace(exchange_every=1)
    return [latent.sample_ladder(key, make_params(), MODEL, x, LADDER, one) for one in both]


def annealed(key, x):
    options = {"sampler": SGLD, "num_steps": 2, "warm_start": True}
    return latent.sample_power_posteriors(key, make_params(), MODEL, x, LADDER[1:], 2, **options)


def importance_sampling(key, x):
    return evidence.annealed_importance_sampling(
        key,
        jnp.zeros((4, 3)),
        LADDER,
        lambda z: -0.5 * jnp.sum(z**2),
        lambda z: -0.5 * jnp.sum((z - x[0]) ** 2),
        sampler=SGLD,
        num_steps=2,
    )


def density(label):
    return lambda position: -0.5 * jnp.sum((position - label) ** 2)


def start_and_labels(x):
    return jnp.zeros((2, 3)), jnp.int32(x[:, 0] > 0)


def negatives(key, x):
    moved = run_chains(key, density, PLAN, *start_and_labels(x))
    profile = profile_chains(key, density, KIND, *start_and_labels(x))
    live = run_live_chains(key, density, *start_and_labels(x), step_size=0.1, noise_scale=0.1)
    return moved, profile, live


@pytest.mark.parametrize("varies", ["key", "data"])
@pytest.mark.parametrize("chains", [prior, ladder, annealed, importance_sampling, negatives])
def test_chains_under_shard_map(chains, varies):
    def on_device(keys, observations):
        return jax.tree.map(lambda leaf: leaf[None], chains(keys[0], observations[0]))

    mesh = jax.make_mesh((8,), ("device",), axis_types=(jax.sharding.AxisType.Auto,))
    rows, whole = jax.P("device"), jax.P()
    in_specs = (rows, whole) if varies == "key" else (whole, rows)
    mapped = jax.shard_map(on_device, mesh=mesh, in_specs=in_specs, out_specs=rows)
    keys = jax.random.split(jax.random.key(0), 8)
    observations = jnp.stack([jnp.asarray(OBSERVATIONS, jnp.float32)] * 8)
    shapes = jax.eval_shape(mapped, keys, observations)
    assert all(leaf.shape[0] == 8 for leaf in jax.tree.leaves(shapes))
