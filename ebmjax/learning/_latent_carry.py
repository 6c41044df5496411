"""Persistent chains of the latent EBM, one set for each logical shard."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._checks import check_at_least
from ebmjax.training import write_slots
from ebmjax.types import Key, PyTree


class LatentCarry(NamedTuple):
    """Positions of the chains of one logical shard.

    Attributes:
      prior: shape (num_prior, d).
      posterior: of every example, power above 0 and chain, shape (num_examples, num_powers - 1,
        num_chains, d).
    """

    prior: Any
    posterior: Any


def init_latent_carry(
    key: Key,
    *,
    num_shards: int,
    batch_size: int,
    num_examples: int,
    num_powers: int,
    latent_dim: int,
    num_chains: int = 1,
    base_scale: float = 1.0,
    posterior_start: Any = None,
) -> LatentCarry:
    """Persistent chains for ``init_state(params, optimizer, shards)``, drawn from the base.

    A logical shard has separate chains for every example and meets each about once in
    ``num_shards`` epochs: the fewer shards, the fresher the chains. The memory is 4 bytes times
    num_shards * num_examples * (num_powers - 1) * num_chains * latent_dim.

    Args:
      key: consumed.
      num_shards: logical shards of the plan.
      batch_size: of the plan, over all shards.
      num_examples: of the data.
      num_powers: of the schedule, power 0 included; 2 for vanilla training.
      latent_dim: d.
      num_chains: of an observation at a power.
      base_scale: of the model.
      posterior_start: where all chains of an example start, (num_examples, d); None for the base.

    Returns:
      Each leaf with a leading axis of ``num_shards``.
    """
    sizes = {"num_shards": num_shards, "batch_size": batch_size, "num_examples": num_examples}
    for name, size in {**sizes, "latent_dim": latent_dim, "num_chains": num_chains}.items():
        check_at_least(name, size, 1)
    check_at_least("num_powers", num_powers, 2)
    if batch_size % num_shards:
        raise ValueError(
            f"batch_size must be a multiple of num_shards={num_shards}, got {batch_size}."
        )
    prior_key, posterior_key = jax.random.split(key)
    num_prior = batch_size // num_shards * num_chains
    table = (num_shards, num_examples, num_powers - 1, num_chains, latent_dim)
    if posterior_start is None:
        posterior = base_scale * jax.random.normal(posterior_key, table)
    else:
        posterior = jnp.broadcast_to(jnp.asarray(posterior_start)[:, None, None], table)
    prior = base_scale * jax.random.normal(prior_key, (num_shards, num_prior, latent_dim))
    return LatentCarry(prior, posterior)


def check_latent_carry(carry: PyTree, indices: Any, expected: tuple[int, int, int, int]) -> None:
    """Refuses persistent chains that do not fit; ``expected`` is (chains of the batch, powers
    above 0, chains of an observation, d)."""
    if not isinstance(carry, LatentCarry):
        return
    if indices is None:
        raise ValueError(
            "persistent chains need identify, from a batch to the indices of its examples: give "
            "it to make_latent_gradient_fn, or train with state.carry=() for fresh chains."
        )
    num_prior, num_powers, num_chains, latent_dim = expected
    fitting = (num_prior, latent_dim), (num_powers, num_chains, latent_dim)
    found = carry.prior.shape, carry.posterior.shape[1:]
    if found != fitting:
        raise ValueError(
            f"the persistent chains of a shard must have shapes {fitting[0]} (prior) and "
            f"(num_examples, {', '.join(map(str, fitting[1]))}) (posterior), got {found[0]} and "
            f"{carry.posterior.shape}. Make them by init_latent_carry with the run's numbers."
        )


def check_indices(carry: PyTree, indices: Any) -> None:
    """Raises ValueError unless persistent chains have a place for every index of the data.

    Inside ``jit`` another example's chains would stand in for the missing ones.
    """
    if not isinstance(carry, LatentCarry):
        return
    num_examples, values = carry.posterior.shape[0], np.asarray(indices)
    is_integer = np.issubdtype(values.dtype, np.integer)
    if not is_integer or np.any((values < 0) | (values >= num_examples)):
        raise ValueError(
            f"identify must give integers in 0..{num_examples - 1}, the examples that the shards "
            f"keep chains of; got {values.dtype} from {values.min()} to {values.max()}. Correct "
            "identify, or make the shards by init_latent_carry with the data's num_examples."
        )


def take_chains(carry: PyTree, indices: Any) -> LatentCarry:
    """Starts of a batch's chains: (chains, d) and (powers, chains, d); Nones if fresh."""
    if not isinstance(carry, LatentCarry):
        return LatentCarry(None, None)
    by_power = jnp.moveaxis(carry.posterior[indices], 1, 0)
    return LatentCarry(carry.prior, by_power.reshape(len(by_power), -1, by_power.shape[-1]))


def put_chains(carry: PyTree, indices: Any, prior: jax.Array, posterior: jax.Array) -> PyTree:
    """Changes of the carry: the ends of the batch's chains, in their places."""
    if not isinstance(carry, LatentCarry):
        return carry
    num_powers, num_chains, latent_dim = carry.posterior.shape[1:]
    by_power = posterior.reshape(num_powers, -1, num_chains, latent_dim)
    return LatentCarry(prior, write_slots(indices, jnp.moveaxis(by_power, 0, 1)))
