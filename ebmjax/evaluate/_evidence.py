"""Log evidence of images under a latent EBM, by independent estimators."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import latent
from ebmjax._checks import check_at_least
from ebmjax._groups import map_groups
from ebmjax._ranges import COUNT, POSITIVE
from ebmjax.evaluate._classifier import as_floats
from ebmjax.evidence import (
    Estimate,
    annealed_importance_sampling,
    smc_log_normalizer,
    stepping_stone_log_evidence,
    thermodynamic_log_evidence,
)
from ebmjax.samplers import mala
from ebmjax.types import Key, LogDensityFn

NUM_GROUPS = 8
"""Groups of chains whose spread tells the error of a divergence, and populations of "smc"."""

OfImage = Callable[[Key, jax.Array], Estimate]


class Problem(NamedTuple):
    """A model and the settings of all methods, as ``evidence`` takes them."""

    params: latent.LatentParams
    model: latent.LatentModel
    latent_dim: int
    num_chains: int
    num_intervals: int
    num_steps: int
    step_size: float
    exponent: float
    with_divergences: bool

    @property
    def powers(self) -> jax.Array:
        """Powers from 0 to 1."""
        return latent.power_schedule(self.num_intervals, self.exponent)

    @property
    def sampler(self) -> Callable[..., Any]:
        """Log density to sampler."""
        return partial(mala, step_size=self.step_size)

    def ladder(self, key: Key, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns annealed chains of one image, (powers, chains, d), and their log likelihoods.

        Chains on the prior take as many steps as all powers together.
        """
        chains = latent.LatentChains(
            self.latent_dim,
            prior_sampler=self.sampler,
            prior_steps=self.num_steps * self.num_intervals,
            posterior_sampler=self.sampler,
            posterior_steps=self.num_steps,
            warm_start=True,
        )
        network, repeated = (
            (self.params, self.model),
            jnp.repeat(observation[None], self.num_chains, 0),
        )
        latents, _ = latent.sample_ladder(key, *network, repeated, self.powers, chains)
        of_pair = jax.vmap(partial(latent.log_likelihood, *network))
        values = jax.lax.map(lambda z: of_pair(z, repeated), latents)
        return latents, values


def evidence(
    key: Key,
    params: latent.LatentParams,
    model: latent.LatentModel,
    images: Any,
    *,
    latent_dim: int,
    methods: Sequence[str] = ("thermodynamic", "stepping_stone", "ais"),
    num_chains: int = 64,
    num_intervals: Annotated[int, COUNT] = 40,
    num_steps: Annotated[int, COUNT] = 10,
    step_size: Annotated[float, POSITIVE] = 0.02,
    exponent: float = 6.0,
    with_divergences: bool = True,
) -> dict[str, Any]:
    """Returns the log evidence of every image by independent estimators.

    All move by MALA, one image after the other. "thermodynamic" and "stepping_stone" start from
    long chains on the prior and need no normalising constant. "ais" and "smc" start from exact
    draws of the base Gaussian and subtract the prior's log Z, estimated in the same way. A model
    with ``draw_prior_fn`` starts all of them from exact draws of its prior, whose log Z is 0.

    Args:
      key: each method has separate random numbers.
      params, model: the latent EBM.
      images: uint8 (N, ...), or floating point as the generator makes them.
      latent_dim: d.
      methods: of "thermodynamic", "stepping_stone", "ais" and "smc".
      num_chains: of an image; for "smc" a multiple of 8.
      num_intervals: intervals of these methods, between powers from 0 to 1.
      num_steps: steps at each of their powers.
      step_size: step size of their chains, by MALA.
      exponent: of the powers.
      with_divergences: whether "thermodynamic" fits Gaussians with full covariances to its chains,
        which takes 3 d of them and 16. Without, it is called "trapezium".

    Returns:
      Method to "log_evidence" and "standard_error", (N,), and their "mean", in nats.
    """
    sizes = latent_dim, num_chains, num_intervals, num_steps
    problem = Problem(params, model, *sizes, step_size, exponent, with_divergences)
    for name in ("latent_dim", "num_intervals", "num_steps"):
        check_at_least(name, getattr(problem, name), 1)
    if unknown := [name for name in methods if name not in METHODS]:
        raise ValueError(f"methods must be of {', '.join(METHODS)}, got {unknown}.")
    has_fit = "thermodynamic" in methods and with_divergences
    fewest = max(3 * latent_dim, 2 * NUM_GROUPS) if has_fit else 2
    if num_chains < fewest or ("smc" in methods and num_chains % NUM_GROUPS):
        raise ValueError(
            f"num_chains must be at least {fewest} (3 for each of latent_dim dimensions and 16, "
            f"with_divergences), and for 'smc' a multiple of {NUM_GROUPS}, got {num_chains}."
        )
    observations = as_floats(images)

    def run(name: str, key: Key, params: Any, observations: Any) -> Estimate:
        first = int(name in ("ais", "smc"))  # after a key for the prior's log Z
        keys = jax.random.split(key, first + len(observations))
        one = METHODS[name](keys[0], problem._replace(params=params))
        # Image by image, so that only one's chains are in memory.
        return map_groups(lambda pair: one(*pair), (keys[first:], observations))

    report = {}
    for i, name in enumerate(methods):
        arguments = jax.random.fold_in(key, i), params, observations
        found = jax.device_get(jax.jit(partial(run, name))(*arguments))
        is_trapezium = name == "thermodynamic" and not with_divergences
        report["trapezium" if is_trapezium else name] = {
            "log_evidence": found.value,
            "standard_error": found.standard_error,
            "mean": np.mean(found.value, axis=-1),
        }
    return report


def _thermodynamic(_: Key, problem: Problem) -> OfImage:
    powers = problem.powers

    def one(key: Key, x: jax.Array) -> Estimate:
        nodes, values = problem.ladder(key, x)
        if not problem.with_divergences:
            return thermodynamic_log_evidence(values, powers)
        return with_divergences(nodes, values, powers)

    return one


def with_divergences(nodes: jax.Array, log_likelihoods: jax.Array, powers: jax.Array) -> Estimate:
    """Returns one image's thermodynamic sum with fitted divergences, and its whole error.

    The error is the jackknife's over ``NUM_GROUPS`` groups of chains. It includes the
    divergences, which ``thermodynamic_log_evidence`` leaves out, and chains that remember the power
    below. It is too large: by 30 to 60 % with three to four exact draws for each of 16 or 80
    dimensions, by less with more.

    Args:
      nodes: (powers, chains, d), a chain at the same place at every power.
      log_likelihoods: (powers, chains).
      powers: (powers,), from 0 to 1.
    """
    num_chains = nodes.shape[1]
    size = num_chains // NUM_GROUPS

    def value(nodes: jax.Array, log_likelihoods: jax.Array) -> jax.Array:
        forward, backward = latent.fitted_divergences(nodes)
        means = log_likelihoods.mean(axis=1)
        return latent.log_evidence(means, powers, kl_forward=forward, kl_backward=backward)

    def without(group: jax.Array) -> jax.Array:
        kept = (jnp.arange(num_chains - size) + (group + 1) * size) % num_chains
        return value(nodes[:, kept], log_likelihoods[:, kept])

    parts = jax.lax.map(without, jnp.arange(NUM_GROUPS))
    error = jnp.sqrt(NUM_GROUPS - 1) * jnp.std(parts)
    return Estimate(value(nodes, log_likelihoods), error)


def _stepping_stone(_: Key, problem: Problem) -> OfImage:
    powers = problem.powers
    return lambda key, x: stepping_stone_log_evidence(problem.ladder(key, x)[1], powers)


def _ais(key: Key, problem: Problem) -> OfImage:
    def weigh(*arguments: Any, **options: Any) -> Estimate:
        return annealed_importance_sampling(*arguments, **options).estimate

    return _anneal(key, problem, weigh, (problem.num_chains,))


def _smc(key: Key, problem: Problem) -> OfImage:
    """Splits the chains of the other methods into ``NUM_GROUPS`` independent populations."""
    shape = NUM_GROUPS, problem.num_chains // NUM_GROUPS
    return _anneal(key, problem, smc_log_normalizer, shape)


def _anneal(
    key: Key, problem: Problem, weigh: Callable[..., Estimate], shape: tuple[int, ...]
) -> OfImage:
    """Subtracts the prior's log Z, the same for all images, from log Z p(x) of each."""
    params, model = problem.params, problem.model

    def log_normalizer(key: Key, path: tuple[LogDensityFn, LogDensityFn]) -> Estimate:
        start_key, run_key = jax.random.split(key)
        options = {"sampler": problem.sampler, "num_steps": problem.num_steps}
        if model.draw_prior_fn is None:
            draws = model.base_scale * jax.random.normal(start_key, (*shape, problem.latent_dim))
        else:
            draws = model.draw_prior_fn(params.prior, start_key, math.prod(shape))
            draws = draws.reshape(*shape, -1)
        return weigh(run_key, draws, problem.powers, *path, **options)

    if model.draw_prior_fn is not None:
        prior_fn = partial(latent.log_prior, params, model)
        return lambda key, x: log_normalizer(
            key, (prior_fn, lambda z: latent.log_likelihood(params, model, z, x))
        )
    prior = log_normalizer(key, latent.path_to_prior(params, model))
    return lambda key, x: log_normalizer(key, latent.path_to_posterior(params, model, x)) - prior


METHODS = {
    "thermodynamic": _thermodynamic,
    "stepping_stone": _stepping_stone,
    "ais": _ais,
    "smc": _smc,
}
"""Name to estimator, ``(key, problem) -> OfImage``; the key is for what all images share."""
