"""Which particles go back to the replay buffer."""

from typing import Literal

import jax
import jax.numpy as jnp

from ebmjax._axes import everywhere, take_rows
from ebmjax._checks import check_at_least, leading_size
from ebmjax._precision import at_least_float32
from ebmjax.types import Key, PyTree


def select_particles(
    key: Key,
    positions: PyTree,
    log_densities: jax.Array,
    num: int,
    *,
    policy: Literal["softmax", "argmax", "in_place"] = "softmax",
) -> PyTree:
    """Chooses which ``num`` of n moved particles go back to the buffer.

    They go to the first ``num`` of the drawn slots, which are in random order. The other drawn
    slots keep their chains::

        kept = select_particles(key, particles, log_densities, num)
        buffer = replay_buffer_write(buffer, draw.slots[:num], kept)

    - ``"softmax"``: drawn one after another, without replacement, with probabilities softmax(log
      densities). This is the thesis's default, which does not say with or without. A duplicate
      would never help: equal particles feel equal forces, so SVGD never parts them.
    - ``"argmax"``: the ``num`` of highest log density.
    - ``"in_place"``: the first ``num``, each back to its slot, whatever its density.

    At ``num = n`` every policy keeps every particle, and softmax and argmax only reorder them.
    A particle whose log density is not finite is chosen last.

    Args:
      key: consumed by ``"softmax"``.
      positions: PyTree with leading axis n.
      log_densities: (n,), the thesis's "energies" with the opposite sign.
      num: at most n (static).
      policy: one of the three (static).

    Returns:
      PyTree with leading axis ``num``.

    Source: SVGD-in-JEM thesis, section 3.3.1, phase two (which gives no formula).
    """
    num_particles = leading_size("positions", positions)
    if jnp.shape(log_densities) != (num_particles,):
        raise ValueError(
            f"log_densities must be one for each of {num_particles} particles, got shape "
            f"{jnp.shape(log_densities)}."
        )
    check_at_least("num", num, 1)
    if num > num_particles:
        raise ValueError(f"num must be at most the {num_particles} particles, got num={num}.")

    log_densities = everywhere(log_densities)
    usable = jnp.where(jnp.isfinite(log_densities), log_densities, -jnp.inf)
    if policy == "in_place":
        chosen = jnp.arange(num)
    elif policy == "argmax":
        chosen = jax.lax.top_k(usable, num)[1]
    elif policy == "softmax":
        # The largest of log weight + Gumbel noise are draws without replacement. In bfloat16 they
        # would tie, and ties favour low indices.
        usable = at_least_float32(usable)
        gumbel = jax.random.gumbel(key, usable.shape, usable.dtype)
        chosen = jax.lax.top_k(usable + gumbel, num)[1]
    else:
        raise ValueError(f"policy must be 'softmax', 'argmax' or 'in_place', got {policy!r}.")
    return jax.tree.map(lambda leaf: take_rows(leaf, chosen), positions)
