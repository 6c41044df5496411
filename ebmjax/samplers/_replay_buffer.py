"""A replay buffer, which keeps persistent chains between training steps."""

from typing import Any, Literal, NamedTuple

import jax
import jax.core
import jax.numpy as jnp

from ebmjax._axes import everywhere, rows_like, set_rows, take_rows
from ebmjax._checks import check_at_least, check_fraction, check_labels, leading_size
from ebmjax._precision import at_least_float32
from ebmjax.samplers._starts import StartFn, check_start_fn
from ebmjax.types import Key, PyTree


class ReplayBuffer(NamedTuple):
    """Positions of waiting chains, one a slot.

    Attributes:
      positions: PyTree whose leaves share a leading axis of slots. With class labels, equal
        contiguous blocks of slots belong to classes 0, 1, ...
    """

    positions: PyTree


class Draw(NamedTuple):
    """Starts of ``num`` chains, and where they came from.

    Attributes:
      positions: PyTree with leading axis ``num``.
      slots: (num,) int32, all different, in random order. If a traced label is out of range, the
        entry is the number of slots, where nothing is written.
      labels: (num,) int32, the requested class. Without class labels, a new position has the class
        that it starts from; the others have the class of their slot's block.
      is_new: (num,) bool, true where the position is fresh from the start distribution.
    """

    positions: PyTree
    slots: jax.Array
    labels: jax.Array
    is_new: jax.Array


def replay_buffer_init(
    key: Key, size: int, start_fn: StartFn, *, num_classes: int = 1
) -> ReplayBuffer:
    """Fills a buffer from the start distribution, slot i with class ``i * num_classes // size``.

    Args:
      key: split into one for each slot.
      size: number of slots.
      start_fn: ``start_fn(key, label) -> position``.
      num_classes: number of class blocks, which divides ``size``; 1 where there are no classes.
    """
    check_at_least("size", size, 1)
    check_start_fn(start_fn)
    block_size = _block_size(size, num_classes)
    keys = jax.random.split(key, (num_classes, block_size))

    # Class by class: the draws of a class share its constants, in one matrix product.
    def fill_block(keys_and_label: tuple[Key, jax.Array]) -> PyTree:
        return jax.vmap(start_fn, in_axes=(0, None))(*keys_and_label)

    inputs = keys, jnp.arange(num_classes, dtype=jnp.int32)
    blocks = jax.lax.map(fill_block, inputs)
    return ReplayBuffer(jax.tree.map(lambda leaf: leaf.reshape(size, *leaf.shape[2:]), blocks))


def replay_buffer_draw(
    key: Key,
    buffer: ReplayBuffer,
    num: int,
    start_fn: StartFn,
    *,
    num_classes: int = 1,
    reinit_prob: Any,
    labels: Any = None,
) -> Draw:
    """Takes ``num`` chains from different slots; each starts anew with ``reinit_prob``.

    The buffer is only read: ``replay_buffer_write`` puts the moved chains back, new ones included.
    Slots are drawn uniformly without replacement in O(num log num) work; ``start_fn`` is called for
    new slots only.

    Args:
      key: consumed.
      buffer: from ``replay_buffer_init``.
      num: chains to draw, at most as many as there are slots (static). With labels, at most a class
        block, because a batch may have one class only.
      start_fn: the start distribution of new positions.
      num_classes: as in ``replay_buffer_init``.
      reinit_prob: probability in [0, 1] of a new start, independently for each slot.
      labels: (num,) integers in [0, num_classes): entry i is then drawn from its class's block,
        without duplicates, or anew by its class. None draws from the whole buffer, and new
        positions of random classes.

    Source: JEM (Grathwohl et al. 2020). JEM draws with replacement and loses one of two chains from
    the same slot; here none is lost.
    """
    size = leading_size("buffer.positions", buffer.positions)
    block_size = _block_size(size, num_classes)
    check_fraction("reinit_prob", reinit_prob)
    check_at_least("num", num, 1)
    available = size if labels is None else block_size  # all labels may be equal
    if num > available:
        whose = "the replay buffer" if labels is None else "one class"
        raise ValueError(f"num must be at most the {available} slots of {whose}, got num={num}.")
    check_start_fn(start_fn, jax.tree.map(lambda leaf: leaf.shape[1:], buffer.positions))

    slots_key, new_key, label_key, start_key = jax.random.split(key, 4)
    is_new = jax.random.bernoulli(new_key, reinit_prob, (num,))
    if labels is None:
        slots = _distinct_slots(slots_key, jnp.zeros(num, jnp.int32), 1, size)
        random_labels = jax.random.randint(label_key, (num,), 0, num_classes, jnp.int32)
        labels = jnp.where(is_new, random_labels, slots // block_size)
    else:
        check_labels("labels", labels, (num,), num_classes)
        labels = everywhere(jnp.asarray(labels, jnp.int32))
        is_class = (labels >= 0) & (labels < num_classes)
        # Labels out of range come after the last class, so they take no slot from it.
        grouped = jnp.where(is_class, labels, num_classes)
        slots = _distinct_slots(slots_key, grouped, num_classes, block_size)
        slots = jnp.where(is_class, slots, size)
    kept = everywhere(jax.tree.map(lambda leaf: take_rows(leaf, slots), buffer.positions))
    positions = _restart(start_key, kept, labels, is_new, start_fn)
    return Draw(rows_like(positions, buffer.positions), slots, labels, is_new)


def replay_buffer_write(buffer: ReplayBuffer, slots: jax.Array, positions: PyTree) -> ReplayBuffer:
    """Overwrites ``slots`` (n,) with ``positions`` (leading axis n), in the buffer's dtypes.

    Under ``jit`` with a donated buffer this happens in place.
    """
    slots = jnp.asarray(slots)
    shapes = jax.tree.map(lambda leaf: slots.shape[:1] + leaf.shape[1:], buffer.positions)
    given = jax.tree.map(jnp.shape, positions)
    if slots.ndim != 1 or given != shapes:
        raise ValueError(
            f"positions must be one for each entry of slots: for slots of shape {slots.shape} this "
            f"buffer takes shapes {shapes}, got {given}."
        )
    return ReplayBuffer(
        jax.tree.map(
            lambda leaf, new: set_rows(leaf, slots, jnp.asarray(new, leaf.dtype)),
            buffer.positions,
            positions,
        )
    )


def select_particles(
    key: Key,
    positions: PyTree,
    log_densities: jax.Array,
    num: int,
    *,
    policy: Literal["softmax", "argmax", "in_place"] = "softmax",
) -> PyTree:
    """Chooses which ``num`` of n moved particles go back to the buffer.

    They go to ``draw.slots[:num]``, which are in random order; the other slots keep their chains.

    - ``"softmax"``: drawn with probabilities softmax(log densities), the thesis's default, without
      replacement: equal particles feel equal forces, so SVGD never parts duplicates.
    - ``"argmax"``: the ``num`` of highest log density.
    - ``"in_place"``: the first ``num``, each back to its slot, whatever its density.

    A particle whose log density is not finite is chosen last.

    Args:
      key: consumed by ``"softmax"``.
      positions: PyTree with leading axis n.
      log_densities: (n,), the thesis's "energies" with the opposite sign.
      num: at most n (static).
      policy: one of the three (static).

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


def _distinct_slots(key: Key, labels: jax.Array, num_classes: int, block_size: int) -> jax.Array:
    """Returns a slot of its block for each label, no slot twice; all choices are equally likely.

    It is Floyd's algorithm, all steps at once. To choose n slots of B, step r = 0, ..., n - 1 draws
    t uniformly from 0, ..., j with j = B - n + r, and takes t, or j if t was taken before. Steps
    that take what others had to leave form a chain, followed to its end by doubling.
    """
    order_key, draw_key = jax.random.split(key)
    step = jnp.arange(len(labels), dtype=jnp.int32)
    # Class by class, and in random order within a class.
    bits = jax.random.bits(order_key, labels.shape)
    groups, _, order = jax.lax.sort((labels, bits, step), num_keys=2)
    counts = jnp.bincount(labels, length=num_classes).astype(jnp.int32)
    first = (jnp.cumsum(counts, dtype=jnp.int32) - counts)[groups]
    smallest_j = block_size - counts[groups]
    j = smallest_j + step - first

    t = jax.random.randint(draw_key, j.shape, 0, j + 1, j.dtype)
    link = jnp.where((t >= smallest_j) & (t < j), first + t - smallest_j, step)
    sorted_slots, by_slot = jax.lax.sort((groups * block_size + t, step), num_keys=2)
    repeats = jnp.concatenate([jnp.zeros(1, bool), sorted_slots[1:] == sorted_slots[:-1]])
    is_taken = jnp.zeros_like(repeats).at[by_slot].set(repeats)
    for _ in range((len(labels) - 1).bit_length()):
        is_taken, link = is_taken | is_taken[link], link[link]
    slots = groups * block_size + jnp.where(is_taken, j, t)
    return jnp.zeros_like(slots).at[order].set(slots)


def _restart(key: Key, positions: PyTree, labels: Any, is_new: Any, start_fn: StartFn) -> PyTree:
    """Returns ``positions`` with fresh draws where ``is_new``; does no work elsewhere."""
    (new_entries,) = jnp.nonzero(is_new, size=len(is_new), fill_value=0)

    def restart_one(i: jax.Array, carry: tuple[Key, PyTree]) -> tuple[Key, PyTree]:
        key, positions = carry
        key, start_key = jax.random.split(key)
        entry = new_entries[i]
        fresh = start_fn(start_key, labels[entry])
        return key, jax.tree.map(lambda x, y: x.at[entry].set(y.astype(x.dtype)), positions, fresh)

    return jax.lax.fori_loop(0, jnp.sum(is_new), restart_one, (key, positions))[1]


def _block_size(size: int, num_classes: int) -> int:
    check_at_least("num_classes", num_classes, 1)
    if size % num_classes:
        raise ValueError(
            f"num_classes must divide the buffer into equal class blocks, got "
            f"num_classes={num_classes} and size={size}."
        )
    return size // num_classes
