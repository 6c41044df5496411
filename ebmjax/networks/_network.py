"""A network as two pure functions, with normalisation statistics as arguments and results."""

import contextlib
import dataclasses
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, get_args

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.errors import InvalidRngError

from ebmjax.types import AxisName, Key, PyTree

Statistics = Literal["running", "batch"]
"""Statistics that a normalisation uses."""
Role = Literal["classified", "positives", "negatives", "chains"]
"""Part of a batch in a step of training."""


def check_statistics(name: str, value: Any) -> None:
    """Raises ValueError unless ``value`` is ``"running"`` or ``"batch"``."""
    if value not in get_args(Statistics):
        raise ValueError(f"{name} must be 'running' or 'batch', got {name}={value!r}.")


class Network(NamedTuple):
    """Pure functions of parameters; trainers and evaluations need nothing else.

    One form serves logits, energies (of images, or of images and labels) and generators. Make one
    with ``from_linen``, ``from_nnx``, ``from_equinox`` or ``from_functions``, or from two functions
    of your own. A network without running statistics passes ``{}`` through.

    Attributes:
      init: ``init(key, x, *more) -> (params, state)``, from an example or a batch; ``state`` holds
        the running averages of batch normalisation, or ``{}``.
      apply: ``apply(params, state, x, *more, use="running", batch_axis=None) -> (outputs,
        new_state)``, for any leading axes or none: ``x`` of shape (..., H, W, C) or (..., d),
        ``more`` such as labels (...,). Outputs are float32: logits (..., classes), energies (...,)
        or images. With ``use="batch"`` examples are normalised by their own statistics, averaged
        also over the mapped axis ``batch_axis`` if given; ``new_state`` then holds the updated
        running averages. Otherwise it is ``state``.
      first_layer: ``first_layer(params, x) -> hidden``, the part of the network that PYLD
        differentiates once per outer step; None if the network has no such split.
      head: ``head(params, state, hidden, ...) -> (outputs, new_state)``, the rest, so ``apply`` is
        ``head`` after ``first_layer``.
    """

    init: Callable[..., tuple[PyTree, PyTree]]
    apply: Callable[..., tuple[Any, PyTree]]
    first_layer: Callable[[PyTree, jax.Array], jax.Array] | None = None
    head: Callable[..., tuple[Any, PyTree]] | None = None


class Call(NamedTuple):
    """Arguments of ``Network.apply`` behind parameters and state; inputs have one batch axis."""

    inputs: tuple[Any, ...]
    use: Statistics
    batch_axis: AxisName


def from_functions(
    init: Callable[..., PyTree], apply: Callable[..., Any], *, input_ndim: int | None = None
) -> Network:
    """Returns the ``Network`` of two plain functions without state.

    Args:
      init: ``init(key, x, *more) -> params``.
      apply: ``apply(params, x, *more) -> outputs``.
      input_ndim: number of axes of one example, 3 for an image, 1 for a vector: ``apply`` is then
        called on one batch axis. None if it takes any leading axes, or none.
    """

    def stateless_init(key: Any, *inputs: Any) -> tuple[PyTree, PyTree]:
        return init(key, *inputs), {}

    def run(params: PyTree, state: PyTree, call: Call) -> tuple[Any, PyTree]:
        return apply(params, *call.inputs), state

    return as_network(stateless_init, run, input_ndim)


def from_linen(network: nn.Module, *, input_ndim: int | None = None) -> Network:
    """Returns the ``Network`` of a Linen module.

    Batch normalisation follows ``use`` if the module's call has one of the arguments ``statistics``
    (``"running"`` or ``"batch"``), ``train``, ``training``, ``is_training`` or
    ``use_running_average``. An argument ``deterministic`` is True. ``batch_axis`` reaches Flax's
    own layers, and the module's attribute of that name if it has one.
    Methods ``first_layer`` and ``head`` become the fields of that name.

    Args:
      network: maps (..., H, W, C) or (..., d), and perhaps labels, to outputs.
      input_ndim: as for ``from_functions``.

    Raises:
      ValueError: from ``init``, for variables other than parameters and batch statistics, and for
        batch statistics that no argument of the call selects. From ``apply`` and ``head``, if
        ``use`` is unknown or the network draws random numbers.
    """
    if not isinstance(network, nn.Module):
        raise TypeError(
            f"network must be a Flax Linen module, got {type(network).__name__}; there are also "
            "from_nnx, from_equinox and from_functions(init, apply)."
        )
    choices = _choices(network, "__call__")

    def init(key: Any, *inputs: Any) -> tuple[PyTree, PyTree]:
        filled = {name: value("running") for name, value in choices.items()}
        with _call_layers(None):
            variables = network.init(key, *inputs, **filled)
        others = sorted(set(variables) - {"params", "batch_stats"})
        if others:
            raise ValueError(
                f"network keeps the variables {others}; only params and batch_stats are carried."
            )
        if "batch_stats" in variables and not set(choices) - {"deterministic"}:
            raise ValueError(
                "network has batch statistics, but its call has no argument that says whether to "
                f"use and update them, one of {sorted(set(_CHOICES) - {'deterministic'})}."
            )
        return variables.get("params", {}), variables.get("batch_stats", {})

    whole = as_network(init, _bind(network, "__call__"), input_ndim)
    if not (hasattr(network, "first_layer") and hasattr(network, "head")):
        return whole

    def first_layer(params: PyTree, x: jax.Array) -> jax.Array:
        return network.apply({"params": params}, x, method="first_layer")  # type: ignore

    head = as_network(init, _bind(network, "head"), None).apply
    return whole._replace(first_layer=first_layer, head=head)


_CHOICES: dict[str, Callable[[Statistics], Any]] = {
    "statistics": lambda use: use,
    "train": lambda use: use == "batch",
    "training": lambda use: use == "batch",
    "is_training": lambda use: use == "batch",
    "use_running_average": lambda use: use == "running",
    "deterministic": lambda use: True,
}


def _choices(network: nn.Module, method: str) -> dict[str, Callable[[Statistics], Any]]:
    """Returns the arguments of ``method`` that depend on the use of the statistics."""
    names = inspect.signature(getattr(network, method)).parameters
    return {name: value for name, value in _CHOICES.items() if name in names}


def _bind(network: nn.Module, method: str) -> Callable[..., tuple[Any, PyTree]]:
    """Returns what ``as_network`` runs, by the ``method`` of ``network`` that makes the outputs."""
    choices = _choices(network, method)

    def run(params: PyTree, state: PyTree, call: Call) -> tuple[Any, PyTree]:
        inputs, use, batch_axis = call
        filled = {name: value(use) for name, value in choices.items()}
        is_updated = use == "batch" and bool(set(choices) - {"deterministic"})
        is_told = batch_axis is not None and use == "batch" and hasattr(network, "batch_axis")
        mapped = network.clone(batch_axis=batch_axis) if is_told else network
        filled["mutable"] = ["batch_stats"] if is_updated else False
        variables = {"params": params, "batch_stats": state}
        axes = batch_axis if is_updated else None
        with _call_layers(axes):
            found = mapped.apply(variables, *inputs, method=method, **filled)
        outputs, updated = found if is_updated else (found, {"batch_stats": state})
        return outputs, updated.get("batch_stats", {})

    return run


@contextlib.contextmanager
def _call_layers(axes: AxisName) -> Iterator[None]:
    """Averages batch statistics also over mapped ``axes``; refuses random numbers."""

    def call_layer(call: Any, args: Any, kwargs: Any, context: nn.module.InterceptorContext) -> Any:
        if axes is not None and isinstance(context.module, nn.BatchNorm):
            # The module was made for this call alone, as all bound modules are.
            object.__setattr__(context.module, "axis_name", axes)
        return call(*args, **kwargs)

    try:
        with nn.intercept_methods(call_layer):
            yield
    except InvalidRngError as error:
        raise ValueError(
            "network draws random numbers in its call, as dropout does. An energy must be a "
            f"function of its input: leave dropout out, or make it deterministic. ({error})"
        ) from error


def as_network(
    init: Callable[..., tuple[PyTree, PyTree]],
    run: Callable[..., tuple[Any, PyTree]],
    input_ndim: int | None,
) -> Network:
    """Returns the ``Network`` of a function for one batch axis.

    Outputs become float32, because an acceptance is a difference of energies. State keeps its
    dtype, because images in float64 would change that of averages.

    Args:
      init: as ``Network.init``, for one batch axis.
      run: ``run(params, state, call) -> (outputs, new_state)``.
      input_ndim: number of axes of one example of the first input; None if ``run`` takes any.
    """

    def flatten(inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Returns inputs with one batch axis, and the leading axes that it stands for."""
        if input_ndim is None:
            return inputs, ()
        shape = jnp.shape(inputs[0])
        num_leading = len(shape) - input_ndim
        if num_leading < 0:
            raise ValueError(
                f"the input must have shape (..., {input_ndim} axes of an example), got {shape}; "
                f"input_ndim={input_ndim} says how many one example has."
            )
        leading = shape[:num_leading]
        sizes = ((math.prod(leading), *jnp.shape(x)[num_leading:]) for x in inputs)
        return tuple(map(jnp.reshape, inputs, sizes)), leading

    def start(key: Key, *inputs: Any) -> tuple[PyTree, PyTree]:
        return init(key, *flatten(inputs)[0])

    def apply(
        params: PyTree,
        state: PyTree,
        *inputs: Any,
        use: Statistics = "running",
        batch_axis: AxisName = None,
    ) -> tuple[Any, PyTree]:
        check_statistics("use", use)
        flat, leading = flatten(inputs)
        size = math.prod(leading)

        def unflat(output: Any) -> jax.Array:
            output = jnp.asarray(output, jnp.float32)
            if input_ndim is None:
                return output
            if output.shape[:1] != (size,):
                raise ValueError(
                    f"the network must return one output an example, shape ({size}, ...) for "
                    f"{size} examples, got {output.shape}."
                )
            return output.reshape(*leading, *output.shape[1:])

        outputs, new = run(params, state, Call(flat, use, batch_axis))
        if use == "batch":
            state = jax.tree.map(lambda old, new: jnp.asarray(new).astype(old.dtype), state, new)
        return jax.tree.map(unflat, outputs), state

    return Network(start, apply)


@dataclasses.dataclass(frozen=True)
class NormPolicy:
    """Statistics that batch normalisation uses in each pass of a training step.

    A step passes images in four roles through the network. ``"classified"`` are the labelled images
    of the cross-entropy, which always use their batch. ``"positives"`` and ``"negatives"`` are the
    two phases of the energy term; ``"chains"`` are the sampler's. If normalised by its ``"batch"``,
    an image's energy depends on the images beside it; by the ``"running"`` averages it does not.

    By default every pass normalises by its batch, so that chains follow the trained energy, and
    only real images update the averages. Chains then interact: a Metropolis test of a single chain
    is not valid. Other choices: docs/networks.md.

    A batch is that of one shard, or of all shards if ``Objective.batch_axis`` names their axes.

    Attributes:
      positives, negatives, chains: ``"batch"`` or ``"running"``; ``classified`` is ``"batch"``.
      updated_by: roles whose first pass updates the running averages; they must not use them. If
        several do, the later pass outweighs the earlier one, nine to one with ``WideResNet``'s
        momentum. The second pass of SAM never updates them.
    """

    positives: Statistics = "batch"
    negatives: Statistics = "batch"
    chains: Statistics = "batch"
    updated_by: tuple[Role, ...] = ("classified", "positives")
    classified = "batch"

    def __post_init__(self) -> None:
        for name in ("positives", "negatives", "chains"):
            check_statistics(name, getattr(self, name))
        for role in self.updated_by:
            if role not in get_args(Role):
                raise ValueError(f"role must be one of {get_args(Role)}, got role={role!r}.")
            if getattr(self, role) == "running":
                raise ValueError(
                    f"updated_by names {role!r}, which uses the running averages and has no batch "
                    f"statistics to update them with; set {role}='batch' or leave it out."
                )


SADA_JEM_POLICY = NormPolicy(updated_by=("positives", "chains", "negatives", "classified"))
"""SADA-JEM's published code: every first pass, chains included, updates the averages, in this order
of the passes. So the labelled images weigh most."""
