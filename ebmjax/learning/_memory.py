"""Memory of samplers from one training step to the next, beside the positions of the buffer."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ebmjax.learning._plan import ChainKind, ChainPlan
from ebmjax.samplers import StartFn, memory_of, start_chain
from ebmjax.types import Key, PyTree


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
