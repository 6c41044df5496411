"""Plan of the negatives of a training step, their starts, and what is kept between steps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._axes import AxisName
from ebmjax._checks import check_at_least, check_fraction, check_not_negative, check_positive
from ebmjax._dual_averaging import DualAveraging, dual_averaging_init
from ebmjax.samplers import (
    StartFn,
    check_start_fn,
    memory_of,
    replay_buffer_draw,
    replay_buffer_init,
    start_chain,
)
from ebmjax.types import Key, LogDensityFn, PyTree, Sampler

OF_A_DENSITY = frozenset(
    ("position", "particles", "score", "log_density", "logdensity_grad", "logdensity")
)
"""Fields of states that no memory may name."""


@dataclass(frozen=True, kw_only=True)
class ChainKind:
    """A sampler, and how its chains run.

    Attributes:
      sampler: from a log density to a ``Sampler`` (or a BlackJAX ``SamplingAlgorithm``), such as
        ``functools.partial(sgld, step_size=1.0, noise_scale=0.01)``. Where the step size adapts it
        is called with ``step_size=`` too.
      num_steps: of each chain, at least 1.
      is_interacting: whether ``sampler`` moves all samples at once (SVGD) instead of one chain.
      axis_name: mapped axis, or axes, over which the interacting samples of all shards are one
        system; ``sampler`` takes it by this name. It is ("data", "shard") in training, "shard" in a
        step without a mesh axis. None for a system in every shard.
      target_acceptance: in (0, 1], what the step size adapts to; None leaves it to ``sampler``.
      step_size: where adaptation starts.
      min_step_size: below it adaptation does not go.
      memory: names of the state's fields that a chain keeps in the buffer, from one training step
        to the next: ("velocity",) of ``underdamped_langevin``, ("second_moment",) of ``psgld``. The
        sampler's ``init`` sets them without the density, which changes in between. () keeps
        positions alone, as it must for particles that interact; other fields start anew.
    """

    sampler: Callable[..., Sampler]
    num_steps: int
    is_interacting: bool = False
    axis_name: AxisName = None
    target_acceptance: float | None = None
    step_size: float = 1.0
    min_step_size: float = 0.0
    memory: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_at_least("num_steps", self.num_steps, 1)
        check_positive("step_size", self.step_size)
        check_not_negative("min_step_size", self.min_step_size)
        if self.memory and self.is_interacting:
            raise ValueError(
                f"memory must be () where is_interacting is True, got {self.memory!r}: every step "
                "draws other particles, which are another system."
            )
        if OF_A_DENSITY & {*self.memory}:
            raise ValueError(
                f"memory must not name {sorted(OF_A_DENSITY)}, which belong to the density that a "
                f"training step changes, or are kept anyway; got {self.memory!r}."
            )
        if self.target_acceptance is not None:
            check_positive("target_acceptance", self.target_acceptance)
            check_fraction("target_acceptance", self.target_acceptance)


@dataclass(frozen=True, kw_only=True)
class ChainPlan:
    """The plan by which a training step draws its negatives.

    Attributes:
      kinds: samplers by name; each moves an equal part of the chains. Which chains is drawn anew
        at every step, so that over time each slot of the buffer is moved by all of them.
      num_samples: chains (or particles) of a logical shard, a multiple of the number of kinds.
      start_fn: the start distribution of chains that start anew.
      reinit_prob: of each chain that comes from the buffer, in [0, 1].
      num_classes: classes that ``start_fn`` knows: the buffer starts with as many of each, and
        chains of no class that start anew take a random one. 1 without classes.
      augment: ``augment(key, starts) -> starts`` of chains that go on from the buffer, such as
        ``ebmjax.data.augment_starts``; None for none.
      replacement: which of the moved samples go back to the buffer, see ``select_particles``.
      num_kept: how many of them; None for all.
      log_base: log density that the samplers add to the one they follow, in its units: T log q(x)
        of one position for ``tilted_langevin``. Training does not need it; whoever scores data by
        the density of the chains adds it. None for samplers that add none.
    """

    kinds: Mapping[str, ChainKind]
    num_samples: int
    start_fn: StartFn
    reinit_prob: float
    num_classes: int = 1
    augment: Callable[[Key, jax.Array], jax.Array] | None = None
    replacement: Literal["in_place", "softmax", "argmax"] = "in_place"
    num_kept: int | None = None
    log_base: LogDensityFn | None = None

    def __post_init__(self) -> None:
        for name in ("num_samples", "num_classes"):
            check_at_least(name, getattr(self, name), 1)
        check_fraction("reinit_prob", self.reinit_prob)
        if not self.kinds or self.num_samples % len(self.kinds):
            raise ValueError(
                "num_samples must be a multiple of the number of kinds, of which there is at "
                f"least one; got num_samples={self.num_samples} and kinds {list(self.kinds)}."
            )
        if self.num_kept is not None:
            check_at_least("num_kept", self.num_kept, 1)
            if self.num_kept > self.num_samples:
                raise ValueError(
                    f"num_kept must be at most num_samples={self.num_samples}, got {self.num_kept}."
                )

    @property
    def is_interacting(self) -> bool:
        """True if some kind moves particles together; they belong to no class."""
        return any(kind.is_interacting for kind in self.kinds.values())

    def kinds_at(self, adaptation: Mapping[str, DualAveraging]) -> dict[str, ChainKind]:
        """The kinds, at the step sizes that ``adaptation`` has reached."""
        kinds = dict(self.kinds)
        for name, state in adaptation.items():
            made = partial(kinds[name].sampler, step_size=jnp.exp(state.log_step_size))
            kinds[name] = replace(kinds[name], sampler=made)
        return kinds

    def single(self, num_samples: int, num_steps: int | None = None) -> "ChainPlan":
        """The plan outside of training: no axes, other numbers of chains and of their steps.

        Args:
          num_samples: chains.
          num_steps: of each chain; None leaves it.
        """
        length = {} if num_steps is None else {"num_steps": num_steps}
        kinds = {n: replace(kind, axis_name=None, **length) for n, kind in self.kinds.items()}
        return replace(self, kinds=kinds, num_samples=num_samples, num_kept=None)


class Chain(NamedTuple):
    """A chain between training steps, or many of them: a row of the replay buffer.

    Attributes:
      position: where it stands.
      memory: fields of its sampler's state by name, such as a velocity.
    """

    position: PyTree
    memory: dict[str, PyTree]


def positions_in(chains: PyTree) -> PyTree:
    """Returns the positions of ``Chain`` rows; of a plan without memory, the rows themselves."""
    return chains.position if isinstance(chains, Chain) else chains


def chain_start(plan: ChainPlan) -> StartFn:
    """Returns what draws new rows of the buffer: ``plan.start_fn``, with the memory of ``init``.

    Kinds that remember a field of the same name share it. A kind leaves the fields of others.
    """
    kinds = [kind for kind in plan.kinds.values() if kind.memory]
    if not kinds:
        return plan.start_fn

    def draw(key: Key, label: jax.Array) -> Chain:
        key, *keys = jax.random.split(key, 1 + len(kinds))
        position, memory = plan.start_fn(key, label), {}
        for key, kind in zip(keys, kinds, strict=True):
            # No density decides what a state remembers, so that any serves.
            state = start_chain(key, kind.sampler(lambda position: jnp.zeros(())), position)
            memory = memory_of(state, kind.memory) | memory
        return Chain(position, memory)

    return draw


class Carry(NamedTuple):
    """State that a logical shard keeps between steps.

    Attributes:
      buffer: its replay buffer, of positions, or of ``Chain`` rows where a kind of chain has a
        memory; () where every chain starts anew.
      statistics: running averages of batch normalisation.
      smoothing: scalar alpha, which divides the log density in sampler and loss.
      step: scalar int32, steps that were not skipped.
      adaptation: step sizes that adapt, by the name of their kind of chain.
    """

    buffer: Any = ()
    statistics: PyTree = ()
    smoothing: Any = 1.0
    step: Any = 0
    adaptation: Any = ()


def init_carry(
    key: Key,
    plan: ChainPlan | None,
    *,
    num_shards: int,
    buffer_size: int = 0,
    statistics: PyTree = (),
    smoothing: float = 1.0,
) -> Carry:
    """Returns the carry of every logical shard before the first step, for ``init_state``.

    Args:
      key: split among the shards.
      plan: how negatives are drawn; None for a model without any.
      num_shards: logical shards.
      buffer_size: slots of all shards; 0 for chains that start anew at every step.
      statistics: from ``Network.init``, the same for all shards.
      smoothing: positive.

    Returns:
      Each leaf with a leading axis of ``num_shards``.
    """
    check_at_least("num_shards", num_shards, 1)
    check_at_least("buffer_size", buffer_size, 0)
    check_positive("smoothing", smoothing)
    carry = Carry(
        statistics=statistics,
        smoothing=jnp.float32(smoothing),
        step=jnp.int32(0),
        adaptation={
            name: dual_averaging_init(kind.step_size)
            for name, kind in (plan.kinds.items() if plan else ())
            if kind.target_acceptance is not None
        },
    )
    carry = jax.tree.map(lambda leaf: jnp.stack([leaf] * num_shards), carry)
    if plan is None or not buffer_size:
        return carry
    size = buffer_size // num_shards
    if buffer_size % num_shards:
        raise ValueError(
            f"buffer_size must be a multiple of num_shards={num_shards}, got {buffer_size}."
        )
    if size < plan.num_samples:
        raise ValueError(
            f"buffer_size must hold the {plan.num_samples} negatives of each of {num_shards} "
            f"shards, at least {plan.num_samples * num_shards} slots; got {buffer_size}."
        )
    buffers = [
        replay_buffer_init(key, size, chain_start(plan), num_classes=plan.num_classes)
        for key in jax.random.split(key, num_shards)
    ]
    return carry._replace(buffer=jax.tree.map(lambda *leaves: jnp.stack(leaves), *buffers))


class Starts(NamedTuple):
    """Starts of the chains of a step.

    Attributes:
      positions: leading axis of ``ChainPlan.num_samples``; ``Chain`` rows from a buffer of them.
      labels: (num_samples,) int32, of the classes that chains belong to or were drawn from.
      slots: (num_samples,) int32, of the buffer; None where there is none.
      others: positions in other slots of the buffer, none of them a start; None if not asked for.
    """

    positions: PyTree
    labels: jax.Array
    slots: jax.Array | None = None
    others: PyTree = None


def draw_starts(
    keys: tuple[Key, Key, Key],
    plan: ChainPlan,
    buffer: Any,
    *,
    is_conditional: bool,
    num_others: int,
    shapes: PyTree,
) -> Starts:
    """Draws starts from the buffer, or from the plan's start distribution where there is no buffer.

    Args:
      keys: three, consumed by classes, by slots and new positions, and by ``plan.augment``.
      plan: how many, and from which start distribution.
      buffer: of this shard; () for none.
      is_conditional: whether each chain belongs to a class, drawn uniformly here. The buffer is
        then partitioned by class.
      num_others: slots beside those of the starts.
      shapes: those that a start must have.
    """
    label_key, draw_key, augment_key = keys
    if is_conditional and plan.replacement != "in_place":
        raise ValueError(
            f"replacement={plan.replacement!r} reorders samples, which would carry them into the "
            "slots of other classes; a conditional model takes 'in_place'."
        )
    check_start_fn(plan.start_fn, shapes)
    num, has_buffer = plan.num_samples, bool(jax.tree.leaves(buffer))
    if num_others and not has_buffer:
        raise ValueError("live chains need a replay buffer, whose images they keep from.")
    labels = None
    if is_conditional or not has_buffer:
        labels = jax.random.randint(label_key, (num + num_others,), 0, plan.num_classes)
    if not has_buffer:
        assert labels is not None
        return Starts(jax.vmap(plan.start_fn)(jax.random.split(draw_key, num), labels), labels)
    draw = replay_buffer_draw(
        draw_key,
        buffer,
        num + num_others,
        chain_start(plan),
        num_classes=plan.num_classes,
        reinit_prob=plan.reinit_prob,
        labels=labels,
    )
    chains, others = draw.positions, None
    if num_others:
        chains = jax.tree.map(lambda leaf: leaf[:num], chains)
        waiting = positions_in(buffer.positions)
        others = jax.tree.map(lambda leaf: leaf[draw.slots[num:]], waiting)
    if plan.augment is not None:
        kept = positions_in(chains)
        is_new = draw.is_new[:num].reshape((num,) + (1,) * (kept.ndim - 1))
        changed = jnp.where(is_new, kept, plan.augment(augment_key, kept))
        chains = chains._replace(position=changed) if isinstance(chains, Chain) else changed
    return Starts(chains, draw.labels[:num], draw.slots[:num], others)
