"""From a chosen sampler to ``log_density_fn -> Sampler``: clipping, box and annealing."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import optax

from ebmjax import densities, samplers
from ebmjax._axes import AxisName
from ebmjax.learning import ChainKind
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.parts.samplers.chosen import Chosen, hyperparameters, is_annealed
from ebmjax.recipes.parts.samplers.table import BASE, FIRST_LAYER

HABITS = ("max_score", "low", "high", "final_step_fraction")


def bind_sampler(
    chosen: Chosen,
    section: Config,
    base: samplers.FactorGaussian | None = None,
) -> Callable[..., Any]:
    """Returns ``log_density_fn -> Sampler``, which also takes ``step_size=`` and ``axis_name=``.

    Scores are clipped first; then the box acts, and the step falls along the chain.

    ``learning.numbers_of`` finds its numbers.

    Args:
      chosen: already checked by ``chosen.check``.
      section: ``config.sampler``. Of it max_score, box, low, high and final_step_fraction are read
        where the family has them.
      base: Gaussians that a sampler tilts; None for N(0, I).
    """
    box, falls = section.get("box", "none"), is_annealed(section)
    options = hyperparameters(chosen)
    if chosen.entry.needs == BASE:
        options["base"] = base

    def make_bound(
        log_density_fn: Any,
        *,
        options: dict[str, Any],
        max_score: Any,
        low: Any,
        high: Any,
        final_step_fraction: Any,
        **given: Any,
    ) -> Any:
        make = partial(chosen.make, **options)
        if chosen.entry.needs == FIRST_LAYER:
            ends = {"low": low, "high": high} if box == "clamp" else {}
            return _split(partial(make, max_score=max_score, **ends), chosen.name, log_density_fn)
        if falls:
            make = _anneal(make, options, final_step_fraction, section.num_steps)
        if box != "none":
            make = in_box(make, box, low, high, rejects=chosen.rejects)
        if max_score is not None:
            log_density_fn = samplers.clip_score(log_density_fn, max_score)
        return make(log_density_fn, **given)

    habits = {name: section.get(name) for name in HABITS}
    return partial(make_bound, options=options, **habits)


def chain_kind(
    chosen: Chosen,
    section: Config,
    base: samplers.FactorGaussian | None,
    axis_name: AxisName,
) -> ChainKind:
    """Returns the chains of a sampler in training, see ``bind_sampler``.

    ``axis_name`` is of the shards whose interacting samples are one system.
    """
    entry, target = chosen.entry, section.get("target_acceptance")
    return ChainKind(
        sampler=bind_sampler(chosen, section, base),
        num_steps=section.num_steps,
        target_acceptance=target if entry.adapts else None,
        is_interacting=entry.interacts,
        axis_name=axis_name if entry.interacts else None,
        step_size=chosen.options.get("step_size", 1.0),
        memory=entry.memory,
    )


def in_box(
    make: Callable[..., Any], box: str, low: Any, high: Any, *, rejects: bool
) -> Callable[..., Any]:
    """Returns ``make`` with chains that stay in ``[low, high]``.

    "clamp" projects, "reflect" has mirrors at the ends, "reject" takes back the moves that leave.
    A sampler that never rejects is projected under "reject" too: it stands beside one that does.
    """
    if box == "reflect":
        return samplers.reflect(make, low, high)
    if box == "reject" and rejects:
        return lambda density, **given: make(densities.within_box(density, low, high), **given)
    return samplers.clamp(make, low, high)


def _split(make: Callable[..., Any], name: str, density: Any) -> Any:
    if getattr(density, "first_layer", None) is None or density.head is None:
        raise ConfigError(
            f"the sampler {name!r} needs a network split after its first layer. Your own must be a "
            "Linen module with methods first_layer and head, or a Network that has both."
        )
    return make(density)


def _anneal(
    make: Callable[..., Any], options: dict[str, Any], final_fraction: float, num_steps: int
) -> Callable[..., Any]:
    """Steps that fall evenly to ``final_fraction`` of the first, at the same temperature.

    From the length of a training chain on they stay there. A noise that is given falls with the
    root of the step.
    """
    fraction = optax.linear_schedule(1.0, final_fraction, max(num_steps - 1, 1))
    noise_scale: Any = options.get("noise_scale")

    def make_annealed(density: Any, step_size: Any = options["step_size"]) -> Any:
        falling = {"step_size": lambda step: step_size * fraction(step)}
        if noise_scale is not None:
            falling["noise_scale"] = lambda step: noise_scale * jnp.sqrt(fraction(step))
        return samplers.schedule(make)(density, **falling)

    return make_annealed
