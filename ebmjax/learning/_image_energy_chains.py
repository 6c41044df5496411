"""The chains of an image energy: several samplers in one batch, step sizes that adapt."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax._axes import AxisName, mean_over_members
from ebmjax._checks import check_at_least, check_fraction, check_not_negative, check_positive
from ebmjax.learning._negatives import Negatives, run_chains
from ebmjax.samplers import InitialLaw
from ebmjax.types import Key, Metrics, PyTree, Sampler

# Hoffman & Gelman 2014: gain, iterations that the early ones are damped by, and the power with
# which the average forgets.
GAIN, DAMPED, FORGETTING = 0.05, 10.0, 0.75


class DualAveraging(NamedTuple):
    """A step size on its way to a target acceptance.

    Attributes:
      log_step_size: scalar, of the next chains.
      log_average: scalar, averaged over updates, the later ones more: for chains after training.
      mean_error: scalar, target minus acceptance, averaged over updates.
      count: scalar int32, updates.
    """

    log_step_size: jax.Array
    log_average: jax.Array
    mean_error: jax.Array
    count: jax.Array


def dual_averaging_init(step_size: float) -> DualAveraging:
    """Before the first update, at ``step_size`` (positive)."""
    check_positive("step_size", step_size)
    log_step_size = jnp.log(jnp.float32(step_size))
    return DualAveraging(log_step_size, log_step_size, jnp.float32(0), jnp.int32(0))


def dual_averaging_update(
    state: DualAveraging,
    acceptance_prob: jax.Array,
    *,
    step_size: float,
    target: float,
    min_step_size: float = 0.0,
) -> DualAveraging:
    r"""One update of the step size by the acceptance that it had.

    .. math::
        \bar h \leftarrow \Big(1 - \tfrac{1}{t + 10}\Big) \bar h
            + \tfrac{1}{t + 10} (\delta - \alpha), \qquad
        \log \epsilon \leftarrow \log(10 \epsilon_0) - \tfrac{\sqrt t}{0.05} \bar h

    The average of :math:`\log \epsilon` takes the newest with weight :math:`t^{-0.75}`. In training
    the density changes, so this is never frozen: update t moves :math:`\log \epsilon` by about
    :math:`20 / \sqrt t` times its error.

    Args:
      state: from ``dual_averaging_init`` or an earlier update.
      acceptance_prob: scalar, the mean over chains and steps.
      step_size: :math:`\epsilon_0`, as at the start.
      target: :math:`\delta`; 0.574 is the optimum of MALA in many dimensions.
      min_step_size: below it the step size does not go.

    Source: Hoffman & Gelman 2014, section 3.2, with their constants.
    """
    count = state.count + 1
    t = count.astype(jnp.float32)
    weight = 1.0 / (t + DAMPED)
    # A scan's carry keeps its dtype, whatever the chains are computed in.
    error = target - jnp.asarray(acceptance_prob, jnp.float32)
    mean_error = (1.0 - weight) * state.mean_error + weight * error
    log_step_size = jnp.log(10.0 * jnp.float32(step_size)) - jnp.sqrt(t) / GAIN * mean_error
    log_step_size = jnp.maximum(log_step_size, jnp.log(jnp.float32(min_step_size)))
    share = t**-FORGETTING
    log_average = share * log_step_size + (1.0 - share) * state.log_average
    return DualAveraging(log_step_size, log_average, mean_error, count)


@dataclass(frozen=True, kw_only=True)
class ChainKind:
    """One way of moving chains.

    Attributes:
      sampler: from a log density to a ``Sampler``; where the step size adapts it is called with
        ``step_size=`` too.
      num_steps: of each chain, at least 1.
      target_acceptance: in (0, 1], what the step size adapts to; None leaves it to ``sampler``.
      step_size: where adaptation starts.
      min_step_size: below it adaptation does not go.

    Raises:
      ValueError: if a number is out of range.
    """

    sampler: Callable[..., Sampler]
    num_steps: int
    target_acceptance: float | None = None
    step_size: float = 1.0
    min_step_size: float = 0.0

    def __post_init__(self) -> None:
        check_at_least("num_steps", self.num_steps, 1)
        check_positive("step_size", self.step_size)
        check_not_negative("min_step_size", self.min_step_size)
        if self.target_acceptance is not None:
            check_positive("target_acceptance", self.target_acceptance)
            check_fraction("target_acceptance", self.target_acceptance)


@dataclass(frozen=True, kw_only=True)
class ImageNegatives:
    """The plan by which a training step of an image energy draws its negatives.

    Attributes:
      kinds: samplers by name; each moves an equal part of the chains. Which chains is drawn anew
        at every step, so that over time each slot of the buffer is moved by all of them.
      num_samples: chains of a logical shard, a multiple of the number of kinds.
      law: the initial law of chains that start anew.
      reinit_prob: of each chain that comes from the buffer, in [0, 1].
      num_classes: of a conditional energy; 1 for an energy of images alone.
      augment: ``augment(key, starts) -> starts`` of chains that go on from the buffer, such as
        ``ebmjax.data.augment_starts``; None for none.

    Raises:
      ValueError: if there is no kind, the kinds cannot share the chains, or a number is out of
        range.
    """

    kinds: Mapping[str, ChainKind]
    num_samples: int
    law: InitialLaw
    reinit_prob: float
    num_classes: int = 1
    augment: Callable[[Key, jax.Array], jax.Array] | None = None

    def __post_init__(self) -> None:
        for name in ("num_samples", "num_classes"):
            check_at_least(name, getattr(self, name), 1)
        check_fraction("reinit_prob", self.reinit_prob)
        if not self.kinds or self.num_samples % len(self.kinds):
            raise ValueError(
                "num_samples must be a multiple of the number of kinds, of which there is at "
                f"least one; got num_samples={self.num_samples} and kinds {list(self.kinds)}."
            )

    def init_adaptation(self) -> dict[str, DualAveraging]:
        """The step sizes that adapt, by the name of their kind."""
        return {
            name: dual_averaging_init(kind.step_size)
            for name, kind in self.kinds.items()
            if kind.target_acceptance is not None
        }

    def of_kind(
        self, name: str, adaptation: Mapping[str, DualAveraging], num_samples: int
    ) -> Negatives:
        """``num_samples`` chains of one kind, at the step size that its ``adaptation`` is at."""
        kind = self.kinds[name]
        return Negatives(
            sampler=_at_step_size(kind, adaptation.get(name)),
            num_steps=kind.num_steps,
            num_samples=num_samples,
            law=self.law,
            reinit_prob=self.reinit_prob,
        )


def run_kinds(
    key: Key,
    density: Callable[[jax.Array], Callable[..., jax.Array]],
    negatives: ImageNegatives,
    starts: jax.Array,
    labels: jax.Array,
    adaptation: Mapping[str, DualAveraging],
    *,
    num_fewer: int = 0,
    batch_axis: AxisName = None,
) -> tuple[PyTree, dict[str, DualAveraging], Metrics]:
    """Moves equal parts of the starts by every kind, and adapts the step sizes.

    Args:
      key: split among the kinds.
      density: ``density(label) -> log_density_fn`` of one chain.
      negatives: the kinds.
      starts: (negatives.num_samples, ...), the first part for the first kind.
      labels: (negatives.num_samples,) int32.
      adaptation: from ``ImageNegatives.init_adaptation`` or an earlier call.
      num_fewer: steps that every chain takes less than its kind says (static).
      batch_axis: mapped axis, or axes, over which a step size adapts to the mean acceptance.

    Returns:
      Ends, the adaptation, and the metrics of ``run_chains``, averaged over the kinds that have
      them, with "step_size" where it adapts; of several kinds also each one's, prefixed by its
      name.
    """
    size = len(starts) // len(negatives.kinds)
    ends, reports, adapted = [], {}, dict(adaptation)
    keys = jax.random.split(key, len(negatives.kinds))
    for i, (name, kind) in enumerate(negatives.kinds.items()):
        part = slice(i * size, (i + 1) * size)
        chains = negatives.of_kind(name, adaptation, size)
        chains = dataclasses.replace(chains, num_steps=kind.num_steps - num_fewer)
        moved, report = run_chains(keys[i], density, chains, starts[part], labels[part])
        if name in adaptation:
            if "acceptance_prob" not in report:
                raise ValueError(
                    f"target_acceptance adapts the step size of the chains of kind {name!r}, whose "
                    "sampler accepts every move and reports no acceptance_prob: leave it out."
                )
            report = {**report, "step_size": jnp.exp(adaptation[name].log_step_size)}
            adapted[name] = dual_averaging_update(
                adaptation[name],
                mean_over_members(report["acceptance_prob"], batch_axis),
                step_size=kind.step_size,
                target=kind.target_acceptance or 1.0,
                min_step_size=kind.min_step_size,
            )
        ends.append(moved)
        reports[name] = report
    return jnp.concatenate(ends), adapted, _merged(reports)


def _at_step_size(kind: ChainKind, state: DualAveraging | None) -> Callable[..., Sampler]:
    if state is None:
        return kind.sampler
    step_size = jnp.exp(state.log_step_size)
    return lambda density: kind.sampler(density, step_size=step_size)


def _merged(reports: Mapping[str, Metrics]) -> dict[str, jax.Array]:
    names = {metric: None for report in reports.values() for metric in report}
    merged: dict[str, Any] = {
        metric: jnp.mean(jnp.stack([r[metric] for r in reports.values() if metric in r]))
        for metric in names
    }
    if len(reports) > 1:
        merged |= {f"{n}_{metric}": v for n, r in reports.items() for metric, v in r.items()}
    return merged
