"""Negative samples of a training step: short chains that continue from a replay buffer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import optax

from ebmjax._axes import AxisName, varying_with
from ebmjax._checks import check_at_least, check_fraction, check_not_negative, leading_size
from ebmjax._precision import at_least_float32
from ebmjax.samplers import InitialLaw, position_of
from ebmjax.types import Key, Metrics, PyTree, Sampler, Step

CHAIN_AXIS = "chains"
"""The name of the mapped axis of chains, for densities that look at all of them (batch norm)."""

REPORTED = {
    "acceptance_prob": "acceptance_prob",
    "acceptance_rate": "acceptance_prob",  # BlackJAX's word for it
    "direction_norm": "direction_norm",
    "bandwidth": "bandwidth",
    "temperature": "temperature",
    "preconditioner": "preconditioner",
}


@dataclass(frozen=True, kw_only=True)
class Negatives:
    """The plan by which a training step draws its negative samples.

    Attributes:
      sampler: from a log density to a ``Sampler`` (or a BlackJAX ``SamplingAlgorithm``), such as
        ``functools.partial(sgld, step_size=1.0, noise_scale=0.01)``.
      num_steps: of each chain, at least 1.
      num_samples: chains (or particles) a logical shard.
      law: the initial law of chains that start anew.
      reinit_prob: of each chain, in [0, 1].
      density_scale: what multiplies the log density for the sampler alone, such as 1 - beta under
        the beta objective; may be traced.
      num_classes: classes that ``law`` knows: the buffer starts with as many of each, and chains of
        no class that start anew take a random one. 1 for a law without classes.
      is_interacting: whether ``sampler`` moves all samples at once (SVGD) instead of one chain.
      axis_name: mapped axis, or axes, over which the interacting samples of all shards are one
        system, handed to ``sampler`` by this name: ("data", "shard") in training, "shard" in a
        step without a mesh axis. None for a system in every shard.
      replacement: which of the moved samples go back to the buffer, see ``select_particles``.
      num_kept: how many of them; None for all.

    Raises:
      ValueError: for counts below 1, ``reinit_prob`` outside [0, 1], a negative
        ``density_scale``, an ``axis_name`` for chains that do not interact, or more kept than
        drawn.
    """

    sampler: Callable[..., Sampler]
    num_steps: int
    num_samples: int
    law: InitialLaw
    reinit_prob: float
    density_scale: Any = 1.0
    num_classes: int = 1
    is_interacting: bool = False
    axis_name: AxisName = None
    replacement: Literal["in_place", "softmax", "argmax"] = "in_place"
    num_kept: int | None = None

    def __post_init__(self) -> None:
        for name in ("num_steps", "num_samples", "num_classes"):
            check_at_least(name, getattr(self, name), 1)
        check_fraction("reinit_prob", self.reinit_prob)
        check_not_negative("density_scale", self.density_scale)
        if self.axis_name is not None and not self.is_interacting:
            raise ValueError(
                f"axis_name must be None where is_interacting is False, for independent chains "
                f"are no system that shards could share; got axis_name={self.axis_name!r}."
            )
        if self.num_kept is not None:
            check_at_least("num_kept", self.num_kept, 1)
            if self.num_kept > self.num_samples:
                raise ValueError(
                    f"num_kept must be at most num_samples={self.num_samples}, got {self.num_kept}."
                )


def run_chains(
    key: Key,
    density: Callable[[jax.Array], Callable[..., jax.Array]],
    negatives: Negatives,
    starts: PyTree,
    labels: jax.Array,
) -> tuple[PyTree, Metrics]:
    """Moves every start by ``negatives.num_steps`` steps.

    K steps cost K gradients, because the last step stands outside the loop. A sampler that scores
    its new position only for the next step (SGLD) then need not score the last one. Its acceptance
    is reported over the steps before. A single step has none before it and is reported itself,
    which costs one more gradient. A sampler that must score its last position (MALA) costs K + 1.

    Args:
      key: consumed.
      density: ``density(label) -> log_density_fn`` of one chain. Independent chains run under
        ``vmap(..., axis_name="chains")``. Interacting ones are given label 0.
      negatives: sampler and length.
      starts: leading axis of chains.
      labels: (chains,) int32.

    Returns:
      Ends, like ``starts``, and metrics. "displacement" is the mean over chains and coordinates of
      the squared distance travelled. Those of "acceptance_prob", "direction_norm", "bandwidth",
      "temperature" and "preconditioner" that the sampler reports are means over steps and chains.
    """
    states, step = _started(key, density, negatives, starts, labels)
    keys = jax.random.split(key, negatives.num_steps)
    states, reports = jax.lax.scan(lambda s, k: _reported(step, k, s), states, keys[:-1])
    states, last = _reported(step, keys[-1], states)
    ends = position_of(states)
    metrics = {name: jnp.mean(steps) for name, steps in reports.items()}
    if negatives.num_steps == 1:
        metrics = last
    return ends, {"displacement": mean_squared_displacement(starts, ends)} | metrics


def profile_chains(
    key: Key,
    density: Callable[[jax.Array], Callable[..., jax.Array]],
    negatives: Negatives,
    starts: PyTree,
    labels: jax.Array,
) -> Metrics:
    """Step by step, the numbers that ``run_chains`` averages over steps, for the same chains.

    Args:
      key: consumed; the chains are those of ``run_chains`` with this key.
      density: see ``run_chains``.
      negatives: see ``run_chains``.
      starts: see ``run_chains``.
      labels: see ``run_chains``.

    Returns:
      Each (num_steps,), a mean over chains: the metrics of ``run_chains``, here of the last step
      too; "displacement" from the starts; and at the new positions "log_density" and "score_norm",
      of the density as the chains have it (scaled by ``density_scale``, where ``density`` is) and
      of its gradient, of samplers that report the one and keep the other.
    """
    states, step = _started(key, density, negatives, starts, labels)

    def one(states: Any, key: Key) -> tuple[Any, dict[str, jax.Array]]:
        states, info = step(key, states)
        found = _means(info, REPORTED | {"log_density": "log_density"})
        if hasattr(states, "score"):
            found["score_norm"] = jnp.mean(
                jax.vmap(optax.tree.norm)(at_least_float32(states.score))
            )
        return states, {
            "displacement": mean_squared_displacement(starts, position_of(states)),
            **found,
        }

    return jax.lax.scan(one, states, jax.random.split(key, negatives.num_steps))[1]


def mean_squared_displacement(starts: PyTree, ends: PyTree) -> jax.Array:
    """The mean over chains and coordinates of the squared distance between two PyTrees.

    Source: the measure of exploration in the SVGD-in-JEM thesis, section 5.1.
    """
    squares = jax.tree.map(lambda a, b: (b - a).ravel() ** 2, starts, ends)
    return jnp.mean(jnp.concatenate(jax.tree.leaves(squares)))


def _started(
    key: Key,
    density: Callable[[jax.Array], Callable[..., jax.Array]],
    negatives: Negatives,
    starts: PyTree,
    labels: jax.Array,
) -> tuple[Any, Step]:
    """The states of all chains, and the step of all of them."""
    starts = varying_with(starts, key, labels)
    if not negatives.is_interacting:
        return _independent(density, negatives.sampler, starts, labels)
    spread = {} if negatives.axis_name is None else {"axis_name": negatives.axis_name}
    whole = negatives.sampler(density(jnp.int32(0)), **spread)
    return whole.init(starts), whole.step


def _independent(
    density: Callable[[jax.Array], Callable[..., jax.Array]],
    sampler: Callable[..., Sampler],
    starts: PyTree,
    labels: jax.Array,
) -> tuple[Any, Step]:
    """States and the step of many chains, each with the density of its label."""

    def init(start: PyTree, label: jax.Array) -> Any:
        return sampler(density(label)).init(start)

    def step_one(key: Key, state: Any, label: jax.Array) -> tuple[Any, Any]:
        return sampler(density(label)).step(key, state)

    num_chains = leading_size("starts", starts)
    step_all = jax.vmap(step_one, axis_name=CHAIN_AXIS)
    states = jax.vmap(init, axis_name=CHAIN_AXIS)(starts, labels)
    return states, lambda key, states: step_all(jax.random.split(key, num_chains), states, labels)


def _reported(step: Step, key: Key, states: Any) -> tuple[Any, dict[str, jax.Array]]:
    states, info = step(key, states)
    return states, _means(info, REPORTED)


def _means(info: Any, fields: Mapping[str, str]) -> dict[str, jax.Array]:
    """The means of those ``fields`` that a sampler reports, by their names here."""
    return {
        name: jnp.mean(getattr(info, field))
        for field, name in fields.items()
        if hasattr(info, field)
    }
