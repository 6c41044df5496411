"""The learning gradient of the latent EBM, and its chains, one set for each logical shard."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._checks import check_at_least, check_fraction
from ebmjax._numbers import with_numbers
from ebmjax.latent import (
    LatentChains,
    LatentModel,
    LatentParams,
    place_powers,
    sample_ladder,
    tempered_loss,
    through_chain_loss,
    vanilla_loss,
)
from ebmjax.training import GradientFn, write_slots
from ebmjax.types import Key, Metrics, PyTree


class LatentCarry(NamedTuple):
    """Positions of the chains of one logical shard.

    Attributes:
      prior: shape (num_prior, d).
      posterior: of every example, power above 0 and chain, shape (num_examples, num_powers - 1,
        num_chains, d).
      replicas: memory of chains that exchange, (num_examples, num_powers, num_chains); else None.
      powers: placed by the acceptances of swaps, (num_powers,); None where powers stay.
    """

    prior: Any
    posterior: Any
    replicas: Any = None
    powers: Any = None


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
    exchange: bool = False,
    placed_powers: Any = None,
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
      exchange: whether ``LatentChains.exchange_every`` is above 0.
      placed_powers: first powers, (num_powers,), if swaps place them anew; None where powers stay.

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
    replicas = jnp.zeros((*table[:2], num_powers, num_chains), jnp.int8) if exchange else None
    powers = None if placed_powers is None else jnp.tile(placed_powers, (num_shards, 1))
    return LatentCarry(prior, posterior, replicas, powers)


def make_latent_gradient_fn(
    model: LatentModel,
    chains: LatentChains,
    *,
    observe: Callable[[PyTree], jax.Array],
    powers: jax.Array | None = None,
    loss_fn: Callable[..., tuple[jax.Array, Metrics]] | None = None,
    num_chains: int = 1,
    identify: Callable[[PyTree], jax.Array] | None = None,
    reinit_prob: float = 0.0,
) -> GradientFn:
    """Draws prior and posterior latents by short chains and differentiates a surrogate loss.

    Without ``powers`` the gradient is the vanilla one. With them it is that of ``loss_fn``, whose
    node at power 0 are the prior's own chains and whose other nodes are chains on the power
    posteriors. Chains start afresh at every step where ``TrainState.carry`` is empty. Where it
    comes from ``init_latent_carry`` they persist: each goes on where it stood when its logical
    shard last saw its observation.

    Args:
      model: the latent EBM.
      chains: samplers and lengths.
      observe: a batch of the data, (examples, ...), to observations in the generator's range.
      powers: increasing from 0 to 1, shape (num_powers,); None for vanilla training.
      loss_fn: with powers any loss with the signature of ``tempered_loss`` (the default), without
        them any with that of ``vanilla_loss`` (the default). What it takes beyond that, such as
        ``energy_l2``, is bound by ``functools.partial``; ``covariance_loss`` is given
        ``num_chains`` that way.
      num_chains: chains for each observation and power, and as many prior chains.
      identify: a batch to the indices of its examples in the data, for persistent chains; ``fit``
        asks it about all data and refuses an index that the chains do not have.
      reinit_prob: of each persistent chain of the prior, to start anew from the base at a step. Its
        ends are then those of fresh chains of num_steps / reinit_prob steps in the mean.

    Returns:
      A ``GradientFn``. Its metrics are those of the loss, "loss", and, where the samplers report
      them, "prior_acceptance" and "posterior_acceptance" (one for each power above 0). Chains
      that exchange add "swap_acceptance" and "round_trips", as ``sample_power_posteriors`` says,
      and with ``placed_powers`` the "powers" of the step. Its ``numbers`` are those of "model",
      "chains", "powers" and "loss_fn", or some: see ``numbers_of``.
    """
    check_at_least("num_chains", num_chains, 1)
    check_fraction("reinit_prob", reinit_prob)
    parts = {
        "model": model,
        "chains": chains,
        "powers": jnp.array([0.0, 1.0]) if powers is None else powers,
        "loss_fn": loss_fn or (vanilla_loss if powers is None else tempered_loss),
    }

    def gradient_fn(
        key: Key, params: LatentParams, carry: PyTree, batch: PyTree, numbers: PyTree = None
    ) -> tuple[LatentParams, PyTree, Metrics]:
        model, chains, ladder, loss_fn = _bind(parts, numbers)
        observations = jnp.repeat(observe(batch), num_chains, axis=0)
        prior_start, posterior_start, replicas, indices = None, None, None, cast(jax.Array, None)
        if isinstance(carry, LatentCarry):
            if identify is None:
                raise ValueError(
                    "persistent chains need identify, from a batch to the indices of its examples: "
                    "give it to make_latent_gradient_fn, or train with state.carry=()."
                )
            shape = (len(ladder) - 1, num_chains, chains.latent_dim)
            is_wrong = (carry.replicas is None) == (chains.exchange_every > 0)
            is_wrong |= carry.posterior.shape[1:] != shape or len(carry.prior) != len(observations)
            if is_wrong:
                raise ValueError(
                    f"persistent chains must have shapes {shape} an example, and "
                    f"{len(observations)} of the prior, and exchange where exchange_every is above "
                    "0: make them by init_latent_carry with the run's numbers."
                )
            indices, prior_start = identify(batch), carry.prior

            def by_power(leaf: jax.Array) -> jax.Array:
                rows = jnp.moveaxis(leaf[indices], 1, 0)
                return rows.reshape(len(rows), -1, *rows.shape[3:])

            posterior_start, replicas = jax.tree.map(by_power, (carry.posterior, carry.replicas))
            ladder = ladder if carry.powers is None else carry.powers
        if reinit_prob and prior_start is not None:
            key, new_key = jax.random.split(key)
            choice_key, draw_key = jax.random.split(new_key)
            is_new = jax.random.bernoulli(choice_key, reinit_prob, (len(prior_start), 1))
            fresh = model.base_scale * jax.random.normal(draw_key, prior_start.shape)
            prior_start = jnp.where(is_new, fresh, prior_start)
        latents, acceptance = sample_ladder(
            key,
            params,
            model,
            observations,
            ladder,
            chains,
            prior_start=prior_start,
            posterior_start=posterior_start,
            replicas=replicas,
        )
        acceptance = dict(acceptance)
        replicas = acceptance.pop("replicas", None)

        def loss(params: LatentParams) -> tuple[jax.Array, Any]:
            if powers is None:
                return loss_fn(params, model, observations, latents[-1], latents[0])
            return loss_fn(params, model, observations, latents, latents[0], ladder)

        (value, metrics), gradients = jax.value_and_grad(loss, has_aux=True)(params)
        if isinstance(carry, LatentCarry):
            if carry.powers is not None:
                acceptance["powers"] = ladder
                placed = place_powers(ladder, acceptance["swap_acceptance"])
                # A part of the way: one step's acceptances are noisy.
                carry = carry._replace(powers=ladder + 0.02 * (placed - ladder))

            def write(leaf: jax.Array) -> Any:
                by_chain = leaf.reshape(len(leaf), -1, num_chains, *leaf.shape[2:])
                return write_slots(indices, jnp.moveaxis(by_chain, 0, 1))

            posterior, replicas = jax.tree.map(write, (latents[1:], replicas))
            carry = carry._replace(prior=latents[0], posterior=posterior, replicas=replicas)
        return gradients, carry, {"loss": value, **metrics, **acceptance}

    def check_data(params: LatentParams, carry: PyTree, data: PyTree) -> None:
        """Inside ``jit`` another example's chains would stand in for missing ones."""
        del params
        if identify is None or not isinstance(carry, LatentCarry):
            return
        num_examples, values = carry.posterior.shape[0], np.asarray(identify(data))
        is_integer = np.issubdtype(values.dtype, np.integer)
        if not is_integer or np.any((values < 0) | (values >= num_examples)):
            raise ValueError(
                f"identify must give integers in 0..{num_examples - 1}, the examples that the "
                f"shards keep chains of; got {values.dtype} from {values.min()} to {values.max()}. "
                "Correct identify, or make the shards by init_latent_carry with the data's "
                "num_examples."
            )

    gradient_fn.check_data = check_data  # pyright: ignore[reportFunctionMemberAccess]
    return gradient_fn


def make_through_chain_gradient_fn(
    model: LatentModel,
    powers: jax.Array,
    chains: LatentChains,
    *,
    observe: Callable[[PyTree], jax.Array],
    **options: Any,
) -> GradientFn:
    """Differentiates ``ebmjax.latent.through_chain_loss``, which draws its own chains.

    Args:
      model: the latent EBM.
      powers: increasing from 0 to 1, shape (num_powers,).
      chains: samplers and lengths.
      observe: a batch of the data, (examples, ...), to observations in the generator's range.
      **options: ``num_chains`` and the weights of ``through_chain_loss``, whose ``kl_weight`` is no
        number of the step.

    Returns:
      A ``GradientFn`` without a carry, with the metrics and numbers of ``make_latent_gradient_fn``.
    """
    static = {name: options.pop(name) for name in ("kl_weight",) if name in options}
    loss_fn = partial(through_chain_loss, **options)
    parts = {"model": model, "chains": chains, "powers": powers, "loss_fn": loss_fn}

    def gradient_fn(
        key: Key, params: LatentParams, carry: PyTree, batch: PyTree, numbers: PyTree = None
    ) -> tuple[LatentParams, PyTree, Metrics]:
        observations = observe(batch)
        model, chains, powers, loss_fn = _bind(parts, numbers)

        def loss(params: LatentParams) -> tuple[jax.Array, Metrics]:
            return loss_fn(key, params, model, observations, powers, chains, **static)

        (value, metrics), gradients = jax.value_and_grad(loss, has_aux=True)(params)
        return gradients, carry, {"loss": value, **metrics}

    return gradient_fn


def _bind(parts: Mapping[str, Any], numbers: PyTree) -> tuple[Any, Any, Any, Any]:
    """Returns model, chains, powers and loss with ``numbers`` in place of their own."""
    given = {name: value for name, value in (numbers or {}).items() if name in parts}
    model, chains, powers, loss_fn = with_numbers(parts, given).values()
    return model, chains, powers, loss_fn
