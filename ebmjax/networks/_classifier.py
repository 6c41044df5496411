"""A network as two pure functions, with normalisation statistics as arguments and results."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from ebmjax.networks._norm_policy import Statistics, check_statistics
from ebmjax.types import Key, PyTree


class Classifier(NamedTuple):
    """Pure functions from images to logits; trainers and evaluations need nothing else.

    Make one from a Flax Linen network with ``classifier(network)``, or from any two functions. A
    network without running statistics passes ``{}`` through.

    Attributes:
      init: ``init(key, images) -> (params, statistics)``; ``statistics`` holds the running averages
        of batch normalisation, or ``{}``.
      logits: ``logits(params, statistics, images, *, use="running", batch_axis=None) -> (logits,
        new_statistics)``. Images (..., H, W, C) give logits (..., classes) in float32. With
        ``use="batch"`` the images are normalised by their own statistics, averaged also over the
        mapped axis ``batch_axis`` if given; ``new_statistics`` are then the updated running
        averages. A ``NormPolicy`` says whether to keep them. Otherwise ``new_statistics`` is
        ``statistics``.
      first_layer: ``first_layer(params, images) -> hidden``, the part of the network that PYLD
        differentiates once per outer step; None if the network has no such split.
      head: ``head(params, statistics, hidden, *, use="running", batch_axis=None) -> (logits,
        new_statistics)``, the rest, so ``logits`` is ``head`` after ``first_layer``.

    Example:
      >>> def init(key, images):
      ...     return 0.01 * jax.random.normal(key, (images.shape[-2], 10)), {}
      >>> def logits(params, statistics, images, *, use="running", batch_axis=None):
      ...     del use, batch_axis
      ...     return images.mean((-3, -1)) @ params, statistics
      >>> network = Classifier(init, logits)
      >>> params, statistics = network.init(jax.random.key(0), jnp.zeros((8, 8, 1)))
      >>> network.logits(params, statistics, jnp.zeros((5, 8, 8, 1)))[0].shape
      (5, 10)
    """

    init: Callable[[Key, jax.Array], tuple[PyTree, PyTree]]
    logits: Callable[..., tuple[jax.Array, PyTree]]
    first_layer: Callable[[PyTree, jax.Array], jax.Array] | None = None
    head: Callable[..., tuple[jax.Array, PyTree]] | None = None


def classifier(network: nn.Module) -> Classifier:
    """Returns the ``Classifier`` of a Linen network that maps images to logits.

    Both uses work if ``__call__`` has a ``statistics`` argument (``"running"`` or ``"batch"``) and
    the network has a ``batch_axis`` attribute, as ``WideResNet`` does. Any other network keeps no
    statistics, and both uses are the same. Methods ``first_layer`` and ``head`` become the fields
    of that name.

    Raises:
      TypeError: unless ``network`` is a Linen module.
      ValueError: from ``logits`` and ``head``, if ``use`` is unknown.

    Example:
      >>> from ebmjax.networks import WideResNet
      >>> network = classifier(WideResNet(10, 1, 10, norm="batch"))
      >>> images = jnp.zeros((5, 8, 8, 1))
      >>> params, statistics = jax.jit(network.init)(jax.random.key(0), images)
      >>> evaluate = jax.jit(network.logits, static_argnames="use")
      >>> logits, statistics = evaluate(params, statistics, images, use="batch")
      >>> logits.shape
      (5, 10)
    """
    if not isinstance(network, nn.Module):
        raise TypeError(
            f"network must be a Flax Linen module, got {type(network).__name__}; wrap functions as "
            "Classifier(init, logits)."
        )

    def init(key: Key, images: jax.Array) -> tuple[PyTree, PyTree]:
        variables = network.init(key, images)
        return variables["params"], variables.get("batch_stats", {})

    if not (hasattr(network, "first_layer") and hasattr(network, "head")):
        return Classifier(init, _bind(network, "__call__"))

    def first_layer(params: PyTree, images: jax.Array) -> jax.Array:
        return network.apply({"params": params}, images, method="first_layer")  # type: ignore

    return Classifier(init, _bind(network, "__call__"), first_layer, _bind(network, "head"))


def _bind(network: nn.Module, method: str) -> Callable[..., tuple[jax.Array, PyTree]]:
    """Returns ``Classifier.logits``, by the ``method`` of ``network`` that computes them."""
    has_statistics = "statistics" in inspect.signature(getattr(network, method)).parameters

    def logits(
        params: PyTree,
        statistics: PyTree,
        images: jax.Array,
        *,
        use: Statistics = "running",
        batch_axis: str | tuple[str, ...] | None = None,
    ) -> tuple[jax.Array, PyTree]:
        check_statistics("use", use)
        variables = {"params": params, "batch_stats": statistics}
        if use == "running" or not has_statistics:
            choice: dict[str, Any] = {"statistics": use} if has_statistics else {}
            out: Any = network.apply(variables, images, method=method, **choice)
            return out.astype(jnp.float32), statistics
        mapped = network if batch_axis is None else network.clone(batch_axis=batch_axis)
        out, updated = mapped.apply(
            variables, images, statistics=use, method=method, mutable=["batch_stats"]
        )
        # A batch of float64 images would turn the averages into float64.
        new = jax.tree.map(
            lambda old, now: now.astype(old.dtype), statistics, updated.get("batch_stats", {})
        )
        return out.astype(jnp.float32), new

    return logits
