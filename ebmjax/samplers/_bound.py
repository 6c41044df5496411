"""The bound form of a sampler, made from its two functions."""

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, cast, get_args

from ebmjax.types import Info, Key, PyTree, Sampler, State

P = ParamSpec("P")


class BoundForm(Protocol, Generic[P, State, Info]):
    """A function of a log density and hyperparameters that returns a ``Sampler``.

    Attributes:
      rejects: whether the sampler takes moves back.
      adapts: whether its step size can adapt to the acceptance that it reports.
      interacts: whether it moves all chains as one system of particles.
      memory: fields of its state that chains keep beside their position, such as a velocity.
    """

    __name__: str
    rejects: bool
    adapts: bool
    interacts: bool
    memory: tuple[str, ...]

    def __call__(self, *densities: P.args, **options: P.kwargs) -> Sampler[State, Info]:
        """Returns the sampler."""
        ...


def bound(
    init: Callable[..., State],
    step: Callable[Concatenate[Key, State, P], tuple[State, Info]],
    *,
    rejects: bool = False,
    adapts: bool = False,
    interacts: bool = False,
    memory: tuple[str, ...] = (),
) -> BoundForm[P, State, Info]:
    """Makes a function that binds ``init`` and ``step`` to a density and hyperparameters.

    ``init`` takes a key first where it draws; its options are the bound form's, too. Signature and
    docstring are those of ``step``, without key and state.
    """
    of_init, of_step = (inspect.signature(function).parameters for function in (init, step))
    draws = "key" in of_init
    both = [one for name, one in of_step.items() if name not in ("key", "state")]
    both += [one for one in of_init.values() if one.kind is one.KEYWORD_ONLY]
    returned = cast(Any, Sampler)[get_args(inspect.signature(step).return_annotation)]
    signature = inspect.Signature(
        list({one.name: one for one in both}.values()), return_annotation=returned
    )

    def sampler(*densities: Any, **options: Any) -> Sampler[State, Info]:
        given = signature.bind(*densities, **options)
        first, others = (
            {name: value for name, value in given.kwargs.items() if name in known}
            for known in (of_init, of_step)
        )

        def bound_init(position: PyTree, key: Key | None = None) -> State:
            if not draws:
                return init(position, *given.args, **first)
            if key is None:
                raise TypeError(
                    "init of this sampler draws, and needs a key: init(position, key), with "
                    "jax.vmap(init)(positions, keys) for many chains; got None."
                )
            return init(key, position, *given.args, **first)

        def bound_step(key: Key, state: State) -> tuple[State, Info]:
            return cast(Any, step)(key, state, *given.args, **others)

        return Sampler(bound_init, bound_step)

    named = cast(Any, sampler)
    named.__signature__, named.__doc__ = signature, step.__doc__
    named.__annotations__ = {one.name: one.annotation for one in both} | {"return": returned}
    named.__name__ = named.__qualname__ = step.__name__.removesuffix("_step")
    named.__module__ = step.__module__
    named.rejects, named.adapts = rejects, adapts
    named.interacts, named.memory = interacts, memory
    return named
