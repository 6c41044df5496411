"""A trained image energy and chains of it from the initial law."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.evaluate import Chains
from ebmjax.learning import ChainPlan, DualAveraging, Energy, EnergyOf, class_densities
from ebmjax.optim import averaged_parameters
from ebmjax.recipes.evaluators import chains
from ebmjax.training import TrainState
from ebmjax.types import Key, PyTree


class Trained(NamedTuple):
    """Parts of a run's state that are used.

    Attributes:
      params: averaged over training.
      adaptation: of the first shard, at the averaged step sizes.
      beta: scalar, of the robust objective; 0 without.
    """

    params: PyTree
    adaptation: dict[str, DualAveraging]
    beta: Any


def trained(state: TrainState, beta: Any) -> Trained:
    """The trained model of ``state``."""
    adaptation = chains.settled(state.shards.adaptation)
    return Trained(averaged_parameters(state.opt_state), adaptation, jnp.float32(beta))


def densities_of(energy_of: EnergyOf) -> chains.DensitiesOf:
    """Returns the densities that chains of a ``Trained`` model follow, see ``class_densities``."""
    return lambda model: class_densities(energy_of(model.params), model.beta)


def with_larger_steps(model: Trained, factor: float) -> Trained:
    """``model`` with the step sizes that adapted times ``factor``."""
    larger = {
        name: s._replace(log_step_size=s.log_step_size + math.log(factor))
        for name, s in model.adaptation.items()
    }
    return model._replace(adaptation=larger)


def energies_in_batches(
    energy: Energy, images: jax.Array, labels: jax.Array, batch_size: int
) -> jax.Array:
    """(N,): of (N, H, W, C) images, at most ``batch_size`` at a time."""
    size = min(batch_size, len(images))
    return jax.lax.map(lambda pair: energy(*pair), (images, labels), batch_size=size)


def make_fresh_chains(
    energy_of: EnergyOf, plan: ChainPlan, *, num: int, num_steps: int, batch_size: int
) -> Callable[[Key, Trained], Chains]:
    """Chains from the initial law, of the classes in turn: ``(key, model) -> Chains``.

    Args:
      energy_of: parameters to energy.
      plan: how training draws its negatives; samplers get equal parts of every group of chains that
        run together, but for chains too many in the last.
      num: of chains.
      num_steps: of each chain.
      batch_size: of chains that run at the same time, or by a few more, one for each sampler.
    """
    num_kinds = len(plan.kinds)
    # Groups of nearly equal size: of one that is cut off only some of its samplers' chains count.
    size = -(-num // (-(-num // batch_size) * num_kinds)) * num_kinds
    num_groups = -(-num // size)
    labels = np.arange(num_groups * size, dtype=np.int32) % plan.num_classes
    run = chains.make_fresh_chains(plan, densities_of(energy_of), num_steps)

    def fresh_chains(key: Key, model: Trained) -> Chains:
        starts, ends = run(key, model, labels.reshape(num_groups, size))
        return Chains(starts[:num], ends[:num], labels[:num])

    return fresh_chains
