"""Helpers for arrays spread over mapped axes or an explicit mesh."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax.types import AxisName


def gather_rows(rows: jax.Array, axis_name: AxisName) -> jax.Array:
    """(n, ...) on every member, from the (n / members, ...) of each in the order of their index.

    Under ``vmap`` the result is one for all members, so that what is made of it is computed once.
    """
    for name in reversed(spread_axes(axis_name)):  # one at a time: vmap gathers over no more
        rows = jax.lax.all_gather(rows, name, tiled=True)
    return rows


def first_key(key: jax.Array, axis_name: AxisName) -> jax.Array:
    """The first member's key, on every member: for random numbers that they share."""
    if num_members(axis_name) == 1:
        return key
    of_all = gather_rows(jax.random.key_data(key)[None], axis_name)
    return jax.random.wrap_key_data(of_all[0], impl=jax.random.key_impl(key))


def own_rows(rows: jax.Array, num_local: int, axis_name: AxisName) -> jax.Array:
    """The ``num_local`` rows that this member gave to ``gather_rows``."""
    if axis_name is None or num_local == len(rows):
        return rows
    first = jax.lax.axis_index(axis_name) * num_local
    return jax.lax.dynamic_slice_in_dim(rows, first, num_local)


def mean_over_members(tree: Any, axis_name: AxisName) -> Any:
    """The mean of a PyTree over the members of ``axis_name``; the tree itself outside of any."""
    return tree if num_members(axis_name) == 1 else jax.lax.pmean(tree, axis_name)


def spread_axes(axis_name: AxisName) -> tuple[str, ...]:
    """The names in ``axis_name``; () where a single member has it all: that program needs none."""
    if num_members(axis_name) == 1:
        return ()
    return (axis_name,) if isinstance(axis_name, str) else tuple(axis_name or ())


def num_members(axis_name: AxisName, argument: str = "axis_name") -> int:
    """Returns the number of members of ``axis_name``, 1 outside of any; refuses unmapped names."""
    try:
        return 1 if axis_name is None else jax.lax.axis_size(axis_name)
    except NameError as error:
        raise ValueError(
            f"{argument} must name axes that are mapped where it is used, by jax.vmap, "
            f"jax.shard_map or make_train_step; got {argument}={axis_name!r}, {error}. "
            "Outside of any, pass None."
        ) from error


def place_like(tree: Any, reference: Any) -> Any:
    """``tree``, each leaf on the devices of its counterpart; ``tree`` itself where it is already.

    On an explicit mesh a leaf gets the counterpart's sharding, under ``jax.shard_map`` it varies
    over the counterpart's axes too. Elsewhere the program stays what it is, bit for bit.

    Args:
      tree: of arrays.
      reference: of the same structure, of arrays or of the shapes of ``jax.eval_shape``.
    """
    placed = jax.tree.map(_place_leaf_like, tree, reference)
    pairs = zip(jax.tree.leaves(tree), jax.tree.leaves(placed), strict=True)
    return tree if all(before is after for before, after in pairs) else placed


def _place_leaf_like(leaf: jax.Array, reference: Any) -> jax.Array:
    goal = jax.typeof(reference)
    if is_spread(reference):
        leaf = _reshard(leaf, goal.sharding.mesh, goal.sharding.spec)
    return varying_with(leaf, reference)


def varying_with(tree: Any, *others: Any) -> Any:
    """``tree``, varying over every axis of ``jax.shard_map`` that a leaf of ``others`` varies over.

    A loop carries a start that is the same on all devices only if its steps are, too.
    """

    def axes_of(leaf: Any) -> frozenset[Any]:
        return jax.typeof(leaf).manual_axis_type.varying

    axes = frozenset().union(*map(axes_of, jax.tree.leaves(others)))

    def vary(leaf: jax.Array) -> jax.Array:
        missing = axes - axes_of(leaf)
        return jax.lax.pcast(leaf, tuple(missing), to="varying") if missing else leaf

    return jax.tree.map(vary, tree)


def place_carry(
    step: Callable[[Any, Any], tuple[Any, Any]], keys: Any, state: Any
) -> tuple[Any, Any]:
    """``state`` placed so that a loop over ``step`` and ``keys`` can carry it; shapes of a step's.

    A start may be the same on all devices of ``jax.shard_map``, and vary once a step was taken.
    """
    shapes = jax.eval_shape(lambda keys, state: step(keys[0], state), keys, state)
    if jax.tree.structure(state) != jax.tree.structure(shapes[0]):
        return state, shapes  # which the loop reports
    placed = place_like(state, shapes[0])
    return (state, shapes) if placed is state else place_carry(step, keys, placed)


def rows_like(rows: Any, reference: Any) -> Any:
    """A PyTree of ``rows`` (n, ...), on an explicit mesh spread as the rows of ``reference`` are.

    Rows that the devices do not divide stay as they are.
    """
    for leaf in jax.tree.leaves(reference):
        first, *_ = (*jax.typeof(leaf).sharding.spec, None)
        if first is not None:
            place = partial(_rows_over, jax.typeof(leaf).sharding.mesh, first)
            return jax.tree.map(place, rows)
    return rows


def _rows_over(mesh: Any, first: Any, leaf: jax.Array) -> jax.Array:
    names = first if isinstance(first, tuple) else (first,)
    if len(leaf) % math.prod(mesh.shape[name] for name in names):
        return leaf
    return _reshard(leaf, mesh, jax.P(first, *jax.typeof(leaf).sharding.spec[1:]))


def take_rows(leaf: jax.Array, rows: jax.Array) -> jax.Array:
    """``leaf[rows]``, on an explicit mesh spread as ``leaf`` where the devices divide the rows."""
    if not is_spread(leaf):
        return leaf[rows]
    place = jax.typeof(leaf).sharding
    whole = jax.NamedSharding(place.mesh, jax.P(None, *place.spec[1:]))
    return rows_like(leaf.at[everywhere(rows)].get(out_sharding=whole), leaf)


def row_of(rows: jax.Array, index: jax.Array) -> jax.Array:
    """``rows[index]`` for one index, which may be mapped over an axis of an explicit mesh."""
    if jax.sharding.AxisType.Explicit not in jax.sharding.get_abstract_mesh().axis_types:
        return rows[index]
    whole = jax.P(*[None] * (rows.ndim - 1))
    choose: Any = jax.sharding.auto_axes(lambda rows, index: rows[index], out_sharding=whole)
    return choose(rows, index)


def set_rows(leaf: jax.Array, rows: jax.Array, new: jax.Array) -> jax.Array:
    """``leaf.at[rows].set(new)``, placed like ``leaf``, wherever ``rows`` and ``new`` are."""
    rows, new = everywhere((rows, new))
    if not is_spread(leaf):
        return leaf.at[rows].set(new)
    return leaf.at[rows].set(new, out_sharding=jax.typeof(leaf).sharding)


def everywhere(tree: Any) -> Any:
    """``tree``, its leaves whole on every device of an explicit mesh."""

    def gather(leaf: Any) -> Any:
        whole = jax.P(*[None] * jnp.ndim(leaf))
        return _reshard(leaf, jax.typeof(leaf).sharding.mesh, whole) if is_spread(leaf) else leaf

    return jax.tree.map(gather, tree)


def is_spread(leaf: Any) -> bool:
    """Returns whether an axis of the array is split over the devices of an explicit mesh."""
    return any(axis is not None for axis in jax.typeof(leaf).sharding.spec)


def _reshard(leaf: jax.Array, mesh: Any, spec: jax.P) -> jax.Array:
    if jax.typeof(leaf).sharding.spec == spec:
        return leaf
    return jax.sharding.reshard(leaf, jax.NamedSharding(mesh, spec))
