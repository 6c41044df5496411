"""States of samplers, ours and others': where a chain stands, the vectors it carries, checks."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_floating, leading_size
from ebmjax.types import PyTree

POSITIONS = ("particles", "position")
GRADIENTS = ("score", "logdensity_grad")
VELOCITIES = ("velocity", "momentum")
EVEN = ("log_density", "logdensity", "slice")
"""Names that states here and in BlackJAX give to their fields. Gradients and velocities change sign
with their coordinate. A state names in its attribute ``even`` what else is like its position and
does not."""

Turn = Callable[[PyTree, PyTree], PyTree]


def position_of(state: Any) -> PyTree:
    """Returns the position or particles of a state, or of the one state that it holds."""
    for name in POSITIONS:
        if hasattr(state, name):
            return getattr(state, name)
    found = _positions(state)
    if len(found) != 1:
        check_state(state, "position")
    return found[0]


def acceptance_of(info: Any) -> Any:
    """Returns ``info.acceptance_prob``, or BlackJAX's ``acceptance_rate``; None without either."""
    return getattr(info, "acceptance_prob", getattr(info, "acceptance_rate", None))


def map_state(
    state: Any,
    *,
    position: Callable[[PyTree], PyTree] = lambda position: position,
    gradient: Turn = lambda position, gradient: gradient,
    velocity: Turn = lambda position, velocity: velocity,
) -> Any:
    """Returns ``state`` with its position and the vectors at it replaced, also in states inside it.

    ``gradient`` and ``velocity`` take the old position, too. Raises TypeError if there is no
    position, or an array of numbers that has none of the names above and is not in ``even`` of its
    state: no array is left as it is because its name is new.
    """
    if not _positions(state):
        raise TypeError(
            f"a wrapper finds no field named {' or '.join(POSITIONS)} in {type(state).__name__}. "
            "Let the state be a NamedTuple, a dictionary, or a dataclass of register_dataclass."
        )
    turns = dict.fromkeys(GRADIENTS, gradient) | dict.fromkeys(VELOCITIES, velocity)

    def visit(node: Any, outer: Any) -> Any:
        names, parts, structure = _fields(node)
        even = (*EVEN, *getattr(node, "even", ()))
        own = next((name for name in POSITIONS if name in names), "")
        found = _positions(node)
        here = found[0] if len(found) == 1 else outer

        def replaced(name: Any, part: Any) -> Any:
            if name == own:
                return position(part)
            if name in even or part is None:
                return part
            is_like = jax.tree.map(jnp.shape, part) == jax.tree.map(jnp.shape, here)
            if name in turns and is_like:
                return turns[name](here, part)
            if not jax.tree_util.all_leaves([part]):
                return visit(part, here)
            # A scalar is a coordinate only where the position is one.
            is_scalar = jnp.ndim(part) == 0 and not is_like
            if is_scalar or not jnp.issubdtype(jnp.result_type(part), jnp.inexact):
                return part
            raise TypeError(
                f"a wrapper cannot tell what to do with {type(node).__name__}.{name} of shape "
                f"{jnp.shape(part)}. Name a gradient score, a velocity velocity or momentum, of "
                f"the position's shape, or an array that no mirror changes in even = ({name!r},)."
            )

        return structure.unflatten(map(replaced, names, parts))

    return visit(state, None)


def memory_of(state: Any, names: Iterable[str]) -> dict[str, PyTree]:
    """Returns the fields ``names`` of a state by name, also of states inside it."""
    found: dict[str, PyTree] = {}
    _map_fields(state, {name: partial(found.setdefault, name) for name in names})
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(
            f"memory must name fields of the sampler's state, and {type(state).__name__} has no "
            f"{missing}; it has {[name for name in _fields(state)[0] if name not in POSITIONS]}."
        )
    return found


def with_memory(state: Any, memory: Mapping[str, PyTree]) -> Any:
    """Returns ``state`` with the fields of ``memory``, which are also found in states inside it."""
    return _map_fields(state, {name: lambda _, new=new: new for name, new in memory.items()})


def _map_fields(state: Any, change: Mapping[str, Callable[[PyTree], PyTree]]) -> Any:
    names, parts, structure = _fields(state)

    def changed(name: Any, part: Any) -> Any:
        if name in change:
            return change[name](part)
        return part if name in (*POSITIONS, *GRADIENTS) else _map_fields(part, change)

    return structure.unflatten(map(changed, names, parts)) if names else state


def _fields(node: Any) -> tuple[list[Any], list[Any], Any]:
    """Returns the names and values of a state's fields, and what makes a state of values.

    A leaf has no fields.
    """
    if node is None or jax.tree_util.all_leaves([node]):
        return [], [], None
    pairs, structure = jax.tree_util.tree_flatten_with_path(node, lambda part: part is not node)
    keys = [path[0] for path, _ in pairs]
    names = [getattr(key, "name", getattr(key, "key", None)) for key in keys]
    return names, [part for _, part in pairs], structure


def _positions(node: Any) -> list[PyTree]:
    """Returns the positions in the states that ``node`` is or holds."""
    names, parts, _ = _fields(node)
    own = [parts[names.index(name)] for name in POSITIONS if name in names]
    return own[:1] or [position for part in parts for position in _positions(part)]


def check_state(state: Any, *fields: str) -> None:
    """Raises TypeError for a state without ``fields``, ValueError for the states of many chains."""
    if not all(hasattr(state, field) for field in fields):
        raise TypeError(
            f"state must be what the sampler's init(position) returns, with {', '.join(fields)}; "
            f"got {type(state).__name__}. Call init on the position first."
        )
    if "log_density" in fields and jnp.shape(state.log_density) != ():
        raise ValueError(
            f"state must be that of one chain, but its log_density has shape "
            f"{jnp.shape(state.log_density)}: these are the states of many. Step them with "
            "ebmjax.samplers.batch_step(step)."
        )


def check_particles(particles: PyTree) -> None:
    """Raises TypeError or ValueError unless leaves are floating point with one leading axis."""
    check_floating("particles", particles)
    if getattr(particles, "ndim", 0) == 1:
        raise ValueError(
            f"particles must have an axis of particles and one of coordinates, shape (n, d), got "
            f"shape {particles.shape}. Write x[:, None] for n particles, x[None] for one. For "
            "chains that move independently, use a sampler of one position, such as sgld."
        )
    if leading_size("particles", particles) == 0:
        raise ValueError("particles must hold at least one particle, got a leading size of 0.")
