"""The few types every room of the library shares."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import jax

PyTree = Any
"""Any nesting of tuples, lists, dicts and dataclasses whose leaves are arrays."""

Key = jax.Array
"""A typed JAX random key (``jax.random.key``), used exactly once."""

LogDensityFn = Callable[[PyTree], jax.Array]
"""``log_density_fn(position) -> scalar``: one chain, unnormalised, low energy is high density."""

EnergyFn = Callable[[PyTree], jax.Array]
"""``energy_fn(position) -> scalar``, the negative of a log density up to a constant."""

Metrics = Mapping[str, jax.Array]
"""Named numbers a person wants to see."""

AxisName = str | tuple[str, ...] | None
"""A mapped axis, or several with the last one running fastest; None outside of any."""

Step = Callable[[Key, Any], tuple[Any, Any]]
"""``step(key, state) -> (state, info)``: one transition with everything else bound."""

SamplerFn = Callable[[LogDensityFn], Any]
"""Function from a log density to a ``Sampler`` or a BlackJAX ``SamplingAlgorithm`` of one position;
samplers of particles are refused."""

State = TypeVar("State")
Info = TypeVar("Info")


class Sampler(NamedTuple, Generic[State, Info]):
    """A transition kernel with its density and hyperparameters bound.

    The same protocol as BlackJAX's ``SamplingAlgorithm``, so either drops into
    the other library's drivers.

    Attributes:
      init: ``init(position, key=None) -> state``. Few samplers draw at their start (a
        velocity, for example), and these need the key. ``ebmjax.samplers.start_chain``
        serves all.
      step: ``step(key, state) -> (state, info)``.
    """

    init: Callable[..., State]
    step: Callable[[Key, State], tuple[State, Info]]
