"""Plan of the negatives of a training step: kinds of chains, and what is kept of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._axes import AxisName
from ebmjax._checks import check_at_least, check_fraction, check_not_negative, check_positive
from ebmjax._dual_averaging import DualAveraging, dual_averaging_init
from ebmjax.samplers import StartFn, memory_of, start_chain
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

    def init_adaptation(self) -> dict[str, DualAveraging]:
        """The step sizes that adapt, by the name of their kind."""
        return {
            name: dual_averaging_init(kind.step_size)
            for name, kind in self.kinds.items()
            if kind.target_acceptance is not None
        }

    def kinds_at(self, adaptation: Mapping[str, DualAveraging]) -> dict[str, ChainKind]:
        """The kinds, at the step sizes that ``adaptation`` has reached."""
        kinds = dict(self.kinds)
        for name, state in adaptation.items():
            made = partial(kinds[name].sampler, step_size=step_size(state))
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


def step_size(state: DualAveraging) -> jax.Array:
    """The step size of the next chains, a scalar."""
    return jnp.exp(state.log_step_size)


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


def with_positions(chains: PyTree, positions: PyTree) -> PyTree:
    """Returns ``chains`` at other positions, with the memory that they have."""
    return chains._replace(position=positions) if isinstance(chains, Chain) else positions


def chain_start(plan: ChainPlan) -> StartFn:
    """Returns what draws new rows of the buffer: ``plan.start_fn``, with the memory of ``init``.

    Kinds that remember a field of the same name share it. A kind leaves the fields of others.
    """
    kinds = [kind for kind in plan.kinds.values() if kind.memory]
    return _with_memory(plan.start_fn, kinds) if kinds else plan.start_fn


def _with_memory(start_fn: StartFn, kinds: Sequence[ChainKind]) -> StartFn:
    def draw(key: Key, label: jax.Array) -> Chain:
        key, *keys = jax.random.split(key, 1 + len(kinds))
        position, memory = start_fn(key, label), {}
        for key, kind in zip(keys, kinds, strict=True):
            # No density decides what a state remembers, so that any serves.
            state = start_chain(key, kind.sampler(lambda position: jnp.zeros(())), position)
            memory = memory_of(state, kind.memory) | memory
        return Chain(position, memory)

    return draw
