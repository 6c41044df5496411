"""From the functional form of a sampler to its bound form."""

from collections.abc import Callable
from typing import Any

from ebmjax.types import Info, Key, LogDensityFn, PyTree, Sampler, State


def bind(
    init: Callable[[PyTree, LogDensityFn], State],
    step: Callable[..., tuple[State, Info]],
    log_density_fn: LogDensityFn,
    **hyperparameters: Any,
) -> Sampler[State, Info]:
    """Binds ``<name>_init`` and ``<name>_step`` to a density and hyperparameters.

    The bound ``init`` ignores the key that BlackJAX's drivers pass, because nothing is drawn there.
    """

    def bound_init(position: PyTree, key: Key | None = None) -> State:
        del key
        return init(position, log_density_fn)

    def bound_step(key: Key, state: State) -> tuple[State, Info]:
        return step(key, state, log_density_fn, **hyperparameters)

    return Sampler(bound_init, bound_step)
