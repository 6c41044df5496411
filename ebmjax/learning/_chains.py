"""Short chains of a plan: moved, followed step by step, or differentiated in their last steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ebmjax._axes import AxisName, mean_over_members, varying_with
from ebmjax._checks import (
    check_at_least,
    check_box,
    check_floating,
    check_not_negative,
    check_positive,
    leading_size,
)
from ebmjax._dual_averaging import DualAveraging, dual_averaging_update
from ebmjax._precision import at_least_float32
from ebmjax.learning._plan import Chain, ChainKind, ChainPlan, positions_in
from ebmjax.samplers import (
    acceptance_of,
    memory_of,
    position_of,
    start_chain,
    start_key,
    trace_chain,
    with_memory,
)
from ebmjax.types import Key, Metrics, PyTree, Step

CHAIN_AXIS = "chains"
"""The name of the mapped axis of chains, for densities that look at all of them (batch norm)."""

ANY_CLASS = -1
"""The label of a chain that belongs to no class."""

Densities = Callable[[jax.Array], Callable[..., jax.Array]]
"""``densities(label) -> log_density_fn`` of one chain, ``label`` a scalar int32. Independent chains
run under ``vmap(..., axis_name="chains")``. Interacting ones are given ``ANY_CLASS``."""

REPORTED = ("direction_norm", "bandwidth", "temperature", "preconditioner")


def run_chains(
    key: Key,
    densities: Densities,
    plan: ChainPlan,
    starts: PyTree,
    labels: jax.Array,
    adaptation: Mapping[str, DualAveraging] | None = None,
    *,
    num_fewer: int = 0,
    batch_axis: AxisName = None,
) -> tuple[PyTree, dict[str, DualAveraging], Metrics]:
    """Moves equal parts of the starts by every kind of chain, and adapts the step sizes.

    SGLD's last position is not scored, because the last step stands outside the loop. So K steps
    cost K gradients, and the reported acceptance is that of the first K - 1 steps. With K = 1 the
    position is scored, with one more gradient. MALA must score its last position: K + 1 gradients.

    Args:
      key: consumed; split among the kinds if there are several.
      densities: see ``Densities``.
      plan: the kinds.
      starts: leading axis of chains, the first part for the first kind. Positions, or ``Chain``
        rows, whose memory each kind goes on from where it has some.
      labels: (chains,) int32.
      adaptation: from ``init_carry`` or an earlier call; without it each kind has the step size of
        its sampler.
      num_fewer: steps that every chain takes less than its kind says (static).
      batch_axis: mapped axis, or axes, over which a step size adapts to the mean acceptance.

    Returns:
      Ends, like ``starts``; the adaptation; and metrics. "displacement" is the mean over chains and
      coordinates of the squared distance travelled. Those of "acceptance_prob", "direction_norm",
      "bandwidth", "temperature" and "preconditioner" that the sampler reports are means over steps
      and chains. "step_size" is there where it adapts. Of several kinds each has the mean over the
      kinds that report it, and each kind's, prefixed by its name.
    """
    num_kinds, adapted = len(plan.kinds), dict(adaptation or {})
    keys = key[None] if num_kinds == 1 else jax.random.split(key, num_kinds)
    ends, reports = [], {}
    for i, (name, kind) in enumerate(plan.kinds_at(adapted).items()):
        kind = replace(kind, num_steps=kind.num_steps - num_fewer)
        own = jax.tree.map(lambda leaf: jnp.split(leaf, num_kinds)[i], (starts, labels))  # noqa: B023
        moved, report = _run(keys[i], densities, kind, *own)
        if name in adapted:
            report["step_size"] = jnp.exp(adapted[name].log_step_size)
            adapted[name] = _adapt_step_size(adapted[name], name, kind, report, batch_axis)
        ends.append(moved)
        reports[name] = report
    together = jax.tree.map(lambda *parts: jnp.concatenate(parts), *ends)
    if num_kinds == 1:
        return together, adapted, report
    metrics: dict[str, Any] = {}
    for metric in dict.fromkeys(metric for report in reports.values() for metric in report):
        reported = [report[metric] for report in reports.values() if metric in report]
        metrics[metric] = jnp.mean(jnp.stack(reported))
    own = {f"{name}_{metric}": v for name, r in reports.items() for metric, v in r.items()}
    return together, adapted, metrics | own


def profile_chains(
    key: Key, densities: Densities, kind: ChainKind, starts: PyTree, labels: jax.Array
) -> Metrics:
    """Step by step, the numbers that ``run_chains`` averages over steps, for the same chains.

    Args:
      key: consumed; the chains are those of ``run_chains`` with this key and no other kind.
      densities: see ``Densities``.
      kind: sampler and length, from ``ChainPlan.kinds_at``.
      starts: leading axis of chains.
      labels: (chains,) int32.

    Returns:
      Each (num_steps,), a mean over chains. They are the metrics of ``run_chains``, with the last
      step, and "displacement" from the starts. Where the sampler has them, they include
      "log_density" and "score_norm" at the new positions, of the density that the chains follow
      (with its scale).
    """

    def report(states: Any, info: Any) -> dict[str, jax.Array]:
        found = _means(info, (*REPORTED, "log_density"))
        if hasattr(states, "score"):
            norms = jax.vmap(optax.tree.norm)(at_least_float32(states.score))
            found["score_norm"] = jnp.mean(norms)
        distance = mean_squared_displacement(starts, position_of(states))
        return {"displacement": distance, **found}

    states, step = _start_chains(key, densities, kind, starts, labels)
    return trace_chain(jax.random.split(key, kind.num_steps), states, step, report)[1]


def mean_squared_displacement(starts: PyTree, ends: PyTree) -> jax.Array:
    """The mean over chains and coordinates of the squared distance between two PyTrees.

    Source: the measure of exploration in the SVGD-in-JEM thesis, section 5.1.
    """
    squares = jax.tree.map(lambda a, b: (b - a).ravel() ** 2, starts, ends)
    return jnp.mean(jnp.concatenate(jax.tree.leaves(squares)))


def _run(
    key: Key, densities: Densities, kind: ChainKind, starts: PyTree, labels: jax.Array
) -> tuple[PyTree, dict[str, jax.Array]]:
    states, step = _start_chains(key, densities, kind, starts, labels)
    step = jax.jit(step, inline=True)  # traced once for the loop and the last step
    keys = jax.random.split(key, kind.num_steps)
    states, reports = trace_chain(
        keys[:-1], states, step, lambda states, info: _means(info, REPORTED)
    )
    states, info = step(keys[-1], states)
    positions = position_of(states)
    travelled = mean_squared_displacement(positions_in(starts), positions)
    metrics = {name: jnp.mean(steps) for name, steps in reports.items()}
    if kind.num_steps == 1:
        metrics = _means(info, REPORTED)
    ends = positions
    if isinstance(starts, Chain):
        ends = Chain(positions, starts.memory | memory_of(states, kind.memory))
    return ends, {"displacement": travelled, **metrics}


def _start_chains(
    key: Key, densities: Densities, kind: ChainKind, starts: PyTree, labels: jax.Array
) -> tuple[Any, Step]:
    """States and the step of all chains, each with the density of its label."""
    starts = varying_with(starts, key, labels)
    positions, first_key = positions_in(starts), start_key(key)
    if kind.is_interacting:
        spread = {} if kind.axis_name is None else {"axis_name": kind.axis_name}
        whole = kind.sampler(densities(jnp.int32(ANY_CLASS)), **spread)
        states, step = start_chain(first_key, whole, positions), whole.step
    else:

        def init(key: Key, start: PyTree, label: jax.Array) -> Any:
            return start_chain(key, kind.sampler(densities(label)), start)

        def step_one(key: Key, state: Any, label: jax.Array) -> tuple[Any, Any]:
            return kind.sampler(densities(label)).step(key, state)

        num = leading_size("starts", positions)
        step_all = jax.vmap(step_one, axis_name=CHAIN_AXIS)
        first_keys = jax.random.split(first_key, num)
        states = jax.vmap(init, axis_name=CHAIN_AXIS)(first_keys, positions, labels)
        step = lambda key, states: step_all(jax.random.split(key, num), states, labels)  # noqa: E731
    if isinstance(starts, Chain):
        states = with_memory(states, {name: starts.memory[name] for name in kind.memory})
    return states, step


def _means(info: Any, fields: Sequence[str]) -> dict[str, jax.Array]:
    """The means of the acceptance and of those ``fields`` that a sampler reports."""
    found = {name: getattr(info, name) for name in fields if hasattr(info, name)}
    acceptance = acceptance_of(info)
    if acceptance is not None:
        found["acceptance_prob"] = acceptance
    return {name: jnp.mean(values) for name, values in found.items()}


def _adapt_step_size(
    state: DualAveraging, name: str, kind: ChainKind, report: Metrics, batch_axis: AxisName
) -> DualAveraging:
    if "acceptance_prob" not in report:
        raise ValueError(
            f"target_acceptance adapts the step size of the chains of kind {name!r}, whose "
            "sampler accepts every move and reports no acceptance_prob: leave it out."
        )
    return dual_averaging_update(
        state,
        mean_over_members(report["acceptance_prob"], batch_axis),
        step_size=kind.step_size,
        target=1.0 if kind.target_acceptance is None else kind.target_acceptance,
        min_step_size=kind.min_step_size,
    )


def run_live_chains(
    key: Key,
    density: Callable[[jax.Array], Callable[..., jax.Array]],
    starts: PyTree,
    labels: jax.Array,
    *,
    step_size: Any,
    noise_scale: Any,
    num_steps: int = 1,
    low: Any = -jnp.inf,
    high: Any = jnp.inf,
) -> PyTree:
    r"""Moves every start by Langevin steps that are differentiable in what ``density`` closes over.

    .. math::
        x \leftarrow \mathrm{clip}(x + \epsilon\, \nabla_x f_\theta(x) + \sigma \xi,
            \mathrm{low}, \mathrm{high})

    The starts are constants; the ends depend on the parameters :math:`\theta` through the scores
    of these steps, all of them. Where a coordinate is clipped its derivative is 0, unlike
    ``ebmjax.samplers.clamp``, which passes a chain's gradient straight through.

    Run the chain up to its last steps with ``run_chains``, outside of what is differentiated; take
    the last ones here, inside. A step costs one gradient, and backwards a derivative of it.

    Args:
      key: consumed by the noise; the same key gives the same noise at other parameters.
      density: ``density(label) -> log_density_fn`` of one chain, as for ``run_chains``.
      starts: leading axis of chains, floating point.
      labels: (chains,) integers, handed to ``density``.
      step_size: :math:`\epsilon`, positive scalar.
      noise_scale: :math:`\sigma`, at least 0, a scalar; the exact value is sqrt(2 step_size).
      num_steps: at least 1 (static).
      low, high: ends of the box that every step ends in; infinite for none.

    Returns:
      Ends, like ``starts``.

    Source: Du et al. 2021, section 3.2; one step in their code.

    Example:
      >>> def end(precision):
      ...     density = lambda label: lambda x: -0.5 * precision * x**2
      ...     starts, labels = jnp.array([3.0]), jnp.zeros(1, jnp.int32)
      ...     return run_live_chains(
      ...         jax.random.key(0), density, starts, labels, step_size=0.5, noise_scale=0.0)[0]
      >>> float(end(1.0)), float(jax.grad(end)(1.0))
      (1.5, -1.5)
    """
    check_floating("starts", starts)
    check_positive("step_size", step_size, is_scalar=True)
    check_not_negative("noise_scale", noise_scale, is_scalar=True)
    check_at_least("num_steps", num_steps, 1)
    check_box(low, high)
    num_chains = leading_size("starts", starts)

    def step_one(key: Key, position: PyTree, label: jax.Array) -> PyTree:
        score = jax.grad(density(label))(position)
        noise = optax.tree.random_like(key, position, jax.random.normal)

        def move(x: jax.Array, s: jax.Array, n: jax.Array) -> jax.Array:
            return jnp.clip(x + step_size * s + noise_scale * n, low, high).astype(x.dtype)

        return jax.tree.map(move, position, score, noise)

    def step_all(key: Key, positions: PyTree) -> tuple[PyTree, None]:
        return jax.vmap(step_one)(jax.random.split(key, num_chains), positions, labels), None

    keys = jax.random.split(key, num_steps)
    starts = varying_with(jax.lax.stop_gradient(starts), key, labels)
    return trace_chain(keys, starts, step_all)[0]
