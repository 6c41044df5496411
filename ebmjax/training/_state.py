"""State of a run: everything it needs to continue bit for bit."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ebmjax._checks import check_arrays, check_floating
from ebmjax.types import PyTree


class TrainState(NamedTuple):
    """State of a training run between two steps.

    The random key is not here: step ``i`` uses ``fold_in(root_key, i)``, so the step is enough.
    A run of repeats has more axes: see ``stack_states``.

    Attributes:
      step: scalar int32, steps taken.
      params: optimised parameters, the same on every device.
      opt_state: the optimiser's; the same on every device.
      carry: chains, buffers and statistics of the parts of a batch, each leaf with a leading axis
        of logical shards; ``()`` if there are none.
      skipped: scalar int32, steps whose update was dropped because it was not finite.
      consecutive_skipped: scalar int32, skipped steps in a row up to now.
    """

    step: jax.Array
    params: PyTree
    opt_state: PyTree
    carry: PyTree
    skipped: jax.Array
    consecutive_skipped: jax.Array


def init_state(
    params: PyTree, optimizer: optax.GradientTransformation, carry: PyTree = ()
) -> TrainState:
    """Returns the state before the first step.

    Args:
      params: floating-point arrays or numbers; of an Equinox module not its functions.
      optimizer: its ``init`` sees ``params``.
      carry: arrays of any dtype; every leaf has a leading axis of logical shards.
    """
    check_floating("params", params)
    check_arrays("carry", carry)
    # The dtype is explicit: a checkpoint forgets a Python number's weak type, and the resumed run
    # would compute in another dtype.
    params, carry = jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x)), (params, carry))
    # Separate arrays, because a buffer cannot be donated twice.
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        opt_state=optimizer.init(params),
        carry=carry,
        skipped=jnp.zeros((), jnp.int32),
        consecutive_skipped=jnp.zeros((), jnp.int32),
    )


def state_axes(replicated: Any, sharded: Any) -> TrainState:
    """Returns a prefix of the state: ``sharded`` where devices differ, else ``replicated``."""
    return TrainState(replicated, replicated, replicated, sharded, replicated, replicated)
