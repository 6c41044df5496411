"""Networks of Flax NNX and of Equinox in the form that trainers and evaluations take.

Their parameters and state are flat dicts, from the path in the module to an array.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax.networks._network import Call, Network, Statistics, as_network
from ebmjax.types import AxisName, Key, PyTree

Named = dict[str, jax.Array]

EXAMPLES = "examples"  # name of the axis that an Equinox network is mapped over


def from_nnx(network: Any, *, input_ndim: int | None = 3) -> Network:
    """Returns the ``Network`` of a Flax NNX module.

    Parameters are the variables of type ``nnx.Param``, such as {"conv/kernel": array}. All other
    variables are state. ``use`` sets ``use_running_average`` throughout the module.

    Args:
      network: a function ``rngs -> nnx.Module``, whose parameters depend on the key of ``init``. Or
        a module, whose own parameters ``init`` returns for every key.
      input_ndim: number of axes of one example, 3 for an image, 1 for a vector: the module is
        called on one batch axis. None if it takes any leading axes, or none.

    Raises:
      ValueError: from ``apply``, if ``use`` is unknown or the module draws random numbers.
    """
    from flax import nnx

    kinds = (nnx.Param, nnx.RngState, ...)
    is_built, outline = isinstance(network, nnx.Module), network
    if not is_built:
        _check(callable(network), "network must be an nnx.Module or rngs -> module", network)
        outline = nnx.eval_shape(lambda: network(nnx.Rngs(0)))
        must = "network(rngs) must return an nnx.Module"
        _check(isinstance(outline, nnx.Module), must, outline)
    graph, outline_params, random, outline_state = nnx.split(outline, *kinds)
    random = jax.tree.map(_make_unused, random)

    def init(key: Key, *inputs: Any) -> tuple[Named, Named]:
        del inputs
        module = network if is_built else network(nnx.Rngs(key))
        _, params, _, state = nnx.split(module, *kinds)
        return _name_leaves(params), _name_leaves(state)

    def run(params: Named, state: Named, call: Call) -> tuple[Any, Named]:
        inputs, use, batch_axis = call
        unused = jax.tree.map(lambda x: x, random)  # a copy: a merged module changes its variables
        parts = (_fill_arrays(outline_params, params), unused, _fill_arrays(outline_state, state))
        module = nnx.merge(graph, *parts)
        module.set_attributes(use_running_average=use == "running", raise_if_not_found=False)
        module.set_attributes(nnx.BatchNorm, axis_name=batch_axis, raise_if_not_found=False)
        outputs = module(*inputs)
        _, _, drawn, new = nnx.split(module, *kinds)
        pairs = zip(jax.tree.leaves(random), jax.tree.leaves(drawn), strict=True)
        if any(a is not b for a, b in pairs):
            raise ValueError(_RANDOM.format("deterministic=True"))
        return outputs, _name_leaves(new)

    return as_network(init, run, input_ndim)


def from_equinox(network: Any, *, input_ndim: int = 3) -> Network:
    """Returns the ``Network`` of an Equinox module, which is called on one example at a time.

    Parameters are its floating-point arrays, such as {"layers/0/weight": array}. Its other arrays
    are state, and so is an ``equinox.nn.State``: the module is then called as ``module(x, *more,
    state) -> (outputs, state)``. ``use`` sets ``inference`` of its stateful layers, for example
    ``BatchNorm``, whose axis name may be any. Images have shape (H, W, C); Equinox's convolutions
    take (C, H, W).

    Args:
      network: a function ``key -> module``, or a module, as for ``from_nnx``. In both, (module,
        state) as ``equinox.nn.make_with_state`` returns it stands for a module with state.
      input_ndim: number of axes of one example, 3 for an image, 1 for a vector.

    Raises:
      ImportError: if Equinox is not installed.
      ValueError: for dropout without ``inference=True``; from ``apply``, if ``use`` is unknown.
    """
    try:
        import equinox as eqx
    except ImportError as error:
        raise ImportError(
            f"from_equinox needs Equinox, which cannot be imported ({error}): pip install equinox",
            name=error.name,
        ) from error
    outline, state_outline = _pair(network)
    is_built = isinstance(outline, eqx.Module)
    if not is_built:
        _check(callable(network), "network must be an Equinox module or key -> module", network)
        outline, state_outline = _pair(eqx.filter_eval_shape(network, jax.random.key(0)))
        must = "network(key) must return an eqx.Module"
        _check(isinstance(outline, eqx.Module), must, outline)
    dropout = eqx.nn.Dropout
    parts = jax.tree.leaves(outline, is_leaf=lambda part: isinstance(part, dropout))
    if any(isinstance(x, dropout) and not x.inference and x.p != 0 for x in parts):
        raise ValueError(_RANDOM.format("inference=True"))

    def init(key: Key, *inputs: Any) -> tuple[Named, Named]:
        del inputs
        module, state = _pair(network if is_built else network(key))
        arrays = {name: leaf for name, leaf in _name_leaves(module).items() if eqx.is_array(leaf)}
        params = {name: leaf for name, leaf in arrays.items() if eqx.is_inexact_array(leaf)}
        others = {name: leaf for name, leaf in arrays.items() if name not in params}
        others |= _name_leaves(state, "state/")
        # Without the weak type of a Python number, which a step would not keep.
        return params, {name: jnp.asarray(x).astype(x.dtype) for name, x in others.items()}

    def run(params: Named, state: Named, call: Call) -> tuple[Any, Named]:
        inputs, use, batch_axis = call
        module = _fill_arrays(outline, params | state)
        module = _in_use(module, eqx.nn.StatefulLayer, use, batch_axis)
        if state_outline is None:
            return jax.vmap(module)(*inputs), state
        in_axes = (*(0 for _ in inputs), None)
        mapped = jax.vmap(module, in_axes, (0, None), axis_name=EXAMPLES)
        outputs, after = mapped(*inputs, _fill_arrays(state_outline, state, "state/"))
        return outputs, state | _name_leaves(after, "state/")

    return as_network(init, run, input_ndim)


def _pair(found: Any) -> tuple[Any, Any]:
    """Returns an Equinox module and its state, or None."""
    return found if isinstance(found, tuple) and len(found) == 2 else (found, None)


def _in_use(module: Any, stateful: type, use: Statistics, batch_axis: AxisName) -> Any:
    """Returns an Equinox module whose stateful layers take the statistics of ``use``."""
    outer = (batch_axis,) if isinstance(batch_axis, str) else batch_axis or ()
    changes = {"inference": use == "running", "axis_name": (EXAMPLES, *outer)}

    def is_stateful(part: Any) -> bool:
        return isinstance(part, stateful) and hasattr(part, "inference")

    def used(part: Any) -> Any:
        return _change_fields(part, changes) if is_stateful(part) else part

    return jax.tree.map(used, module, is_leaf=is_stateful)


_RANDOM = (
    "network draws random numbers in its call, as dropout does. An energy must be a function of "
    "its input: leave dropout out, or build it with {}."
)


def _check(is_right: bool, must: str, found: Any) -> None:
    if not is_right:
        raise TypeError(f"{must}, got a {type(found).__name__}.")


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/").removesuffix("/value")


def _name_leaves(tree: PyTree, prefix: str = "") -> dict[str, Any]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {prefix + _name(path): leaf for path, leaf in leaves}


def _fill_arrays(outline: PyTree, named: Named, prefix: str = "") -> PyTree:
    """Returns ``outline`` with the arrays of ``named`` in their places."""

    def fill(path: Any, leaf: Any) -> Any:
        return named.get(prefix + _name(path), leaf)

    return jax.tree_util.tree_map_with_path(fill, outline)


def _make_unused(leaf: Any) -> jax.Array:
    """Returns an array for a random state that nothing draws from."""
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jnp.broadcast_to(jax.random.key(0) if is_key else jnp.zeros((), leaf.dtype), leaf.shape)


def _change_fields(part: Any, changes: dict[str, Any]) -> Any:
    """Returns a copy of a frozen module with the fields of ``changes`` that it has."""
    copy = object.__new__(type(part))
    for name, value in vars(part).items():
        object.__setattr__(copy, name, changes.get(name, value))
    return copy
