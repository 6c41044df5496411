"""A sampler that a configuration names: its hyperparameters, its temperature, what is refused.

``bind_sampler`` makes ``log_density_fn -> Sampler`` of it, with clipping, box and annealing.
"""

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ebmjax import densities, samplers
from ebmjax._axes import AxisName
from ebmjax.learning import ChainKind
from ebmjax.recipes.config.errors import Config, ConfigError, pick
from ebmjax.recipes.config.user_parts import UserPart, find_function, find_part, is_users
from ebmjax.recipes.parts.samplers import table
from ebmjax.types import Sampler

HABITS = ("max_score", "low", "high", "final_step_fraction")
"""Fields of ``config.sampler`` that every chain has, where the family has them."""


class Chosen(NamedTuple):
    """A sampler of the table with the hyperparameters that a configuration gives it.

    Attributes:
      name: in the table.
      where: its section, "config.sampler.sgld", for messages.
      options: every field of its entry, by name.
      part: the user's function, if ``name`` names one.
    """

    name: str
    where: str
    options: Mapping[str, Any]
    part: UserPart | None = None

    @property
    def entry(self) -> table.SamplerEntry:
        """Its row of the table. A function of the user has a row by its signature and facts."""
        return (
            table.SAMPLERS[self.name] if self.part is None else table.describe(self.part.function)
        )

    def make(self, log_density_fn: Any, **hyperparameters: Any) -> Any:
        """Returns the sampler bound to a density.

        Raises:
          ConfigError: for whatever a function of the user does wrong.
        """
        if self.part is None:
            return self.entry.make(log_density_fn, **hyperparameters)
        return _hold_to_contract(self.part, self.part.call(log_density_fn, **hyperparameters))

    @property
    def label(self) -> str:
        """Its name in reports: of a user's, that of the function."""
        return self.name.rpartition(":")[2]

    @property
    def rejects(self) -> bool:
        """Returns whether it takes moves back with these options."""
        return self.entry.rejects and self.options.get("rejects", True)


def of_section(
    config: Config,
    field: str,
    name: str,
    allowed: Mapping[str, table.SamplerEntry],
    **shared: Any,
) -> Chosen:
    """Returns the sampler whose fields are in a section ``config.sampler.<name>``.

    Args:
      config: of the run.
      field: that names the sampler, such as "sampler.name".
      name: its value.
      allowed: the family's part of the table.
      shared: values of fields that the family has in another section.

    Raises:
      ConfigError: if ``name`` is not in ``allowed``.
    """
    if is_users(name):
        arguments = [*inspect.signature(find_function(field, name)).parameters]
        usual = {"step_size": table.SAMPLERS["sgld"].fields["step_size"]}
        first = arguments[:1] or ["log_density_fn"]
        part = find_part(config, field, name, first, ("axis_name",), usual)
        chosen = Chosen(name, "config.sampler.options", part.options, part)
        if chosen.entry.interacts and not any(one.interacts for one in allowed.values()):
            raise ConfigError(
                f"config.{field}={name!r} moves all chains together (its attribute interacts), and "
                f"here each chain moves alone: take one of {sorted(allowed)}, or another function."
            )
    else:
        pick(field, name, allowed)
        chosen = Chosen(name, f"config.sampler.{name}", dict(config.sampler.get(name, {})))
    known = {*chosen.entry.fields, *chosen.options}
    options = {**chosen.options, **{key: v for key, v in shared.items() if key in known}}
    if chosen.part is None and options.get("noise_scale") is not None:
        options.pop("temperature", None)  # the noise sets it
    return chosen._replace(options=options)


def temperature(chosen: Chosen) -> Any:
    """Returns the T of the density that the chains follow; None for a sampler without one.

    A noise that is given sets it: ``noise_scale^2 / (2 step_size)``.
    """
    noise = chosen.options.get("noise_scale")
    if noise is None or "temperature" not in chosen.entry.fields:
        return chosen.options.get("temperature")
    return noise**2 / (2.0 * chosen.options["step_size"])


def noise_scale(chosen: Chosen) -> Any:
    """Returns the noise of a Langevin move: the section's, else that of step and temperature."""
    given = chosen.options.get("noise_scale")
    if given is not None:
        return given
    return math.sqrt(2.0 * chosen.options["step_size"] * chosen.options["temperature"])


def check(section: Config, samplers: Sequence[Chosen]) -> None:
    """Raises ConfigError for what makes no chain, before anything compiles.

    Args:
      section: ``config.sampler``.
      samplers: all that share its box.
    """
    box, names = section.get("box", "none"), [one.name for one in samplers]
    low, high, has_box = section.get("low", -1.0), section.get("high", 1.0), box != "none"
    each = section.get("num_samples", 2 * len(samplers)) // max(len(samplers), 1)
    is_moved = any(one.rejects for one in samplers)
    # Outside the density is zero: no move of such a chain would ever be accepted.
    buffer = section.get("buffer", {"start": "uniform", "start_scale": 1.0})
    reach = buffer["start_scale"] if buffer["start"] == "uniform" else 1.0
    is_inside = buffer["start"] not in ("gaussian", "data") and low <= -reach and reach <= high
    refused = {
        f"num_samples must be at least 2 for {names}, whose particles move by each other, got "
        f"{each}": each < 2 and any(one.entry.interacts for one in samplers),
        f"final_step_fraction must be 1 for {names}, of which one has no argument step_size": (
            is_annealed(section) and any("step_size" not in one.options for one in samplers)
        ),
        f"box must be none for {names}, whose Gaussian has no walls, got {box!r}: set "
        "--config.sampler.box=none": has_box and not table.TILTING.keys().isdisjoint(names),
        f"low must be below config.sampler.high={high:g}, got {low:g}": has_box and low >= high,
        f"box must be none or clamp for {names}, got {box!r}": (
            box not in ("none", "clamp")
            and any(one.entry.needs == table.FIRST_LAYER for one in samplers)
        ),
        f"box='reject' takes back moves over the ends, and {names} never take one back: take "
        "clamp, reflect or a sampler that rejects, such as mala": box == "reject" and not is_moved,
        f"box='reject' keeps chains in [{low:g}, {high:g}], and config.sampler.buffer.start="
        f"{buffer['start']!r} may start them outside, where no move is accepted: take uniform "
        "with a lower start_scale, or a wider box": box == "reject" and not is_inside,
    }
    for why, is_refused in refused.items():
        if is_refused:
            raise ConfigError(f"config.sampler.{why}.")


def is_annealed(section: Config) -> bool:
    """Returns whether steps fall along a chain."""
    return section.get("final_step_fraction", 1.0) != 1.0


def _hold_to_contract(part: UserPart, made: Any) -> Sampler[Any, Any]:
    """Returns the sampler ``made`` by a user's function; its mistakes name the contract."""

    def hold(is_held: Any, got: Any) -> None:
        if not is_held:
            raise ConfigError(
                f"config.{part.field}={part.name!r} must return a sampler with init(position) -> "
                "state with a field position, and step(key, state) -> (state, info), which keeps "
                f"shape and dtype of the position, such as ebmjax.types.Sampler; got {got}."
            )

    is_sampler = all(callable(getattr(made, name, None)) for name in ("init", "step"))
    hold(is_sampler, f"a {type(made).__name__}")

    @functools.wraps(made.init)
    def init(*given: Any) -> Any:
        with part.explain(" It is called as init(position)."):
            state = made.init(*given)
        has_position = hasattr(state, "position") or hasattr(state, "particles")
        hold(has_position, f"a state that is a {type(state).__name__}")
        return state

    @functools.wraps(made.step)
    def step(key: Any, state: Any) -> Any:
        with part.explain(" It is called as step(key, state)."):
            found = made.step(key, state)
        is_pair = isinstance(found, tuple) and len(found) == 2 and type(found) is not type(state)
        hold(is_pair, f"a {type(found).__name__} of step")
        with part.explain():
            before, after = (_shapes(one) for one in (state, found[0]))
        hold(before == after, f"{after} from {before}")
        return found

    return Sampler(init, step)


def _shapes(state: Any) -> Any:
    """Returns the shapes and dtypes of a state's positions."""
    describe = lambda leaf: f"{jnp.result_type(leaf)}{[*jnp.shape(leaf)]}"  # noqa: E731
    return jax.tree.map(describe, samplers.position_of(state))


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
      section: ``config.sampler``, of which the box and ``HABITS`` are read.
      base: Gaussians that a sampler tilts; None for N(0, I).
    """
    box, falls = section.get("box", "none"), is_annealed(section)
    options = dict(chosen.options)
    if chosen.entry.needs == table.BASE:
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
        make = functools.partial(chosen.make, **options)
        if chosen.entry.needs == table.FIRST_LAYER:
            ends = {"low": low, "high": high} if box == "clamp" else {}
            if getattr(log_density_fn, "first_layer", None) is None or log_density_fn.head is None:
                raise ConfigError(
                    f"the sampler {chosen.name!r} needs a network split after its first layer. Your"
                    " own must be a Linen module with methods first_layer and head, or a Network "
                    "that has both."
                )
            return make(log_density_fn, max_score=max_score, **ends)
        if falls:
            make = _anneal(make, options, final_step_fraction, section.num_steps)
        if max_score is not None:
            log_density_fn = samplers.clip_score(log_density_fn, max_score)
        if box == "reflect":
            make = samplers.reflect(make, low, high)
        elif box == "reject" and chosen.rejects:
            log_density_fn = densities.within_box(log_density_fn, low, high)
        elif box != "none":  # beside one that rejects, others are projected
            make = samplers.clamp(make, low, high)
        return make(log_density_fn, **given)

    habits = {name: section.get(name) for name in HABITS}
    return functools.partial(make_bound, options=options, **habits)


def chain_kind(
    chosen: Chosen,
    section: Config,
    base: samplers.FactorGaussian | None,
    axis_name: AxisName,
) -> ChainKind:
    """Returns the chains of a sampler in training, see ``bind_sampler``.

    ``axis_name`` is of the shards whose interacting samples are one system.
    """
    entry = chosen.entry
    return ChainKind(
        sampler=bind_sampler(chosen, section, base),
        num_steps=section.num_steps,
        target_acceptance=section.get("target_acceptance") if entry.adapts else None,
        is_interacting=entry.interacts,
        axis_name=axis_name if entry.interacts else None,
        step_size=chosen.options.get("step_size", 1.0),
        memory=entry.memory,
    )


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
