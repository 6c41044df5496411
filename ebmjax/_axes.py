"""What is spread over mapped axes: the whole from its parts, a member's part of it, their mean."""

from typing import Any

import jax

AxisName = str | tuple[str, ...] | None
"""A mapped axis, or several with the last one running fastest; None outside of any."""


def gather_rows(rows: jax.Array, axis_name: AxisName) -> jax.Array:
    """(n, ...) on every member, from the (n / members, ...) of each in the order of their index.

    Under ``vmap`` the result is one for all members, so that what is made of it is computed once.

    Raises:
      ValueError: if an axis is not mapped where this is called.
    """
    if _num_members(axis_name) == 1:  # the program stays that without axes, bit for bit
        return rows
    names = (axis_name,) if isinstance(axis_name, str) else axis_name or ()
    for name in reversed(names):  # one at a time: vmap gathers over no more
        rows = jax.lax.all_gather(rows, name, tiled=True)
    return rows


def first_key(key: jax.Array, axis_name: AxisName) -> jax.Array:
    """The first member's key, on every member: for random numbers that they share."""
    if _num_members(axis_name) == 1:
        return key
    of_all = gather_rows(jax.random.key_data(key)[None], axis_name)
    return jax.random.wrap_key_data(of_all[0], impl=jax.random.key_impl(key))


def own_rows(rows: jax.Array, num_local: int, axis_name: AxisName) -> jax.Array:
    """The ``num_local`` rows that this member gave to ``gather_rows``."""
    if axis_name is None or num_local == len(rows):
        return rows
    first = member_index(axis_name) * num_local
    return jax.lax.dynamic_slice_in_dim(rows, first, num_local)


def member_index(axis_name: AxisName) -> int | jax.Array:
    """Which member of ``axis_name`` this one is, from 0; 0 outside of any.

    Raises:
      ValueError: if an axis is not mapped where this is called.
    """
    _num_members(axis_name)
    return 0 if axis_name is None else jax.lax.axis_index(axis_name)


def mean_over_members(tree: Any, axis_name: AxisName) -> Any:
    """The mean of a PyTree over the members of ``axis_name``; the tree itself outside of any.

    Raises:
      ValueError: if an axis is not mapped where this is called.
    """
    return tree if _num_members(axis_name) == 1 else jax.lax.pmean(tree, axis_name)


def spread_axis(axis_name: AxisName) -> AxisName:
    """``axis_name``, or None where a single member has it all: that program needs no axis.

    Raises:
      ValueError: if an axis is not mapped where this is called.
    """
    return None if _num_members(axis_name) == 1 else axis_name


def joined_axes(*axis_names: AxisName) -> AxisName:
    """Several axes as one, for a collective over all of them; None where there are none."""
    names = [(name,) if isinstance(name, str) else name or () for name in axis_names]
    joined = sum(names, ())
    return joined if len(joined) > 1 else next(iter(joined), None)


def check_mapped(name: str, axis_name: AxisName) -> None:
    """Raises ValueError, naming the argument, if an axis is not mapped where this is called."""
    _num_members(axis_name, name)


def _num_members(axis_name: AxisName, argument: str = "axis_name") -> int:
    try:
        return 1 if axis_name is None else jax.lax.axis_size(axis_name)
    except NameError as error:
        raise ValueError(
            f"{argument} must name axes that are mapped where it is used, by jax.vmap, "
            f"jax.shard_map or make_train_step; got {argument}={axis_name!r}, {error}. "
            "Outside of any, pass None."
        ) from error
