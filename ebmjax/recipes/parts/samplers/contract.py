"""The contract of a sampler that a user's function makes."""

import functools
import inspect
from typing import TYPE_CHECKING, Any

from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.config.user_parts import UserPart

if TYPE_CHECKING:
    from ebmjax.types import Sampler


def hold_to_contract(part: UserPart, made: Any) -> "Sampler[Any, Any]":
    """Returns the sampler ``made`` by a user's function; its mistakes name the contract.

    Raises:
      ConfigError: if it is no sampler, at once or when a chain starts or moves.
    """
    from ebmjax.types import Sampler  # late: configurations are read without JAX

    must = f"config.{part.field}={part.name!r} must return a sampler with"
    for name, given in {"init": ("position",), "step": ("key", "state")}.items():
        function = getattr(made, name, None)
        try:
            bound = inspect.signature(function).bind(*given)  # pyright: ignore[reportArgumentType]
            if next(iter(bound.arguments)) in given[1:]:
                raise TypeError("the arguments are swapped")
        except TypeError as error:
            has = (
                f"its {name} has the arguments {inspect.signature(function)}"
                if callable(function)
                else f"got a {type(made).__name__}"
            )
            raise ConfigError(
                f"{must} init(position) and step(key, state), such as ebmjax.types.Sampler; {has}."
            ) from error

    @functools.wraps(made.init)
    def init(*given: Any) -> Any:
        with part.explain():
            state = made.init(*given)
        if not hasattr(state, "position") and not hasattr(state, "particles"):
            raise ConfigError(
                f"{must} init(position) -> state, which has a field position; got a "
                f"{type(state).__name__}."
            )
        return state

    @functools.wraps(made.step)
    def step(key: Any, state: Any) -> Any:
        with part.explain(" It is called as step(key, state)."):
            found = made.step(key, state)
        if not isinstance(found, tuple) or len(found) != 2 or type(found) is type(state):
            raise ConfigError(
                f"{must} step(key, state) -> (state, info); got a {type(found).__name__}."
            )
        before, after = (_shapes(one) for one in (state, found[0]))
        if before != after:
            raise ConfigError(
                f"{must} step(key, state), whose positions keep their shape and dtype; got {after} "
                f"from {before}."
            )
        return found

    return Sampler(init, step)


def _shapes(state: Any) -> Any:
    """Returns the shapes and dtypes of a state's positions."""
    import jax
    import jax.numpy as jnp

    from ebmjax.samplers import position_of

    describe = lambda leaf: f"{jnp.result_type(leaf)}{[*jnp.shape(leaf)]}"  # noqa: E731
    return jax.tree.map(describe, position_of(state))
