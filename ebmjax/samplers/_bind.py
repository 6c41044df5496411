"""From the functional form of a sampler to its bound form."""

from collections.abc import Callable
from typing import Any

from ebmjax.types import Info, Key, LogDensityFn, PyTree, Sampler, State


def bind(
    init: Callable[..., State],
    step: Callable[..., tuple[State, Info]],
    log_density_fn: LogDensityFn,
    *,
    draws: bool = False,
    **hyperparameters: Any,
) -> Sampler[State, Info]:
    """Binds ``<name>_init`` and ``<name>_step`` to a density and hyperparameters.

    Args:
      init: ``init(position, log_density_fn)``, or ``init(key, position, log_density_fn)``.
      step: ``step(key, state, log_density_fn, **hyperparameters)``.
      log_density_fn: position to scalar.
      draws: whether ``init`` takes a key. If not, the bound ``init`` ignores the key that
        ``start_chain`` and BlackJAX's drivers pass.
      **hyperparameters: of ``step``.
    """

    def bound_init(position: PyTree, key: Key | None = None) -> State:
        if not draws:
            return init(position, log_density_fn)
        if key is None:
            raise TypeError(
                "init of this sampler draws, and needs a key: init(position, key), with "
                "jax.vmap(init)(positions, keys) for many chains; got None."
            )
        return init(key, position, log_density_fn)

    def bound_step(key: Key, state: State) -> tuple[State, Info]:
        return step(key, state, log_density_fn, **hyperparameters)

    return Sampler(bound_init, bound_step)
