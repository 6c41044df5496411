"""Checks of the particles, states and steps that people hand to samplers and drivers."""

from typing import Any

import jax.numpy as jnp

from ebmjax._checks import check_floating, leading_size
from ebmjax.types import PyTree


def check_state(state: Any, *fields: str) -> None:
    """Raises TypeError unless ``state`` has the fields of a sampler's state."""
    if not all(hasattr(state, field) for field in fields):
        raise TypeError(
            f"state must be what the sampler's init(position) returns, with {', '.join(fields)}; "
            f"got {type(state).__name__}. Call init on the position first."
        )


def check_one_chain(state: Any, *fields: str) -> None:
    """Checks as ``check_state`` does; also raises ValueError for the states of many chains."""
    check_state(state, "position", "log_density", *fields)
    shape = jnp.shape(state.log_density)
    if shape != ():
        raise ValueError(
            f"state must be that of one chain, but its log_density has shape {shape}: these are "
            "the states of many. Step them with ebmjax.samplers.batch_step(step)."
        )


def check_step(step: Any) -> None:
    """Raises TypeError unless ``step`` is a function, for example because it is a whole sampler."""
    if not callable(step):
        hint = " Pass its step: sampler.step." if hasattr(step, "step") else ""
        raise TypeError(
            "step must be a function (key, state) -> (state, info), got "
            f"{type(step).__name__}.{hint}"
        )


def check_particles(particles: PyTree) -> None:
    """Raises TypeError or ValueError unless leaves are floating point with one leading axis.

    A bare array of one axis is refused: it may be one particle or many.
    """
    check_floating("particles", particles)
    if getattr(particles, "ndim", 0) == 1:
        raise ValueError(
            f"particles must have an axis of particles and one of coordinates, shape (n, d), got "
            f"shape {particles.shape}. Write x[:, None] for n particles of one coordinate each, "
            "x[None] for one particle. For chains that move independently, use a sampler of one "
            "position, such as sgld."
        )
    if leading_size("particles", particles) == 0:
        raise ValueError("particles must hold at least one particle, got a leading size of 0.")
