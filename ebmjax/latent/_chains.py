"""Short-run chains for the latent EBM: its prior, and its posteriors at several powers."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._axes import varying_with
from ebmjax._checks import check_at_least, check_powers
from ebmjax.densities import power_posterior
from ebmjax.latent._exchange import exchanging, start_exchange
from ebmjax.latent._model import LatentModel, LatentParams, log_likelihood, log_prior
from ebmjax.samplers import (
    acceptance_of,
    batch_step,
    position_of,
    start_chain,
    start_chains,
    start_key,
    trace_chain,
)
from ebmjax.types import Key, Metrics, SamplerFn, Step


class LatentChains(NamedTuple):
    """Short chains of latents: one on the prior, and one on every power posterior.

    Attributes:
      latent_dim: d.
      prior_sampler: log density to sampler, such as ``functools.partial(sgld, step_size=0.16)``.
      prior_steps: steps of each prior chain, at power 0.
      posterior_sampler: log density to sampler, for the powers above 0.
      posterior_steps: steps of each chain at each power above 0.
      warm_start: whether the powers above 0 are annealed instead of started afresh.
      posterior_start: observations (batch, *event) to the latents (batch, d) where the chains above
        power 0 start, such as ``principal_latents``; None for draws of the base.
      exchange_every: steps between swaps of neighbouring powers above 0; 0 for none.
    """

    latent_dim: int
    prior_sampler: SamplerFn
    prior_steps: int
    posterior_sampler: SamplerFn
    posterior_steps: int
    warm_start: bool = False
    posterior_start: Callable[[jax.Array], jax.Array] | None = None
    exchange_every: int = 0


def sample_ladder(
    key: Key,
    params: LatentParams,
    model: LatentModel,
    observations: jax.Array,
    powers: jax.Array,
    chains: LatentChains,
    *,
    prior_start: jax.Array | None = None,
    posterior_start: jax.Array | None = None,
    replicas: jax.Array | None = None,
) -> tuple[jax.Array, Metrics]:
    """Returns the end of one chain at every power for each observation, as the losses need them.

    It is differentiable in ``params``, as ``sample_prior`` is.

    Args:
      key: consumed.
      params, model: the latent EBM.
      observations: shape (batch, *event).
      powers: the whole ladder, increasing from 0 to 1, shape (num_powers,); ``[0, 1]`` for
        ``vanilla_loss``.
      chains: samplers and lengths (static).
      prior_start, posterior_start: where the chains continue, shapes (batch, d) and (num_powers -
        1, batch, d).
      replicas: memory of persistent chains that exchange; None for new ones.

    Returns:
      One latent for each power and observation, shape (num_powers, batch, d), the prior's chains at
      the first power, the posterior's at the last. If the samplers report them, also
      "prior_acceptance" (scalar) and "posterior_acceptance" (one for each power above 0). A loss
      takes the latents and, as ``prior_latents``, the first of them. Chains that exchange add what
      ``sample_power_posteriors`` says.
    """
    check_powers(powers, is_whole=True)
    prior_key, posterior_key = jax.random.split(key)
    if posterior_start is None and chains.posterior_start is not None:
        first = chains.posterior_start(observations)
        posterior_start = jnp.broadcast_to(first, (len(powers) - 1, *first.shape))
    prior_latents, prior_info = sample_prior(
        prior_key,
        params,
        model,
        observations.shape[0],
        chains.latent_dim,
        sampler=chains.prior_sampler,
        num_steps=chains.prior_steps,
        start=prior_start,
    )
    above, posterior_info = sample_power_posteriors(
        posterior_key,
        params,
        model,
        observations,
        powers[1:],
        chains.latent_dim,
        sampler=chains.posterior_sampler,
        num_steps=chains.posterior_steps,
        warm_start=chains.warm_start,
        start=posterior_start,
        exchange_every=chains.exchange_every,
        replicas=replicas,
    )
    named = {"prior_acceptance": prior_info, "posterior_acceptance": posterior_info}
    acceptance = {
        name: info["acceptance_prob"] for name, info in named.items() if "acceptance_prob" in info
    }
    swaps = {name: info for name, info in posterior_info.items() if name != "acceptance_prob"}
    return jnp.concatenate([prior_latents[None], above]), acceptance | swaps


def sample_prior(
    key: Key,
    params: LatentParams,
    model: LatentModel,
    num_chains: int,
    latent_dim: int,
    *,
    sampler: SamplerFn,
    num_steps: int,
    start: jax.Array | None = None,
) -> tuple[jax.Array, Metrics]:
    """Returns ends of prior chains that start from N(0, base_scale^2 I) or from ``start``.

    A model with ``draw_prior_fn`` gives exact draws instead, without a derivative in ``params``.
    It is differentiable in ``params`` through every step, each computed again on the way back.

    Args:
      key: consumed.
      params, model: the latent EBM, whose generator is not used.
      num_chains: number of independent chains (static).
      latent_dim: d (static).
      sampler: log density to sampler, such as ``functools.partial(sgld, step_size=0.16)``.
      num_steps: steps of each chain, one gradient of the energy each (static).
      start: where persistent chains continue, shape (num_chains, latent_dim).

    Returns:
      Latents of shape (num_chains, latent_dim) and, if the sampler reports it, ``acceptance_prob``
      averaged over chains and steps.

    Source: thermodynamic-integration thesis, Eq. 10 and 11.
    """
    sizes = {"num_chains": num_chains, "latent_dim": latent_dim, "num_steps": num_steps}
    for name, size in sizes.items():
        check_at_least(name, size, 1)
    if model.draw_prior_fn is not None:
        return jax.lax.stop_gradient(model.draw_prior_fn(params.prior, key, num_chains)), {}
    start_key, chain_key = jax.random.split(key)
    first = _start(start_key, model, start, (num_chains, latent_dim))
    chain = sampler(lambda z: log_prior(params, model, z))
    states = start_chains(chain_key, chain, varying_with(first, key, params))
    end, metrics = _run(chain_key, states, batch_step(chain.step), num_steps)
    return position_of(end), metrics


def sample_power_posteriors(
    key: Key,
    params: LatentParams,
    model: LatentModel,
    observations: jax.Array,
    powers: jax.Array,
    latent_dim: int,
    *,
    sampler: SamplerFn,
    num_steps: int,
    warm_start: bool = False,
    start: jax.Array | None = None,
    exchange_every: int = 0,
    replicas: jax.Array | None = None,
) -> tuple[jax.Array, Metrics]:
    """Returns ends of chains on ``p(x | z)^t p(z)``, one for every power t and observation x.

    Every chain starts from N(0, base_scale^2 I), and all powers run at once. With ``warm_start``
    the powers run one after the other; each starts (with a fresh sampler state) where the previous
    power's chains ended. For several chains an observation, repeat the observation. It is
    differentiable in ``params``, as ``sample_prior`` is.

    With ``exchange_every`` neighbouring powers swap their chains, even and odd pairs in turn, with
    probability ``min(1, exp((t_{i+1} - t_i)(l_i - l_{i+1}) / T))``, l the log likelihoods and T the
    ``temperature`` in ``sampler.keywords``, else 1. No swap needs a gradient of the generator.

    Args:
      key: consumed.
      params, model: the latent EBM.
      observations: shape (batch, *event).
      powers: increasing within (0, 1], shape (num_powers,); one power of 1 gives the posterior.
        Power 0 is the prior, which has separate chains: see ``sample_ladder``.
      latent_dim: d (static).
      sampler: log density to sampler, such as ``functools.partial(sgld, step_size=0.01)``.
      num_steps: steps of each chain at each power (static).
      warm_start: whether to anneal along the powers (static).
      start: where persistent chains continue, shape (num_powers, batch, latent_dim); excludes
        ``warm_start``.
      exchange_every: steps between swaps of neighbouring powers; 0 for none (static).
      replicas: memory of persistent chains that exchange; None for new ones.

    Returns:
      Latents of shape (num_powers, batch, latent_dim) and, if the sampler reports it,
      ``acceptance_prob`` of shape (num_powers,), averaged over observations and steps. With
      ``exchange_every`` also ``swap_acceptance`` of each pair, shape (num_powers - 1,), tried or
      not; ``round_trips`` from the lowest power to the highest and back, mean a replica; and
      ``replicas``, to go on with.

    Source: thermodynamic-integration thesis, Eq. 16 and 17; Syed et al. 2022 for the swaps.
    """
    check_powers(powers, minimum=2 if exchange_every else 1)
    if exchange_every and (warm_start or not 1 <= exchange_every <= num_steps):
        raise ValueError(
            "exchange_every must be from 1 to num_steps, or 0 for no swaps, and excludes "
            f"warm_start; got {exchange_every=}, {num_steps=} and {warm_start=}."
        )
    if warm_start and start is not None:
        raise ValueError(
            "start and warm_start exclude each other: annealed chains of every power start where "
            "those of the power below ended. Give one of them."
        )
    num_powers, batch = len(powers), observations.shape[0]
    sizes = {"latent_dim": latent_dim, "num_steps": num_steps, "the number of observations": batch}
    for name, size in sizes.items():
        check_at_least(name, size, 1)
    powers = jnp.asarray(powers)
    start_key, chain_key = jax.random.split(key)

    def chain(power: jax.Array, x: jax.Array) -> Any:
        return sampler(
            power_posterior(
                lambda z: log_prior(params, model, z),
                lambda z: log_likelihood(params, model, z, x),
                power,
            )
        )

    shape = (batch, latent_dim) if warm_start else (num_powers, batch, latent_dim)
    first = _start(start_key, model, start, shape)
    first = varying_with(first, key, params, observations, powers)
    if not warm_start:
        states, step = _start_grid(chain_key, chain, powers, observations, first)
        if exchange_every:
            temperature = getattr(sampler, "keywords", {}).get("temperature")
            temperature = 1.0 if temperature is None else temperature
            of_prior = partial(log_prior, params, model)
            step = exchanging(step, exchange_every, of_prior, powers, temperature)
            states = start_exchange(states, replicas)
        end, metrics = _run(chain_key, states, step, num_steps)
        if exchange_every:
            mean = jnp.mean(end.swap_prob, axis=1) / (num_steps // exchange_every)
            trips = jnp.mean(end.round_trips) / num_powers
            swaps = {"swap_acceptance": mean, "round_trips": trips, "replicas": end.replicas}
            metrics = {**metrics, **swaps}
        return position_of(end), metrics

    def anneal(z: jax.Array, inputs: tuple[Key, jax.Array]) -> tuple[jax.Array, Any]:
        key, power = inputs
        grid = _start_grid(key, chain, power[None], observations, z[None])
        end, metrics = _run(key, *grid, num_steps)
        latents, metrics = jax.tree.map(lambda leaf: leaf[0], (position_of(end), metrics))
        return latents, (latents, metrics)

    inputs = jax.random.split(chain_key, num_powers), powers
    return jax.lax.scan(anneal, first, inputs)[1]


def _start(
    key: Key, model: LatentModel, start: jax.Array | None, shape: tuple[int, ...]
) -> jax.Array:
    """Returns ``start`` if it has ``shape``, or draws from the base."""
    if start is None:
        return model.base_scale * jax.random.normal(key, shape)
    start = jnp.asarray(start)
    if start.shape != shape:
        raise ValueError(f"start must have shape {shape}, one position a chain, got {start.shape}.")
    return start


def _start_grid(
    key: Key,
    chain: Callable[[jax.Array, jax.Array], Any],
    powers: jax.Array,
    observations: jax.Array,
    start: jax.Array,
) -> tuple[Any, Step]:
    """Returns states and step of all ``chain(power, x)`` at ``start`` (num_powers, batch, d)."""

    def over_grid(fn: Callable[..., Any]) -> Callable[..., Any]:
        return jax.vmap(jax.vmap(fn, in_axes=(None, 0, 0)), in_axes=(0, None, 0))

    step_one = over_grid(lambda power, x, one: chain(power, x).step(*one))
    start_one = over_grid(lambda power, x, one: start_chain(one[0], chain(power, x), one[1]))

    def step(key: Key, states: Any) -> tuple[Any, Any]:
        keys = jax.random.split(key, start.shape[:2])
        return step_one(powers, observations, (keys, states))

    keys = jax.random.split(start_key(key), start.shape[:2])
    return start_one(powers, observations, (keys, start)), step


def _run(key: Key, states: Any, step: Step, num_steps: int) -> tuple[Any, Metrics]:
    """Scans ``step``; returns the last states and, over the last axis, the mean acceptance."""
    # The backward pass keeps states and repeats each step: 20 steps at 10 powers need the memory of
    # one. A scan has no common code to keep apart.
    step = jax.checkpoint(step, prevent_cse=False)

    def mean_acceptance(states: Any, info: Any) -> Metrics:
        acceptance = acceptance_of(info)
        return {} if acceptance is None else {"acceptance_prob": jnp.mean(acceptance, axis=-1)}

    states, metrics = trace_chain(jax.random.split(key, num_steps), states, step, mean_acceptance)
    return states, jax.tree.map(lambda steps: jnp.mean(steps, axis=0), metrics)
