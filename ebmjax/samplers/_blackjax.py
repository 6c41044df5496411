"""Our samplers in the form that BlackJAX's adaptation takes; BlackJAX itself is not needed."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ebmjax.samplers._states import acceptance_of, memory_of, position_of
from ebmjax.types import Key, LogDensityFn, PyTree, Sampler


class BlackJAXState(NamedTuple):
    """A sampler's state with what BlackJAX's adaptation reads, under its names."""

    inner: Any
    position: PyTree
    logdensity_grad: PyTree


class BlackJAXInfo(NamedTuple):
    """A sampler's acceptance probability under BlackJAX's name."""

    acceptance_rate: jax.Array


def _named(state: Any) -> BlackJAXState:
    return BlackJAXState(state, position_of(state), memory_of(state, ["score"])["score"])


class BlackJAXAlgorithm(NamedTuple):
    """A sampler in the form that BlackJAX's ``window_adaptation`` takes; ``blackjax_algorithm``.

    Give it to ``blackjax.window_adaptation(algorithm, log_density_fn,
    target_acceptance_rate=0.574)``. Called with a log density and what the adaptation found, it
    returns the ``Sampler`` to draw with. Its step of a coordinate is ``step_size`` times the
    coordinate's entry of the diagonal ``inverse_mass_matrix``.

    Attributes:
      make: the bound form of a sampler of one chain that accepts or rejects and whose state has a
        ``score``: ``mala``, also in wrappers or with ``functools.partial``.
    """

    make: Callable[..., Sampler]

    def __call__(
        self,
        log_density_fn: LogDensityFn,
        *,
        step_size: Any,
        inverse_mass_matrix: Any,
        **others: Any,
    ) -> Sampler:
        """Returns the sampler; its init and step raise ValueError for a matrix not diagonal."""

        def at(position: PyTree) -> Sampler:
            flat, unravel = ravel_pytree(position)
            if jnp.shape(inverse_mass_matrix) != flat.shape:
                raise ValueError(
                    "inverse_mass_matrix must hold one variance a coordinate, shape "
                    f"{flat.shape}; got shape {jnp.shape(inverse_mass_matrix)}. Adapt with "
                    "is_mass_matrix_diagonal=True."
                )
            steps = unravel((step_size * inverse_mass_matrix).astype(flat.dtype))
            return self.make(log_density_fn, step_size=steps, **others)

        def init(position: PyTree, key: Key | None = None) -> Any:
            return at(position).init(position, key)

        return Sampler(init, lambda key, state: at(position_of(state)).step(key, state))

    def init(self, position: PyTree, log_density_fn: LogDensityFn) -> BlackJAXState:
        """Returns the state of a chain at ``position``, in BlackJAX's names."""
        return _named(self.make(log_density_fn, step_size=1.0).init(position))

    def build_kernel(self) -> Callable[..., tuple[BlackJAXState, BlackJAXInfo]]:
        """Returns ``kernel(key, state, log_density_fn, step_size, inverse_mass_matrix, ...)``."""

        def kernel(
            key: Key,
            state: BlackJAXState,
            log_density_fn: LogDensityFn,
            step_size: Any,
            inverse_mass_matrix: Any,
            **others: Any,
        ) -> tuple[BlackJAXState, BlackJAXInfo]:
            numbers = {"step_size": step_size, "inverse_mass_matrix": inverse_mass_matrix}
            moved, info = self(log_density_fn, **numbers, **others).step(key, state.inner)
            return _named(moved), BlackJAXInfo(acceptance_of(info))

        return kernel


blackjax_algorithm = BlackJAXAlgorithm
