"""Networks by command: ``config.model.factory`` names a function of the user that makes them."""

import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from ebmjax import networks
from ebmjax._checks import check_floating
from ebmjax.networks import Network
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.user_parts import find_part
from ebmjax.types import PyTree

RANDOM = ("rngs", "key")
"""Arguments of a factory whose parameters depend on the seed: of NNX, of Equinox."""


class NetworkSpec(NamedTuple):
    """One of the networks that a factory makes.

    Attributes:
      what: words for its outputs, for messages.
      inputs: shape and dtype of one example of each input.
      output: shape of one output.
    """

    what: str
    inputs: tuple[jax.ShapeDtypeStruct, ...]
    output: tuple[int, ...]


class Stateless(NamedTuple):
    """A network without state, by the functions of a Linen module."""

    init: Callable[..., PyTree]
    apply: Callable[..., jax.Array]


def stateless(network: Network) -> Stateless:
    """Returns a network of ``user_networks`` that has no state."""
    return Stateless(
        lambda *given: network.init(*given)[0],
        lambda params, *inputs: network.apply(params, {}, *inputs)[0],
    )


def user_networks(
    config: Config,
    given: dict[str, Any],
    parts: tuple[NetworkSpec, ...],
    *,
    has_state: bool = False,
) -> tuple[Network, ...]:
    """Returns the networks of ``config.model.factory``, one for each of ``parts``.

    The function gets those of ``given`` that it has arguments for, and ``config.model.options``. It
    returns one network, or as many as there are ``parts``. With an argument ``rngs`` (NNX) or
    ``key`` (Equinox), parameters depend on the seed.

    Args:
      config: ``model.factory`` and ``model.options`` are read.
      given: what the run knows, by the names of arguments.
      parts: networks that are needed.
      has_state: whether the family carries batch statistics, and knows dropout.

    Raises:
      ConfigError: for whatever the function does wrong.
    """
    name = config.model.factory
    part = find_part(config, "model.factory", name, others=(*given, *RANDOM))
    parameters = inspect.signature(part.function).parameters
    random = next((one for one in RANDOM if one in parameters), None)
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    passed = {key: value for key, value in given.items() if takes_any or key in parameters}

    def make(index: int, **random: Any) -> Any:
        made = part.function(**passed, **part.options, **random)
        if len(parts) == 1:
            return made
        if not isinstance(made, tuple | list) or len(made) != len(parts):
            whats = " and ".join(part.what for part in parts)
            raise TypeError(
                f"it must return {len(parts)} networks, {whats}, got a {type(made).__name__}"
            )
        return made[index]

    with part.explain():
        found = tuple(
            _network(lambda i=i, **r: make(i, **r), random, len(part.inputs[0].shape), has_state)
            for i, part in enumerate(parts)
        )
        return tuple(
            _check(network, part, has_state) for network, part in zip(found, parts, strict=True)
        )


def _network(
    make: Callable[..., Any], random: str | None, input_ndim: int, dropout: bool
) -> Network:
    options: Any = {"input_ndim": input_ndim, "dropout": dropout}
    if random == "rngs":
        return networks.from_nnx(lambda rngs: make(rngs=rngs), **options)
    if random == "key":
        return networks.from_equinox(lambda key: make(key=key), **options)
    made = make()
    if isinstance(made, Network):
        return made
    if isinstance(made, nn.Module):
        return networks.from_linen(made, **options)
    # Whoever made a module of these has imported them.
    nnx, equinox = sys.modules.get("flax.nnx"), sys.modules.get("equinox")
    if nnx is not None and isinstance(made, nnx.Module):
        return networks.from_nnx(made, **options)
    module = made[0] if isinstance(made, tuple) and made else made
    if equinox is not None and isinstance(module, equinox.Module):
        return networks.from_equinox(made, **options)
    raise TypeError(
        "it must return a Flax Linen, Flax NNX or Equinox module, or an ebmjax.networks.Network, "
        f"got a {type(made).__name__}"
    )


def _check(network: Network, part: NetworkSpec, has_state: bool) -> Network:
    """Returns ``network``, without ``drop`` if it has no dropout.

    Raises unless it takes one example and two, and gives what ``part`` says.
    """
    key = jax.random.key(0)
    params, state = jax.eval_shape(network.init, key, *part.inputs)
    check_floating("its parameters", params)
    if jax.tree.leaves(state) and not has_state:
        raise ValueError(
            "it keeps batch statistics or other state, which this family does not carry: an "
            "energy of one image must not depend on the images beside it. Take group or layer "
            "normalisation"
        )
    for leading in ((), (2,)):
        inputs = [jax.ShapeDtypeStruct((*leading, *x.shape), x.dtype) for x in part.inputs]
        outputs, _ = jax.eval_shape(network.apply, params, state, *inputs)
        got, expected = jax.tree.map(jnp.shape, outputs), (*leading, *part.output)
        if got != expected:
            hint = ". End it with [..., 0]" if got == (*expected, 1) else ""
            raise ValueError(
                f"it must give {part.what} of shape {expected} for inputs of shape "
                f"{inputs[0].shape}, got {got}{hint}"
            )
    if network.drop is None:
        return network
    drop = jax.make_jaxpr(partial(network.drop, use="batch"))
    drawn = drop(params, state, *inputs, key=key)
    return network if "random_bits" in str(drawn) else network._replace(drop=None)
