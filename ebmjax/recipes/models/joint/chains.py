"""A trained joint energy model, and what its chains follow."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax.learning import DualAveraging, JointNetwork
from ebmjax.recipes.evaluators.chains import DensitiesOf, settled
from ebmjax.training import TrainState
from ebmjax.types import PyTree


class Trained(NamedTuple):
    """Parts of a run's state that are used.

    Attributes:
      params: of the network.
      statistics: running averages of batch normalisation, the mean of the shards'.
      smoothing: scalar, the mean of the shards'.
      adaptation: of the first shard, at the averaged step sizes.
    """

    params: PyTree
    statistics: PyTree
    smoothing: jax.Array
    adaptation: dict[str, DualAveraging]


def trained(state: TrainState) -> Trained:
    """The trained model of ``state``."""
    carry = state.shards
    smoothing = jnp.mean(jnp.asarray(carry.smoothing))
    return Trained(state.params, averaged_statistics(state), smoothing, settled(carry.adaptation))


def averaged_statistics(state: TrainState) -> PyTree:
    """Returns the running statistics that a trained model is used with, means over the shards.

    Counters and flags of a user's network are the first shard's: they are equal on all shards.
    """

    def averaged(leaf: Any) -> jax.Array:
        is_number = jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)
        return jnp.mean(leaf, axis=0) if is_number else jnp.asarray(leaf)[0]

    return jax.tree.map(averaged, state.shards.statistics)


def densities_of(network: JointNetwork, density_scale: Any) -> DensitiesOf:
    """Returns the densities of chains: the logit of their class, or log p(x) for ``ANY_CLASS``.

    Scaled as in training, which the step size was chosen for.

    Args:
      network: whose policy says what the chains' images are normalised by.
      density_scale: of the objective.
    """
    network = network._replace(is_conditional=True)
    return lambda model: network.densities(
        model.params, model.statistics, density_scale / model.smoothing
    )
