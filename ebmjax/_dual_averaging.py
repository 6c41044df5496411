"""Step sizes that adapt to an acceptance: dual averaging."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._checks import check_positive

# Hoffman & Gelman 2014: gain, iterations that the early ones are damped by, and the power with
# which the average forgets.
GAIN, DAMPED, FORGETTING = 0.05, 10.0, 0.75


class DualAveraging(NamedTuple):
    """A step size on its way to a target acceptance.

    Attributes:
      log_step_size: scalar, of the next chains.
      log_average: scalar, averaged over updates, the later ones more: for chains after training.
      mean_error: scalar, target minus acceptance, averaged over updates; at most what makes the
        smallest step size.
      count: scalar int32, updates.
    """

    log_step_size: jax.Array
    log_average: jax.Array
    mean_error: jax.Array
    count: jax.Array


def dual_averaging_init(step_size: Any) -> DualAveraging:
    """Before the first update, at ``step_size`` (positive)."""
    check_positive("step_size", step_size)
    log_step_size = jnp.log(jnp.float32(step_size))
    return DualAveraging(log_step_size, log_step_size, jnp.float32(0), jnp.int32(0))


def dual_averaging_update(
    state: DualAveraging,
    acceptance_prob: jax.Array,
    *,
    step_size: Any,
    target: float,
    min_step_size: float = 0.0,
) -> DualAveraging:
    r"""One update of the step size by the acceptance that it had.

    .. math::
        \bar h \leftarrow \Big(1 - \tfrac{1}{t + 10}\Big) \bar h
            + \tfrac{1}{t + 10} (\delta - \alpha), \qquad
        \log \epsilon \leftarrow \log(10 \epsilon_0) - \tfrac{\sqrt t}{0.05} \bar h

    The average of :math:`\log \epsilon` takes the newest with weight :math:`t^{-0.75}`. In training
    the density changes, so this is never frozen: update t moves :math:`\log \epsilon` by about
    :math:`20 / \sqrt t` times its error.

    Args:
      state: from ``dual_averaging_init`` or an earlier update.
      acceptance_prob: scalar, the mean over chains and steps.
      step_size: :math:`\epsilon_0`, as at the start.
      target: :math:`\delta`; 0.574 is the optimum of MALA in many dimensions.
      min_step_size: below it the step size does not go, nor does the mean error go on to grow: at
        the first acceptance above the target the step size rises again.

    Source: Hoffman & Gelman 2014, section 3.2, with their constants.
    """
    count = state.count + 1
    t = count.astype(jnp.float32)
    weight = 1.0 / (t + DAMPED)
    # A scan's carry keeps its dtype, whatever the chains are computed in.
    error = target - jnp.asarray(acceptance_prob, jnp.float32)
    mean_error = (1.0 - weight) * state.mean_error + weight * error
    log_start, log_min = jnp.log(10.0 * jnp.float32(step_size)), jnp.log(jnp.float32(min_step_size))
    mean_error = jnp.minimum(mean_error, GAIN / jnp.sqrt(t) * (log_start - log_min))
    log_step_size = jnp.maximum(log_start - jnp.sqrt(t) / GAIN * mean_error, log_min)
    share = t**-FORGETTING
    log_average = share * log_step_size + (1.0 - share) * state.log_average
    return DualAveraging(log_step_size, log_average, mean_error, count)
