"""Networks by command: ``config.model.factory`` names a function of the user that makes them."""

import inspect
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax import networks
from ebmjax._checks import check_floating
from ebmjax.networks import Network
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.user_parts import find_part

RANDOM = {"rngs": networks.from_nnx, "key": networks.from_equinox}
"""Arguments of a factory whose parameters depend on the seed, and what makes its network."""
ADAPTERS: dict[str, Any] = {
    "flax.linen.": networks.from_linen,
    "flax.nnx.": networks.from_nnx,
    "equinox.": networks.from_equinox,
}
"""What makes the network of a module, by the package of one of its classes."""


def user_networks(
    config: Config, given: dict[str, Any], *specs: tuple[str, Any, Any], has_state: bool = False
) -> tuple[Any, ...]:
    """Returns the networks of ``config.model.factory``, one for each of ``specs``.

    The function gets those of ``given`` that it has arguments for, and ``config.model.options``. It
    returns one network, or as many as there are ``specs``. They have ``init`` and ``apply`` as
    Linen modules do, unless the family carries a state.

    Args:
      config: ``model.factory`` and ``model.options`` are read.
      given: what the run knows, by the names of arguments.
      specs: of each network words for its outputs, an example of each input, and the shape of one
        output.
      has_state: whether the family carries batch statistics.

    Raises:
      ConfigError: for whatever the function does wrong.
    """
    part = find_part(config, "model.factory", config.model.factory, others=(*given, *RANDOM))
    parameters = inspect.signature(part.function).parameters
    random = next((name for name in RANDOM if name in parameters), None)
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    passed = {key: value for key, value in given.items() if takes_any or key in parameters}

    def make(index: int, *drawn: Any) -> Any:
        keys = {random: drawn[0]} if random else {}
        made = part.function(**passed, **part.options, **keys)
        if len(specs) == 1:
            return made
        if not isinstance(made, tuple | list) or len(made) != len(specs):
            whats = " and ".join(what for what, *_ in specs)
            raise TypeError(
                f"it must return {len(specs)} networks, {whats}, got a {type(made).__name__}"
            )
        return made[index]

    def adapt(index: int) -> Network:
        options: Any = {"input_ndim": len(specs[index][1][0].shape)}
        if random:
            return RANDOM[random](partial(make, index), **options)
        made = make(index)
        if isinstance(made, Network):
            return made
        module = made[0] if isinstance(made, tuple) and made else made
        packages = [kind.__module__ for kind in type(module).__mro__]
        for package, adapter in ADAPTERS.items():
            if any(name.startswith(package) for name in packages):
                return adapter(made, **options)
        raise TypeError(
            "it must return a Flax Linen, Flax NNX or Equinox module, or an "
            f"ebmjax.networks.Network, got a {type(made).__name__}"
        )

    with part.explain():
        found = [_check(adapt(i), *spec, has_state) for i, spec in enumerate(specs)]
    return tuple(found if has_state else map(_without_state, found))


def _without_state(network: Network) -> SimpleNamespace:
    return SimpleNamespace(
        init=lambda *given: network.init(*given)[0],
        apply=lambda params, *inputs: network.apply(params, {}, *inputs)[0],
    )


def _check(network: Network, what: str, inputs: Any, output: Any, has_state: bool) -> Network:
    """Returns ``network`` if its outputs have the shape."""
    params, state = jax.eval_shape(network.init, jax.random.key(0), *inputs)
    check_floating("its parameters", params)
    if jax.tree.leaves(state) and not has_state:
        raise ValueError(
            "it keeps batch statistics or other state, which this family does not carry: take "
            "group or layer normalisation"
        )
    for leading in ((), (2,)):
        some = [jax.ShapeDtypeStruct((*leading, *x.shape), x.dtype) for x in inputs]
        outputs, _ = jax.eval_shape(network.apply, params, state, *some)
        got, expected = jax.tree.map(jnp.shape, outputs), (*leading, *output)
        if got != expected:
            hint = ". End it with [..., 0]" if got == (*expected, 1) else ""
            raise ValueError(
                f"it must give {what} of shape {expected} for inputs of shape {some[0].shape}, got "
                f"{got}{hint}"
            )
    return network
