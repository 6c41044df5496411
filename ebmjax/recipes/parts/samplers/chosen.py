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
from ml_collections import ConfigDict

from ebmjax import densities, samplers
from ebmjax._axes import AxisName
from ebmjax.learning import ChainKind
from ebmjax.recipes.config.errors import Config, ConfigError, pick
from ebmjax.recipes.config.user_parts import UserPart, find_function, find_part, is_users
from ebmjax.recipes.parts.samplers import table
from ebmjax.types import Sampler

# How far noise and temperature may be apart and still count as one chain's, relatively.
TOLERANCE = 0.01

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
    config: Config, field: str, name: str, allowed: Mapping[str, table.SamplerEntry]
) -> Chosen:
    """Returns the sampler whose fields are in a section ``config.sampler.<name>``.

    Args:
      config: of a family with a section a sampler.
      field: that names the sampler, such as "sampler.name".
      name: its value.
      allowed: the family's part of the table.

    Raises:
      ConfigError: if ``name`` is not in ``allowed``.
    """
    if is_users(name):
        return _of_user(config, field, name, allowed)
    pick(field, name, allowed)
    section = config.sampler.get(name, ConfigDict())
    return Chosen(name, f"config.sampler.{name}", section.to_dict())


def _of_user(
    config: Config, field: str, name: str, allowed: Mapping[str, table.SamplerEntry]
) -> Chosen:
    """Returns the sampler that a function of the user makes, with ``config.sampler.options``."""
    arguments = [*inspect.signature(find_function(field, name)).parameters]
    if not arguments:
        raise ConfigError(
            f"config.{field}={name!r} must take the log density, and has no argument."
        )
    usual = {"step_size": table.LANGEVIN["step_size"]}
    part = find_part(config, field, name, arguments[:1], ("axis_name",), usual)
    chosen = Chosen(name, "config.sampler.options", part.options, part)
    if chosen.entry.interacts and not any(one.interacts for one in allowed.values()):
        raise ConfigError(
            f"config.{field}={name!r} moves all chains together (its attribute interacts), and "
            f"here each chain moves alone: take one of {sorted(allowed)}, or another function."
        )
    return chosen


def of_shared(config: Config, section: str, allowed: Mapping[str, table.SamplerEntry]) -> Chosen:
    """Returns the sampler that ``config.<section>.name`` names, with that section's step and noise.

    Its other fields are in ``config.sampler.<name>``.

    Raises:
      ConfigError: if it is not in ``allowed``, or a noise or temperature is set that it lacks.
    """
    values = config[section]
    chosen = of_section(config, f"{section}.name", values.name, allowed)
    known = {*chosen.entry.fields, *chosen.options}
    for key in table.SHARED:
        unset = table.LANGEVIN[key].default
        if key not in known and values[key] not in (None, unset):
            raise ConfigError(
                f"config.{section}.{key}={values[key]:g} has no effect here: {chosen.name} has no "
                f"{key}. Set --config.{section}.{key}={unset}."
            )
    shared = {key: values[key] for key in table.SHARED if key in known}
    return chosen._replace(where=f"config.{section}", options={**chosen.options, **shared})


def implied_temperature(chosen: Chosen) -> Any:
    """Returns ``noise_scale^2 / (2 step_size)``, which the noise of the moves is exact for.

    The temperature itself where that makes the noise; None for a sampler that has none.
    """
    options = chosen.options
    noise_scale = options.get("noise_scale")
    if noise_scale is None or "temperature" not in options:
        return options.get("temperature")
    return noise_scale**2 / (2.0 * options["step_size"])


def temperature(chosen: Chosen) -> Any:
    """Returns the T that the chains aim at: the section's, else the implied one; or None."""
    given = chosen.options.get("temperature")
    return implied_temperature(chosen) if given is None else given


def noise_scale(chosen: Chosen) -> Any:
    """Returns the noise of a Langevin move: the section's, else that of step and temperature."""
    given = chosen.options.get("noise_scale")
    if given is not None:
        return given
    return math.sqrt(2.0 * chosen.options["step_size"] * (temperature(chosen) or 0.0))


def hyperparameters(chosen: Chosen) -> dict[str, Any]:
    """Returns what ``entry.make`` takes besides the density.

    A sampler that rejects needs its target's temperature beside the noise of its moves. For others
    a given noise is all.
    """
    options = dict(chosen.options)
    if "temperature" in options and options["temperature"] is None:
        if chosen.entry.rejects:
            options["temperature"] = implied_temperature(chosen)
        else:
            del options["temperature"]
    return options


def larger(chosen: Chosen, factor: float) -> Chosen:
    """Returns the sampler with ``factor`` times the step, at the same temperature."""
    options = dict(chosen.options)
    if "step_size" not in options:
        return chosen
    options["step_size"] *= factor
    if options.get("noise_scale") is not None:
        options["noise_scale"] *= math.sqrt(factor)
    return chosen._replace(options=options)


def check(section: Config, samplers: Sequence[Chosen]) -> None:
    """Raises ConfigError for what makes no chain, before anything compiles.

    Args:
      section: ``config.sampler``.
      samplers: all that share its box.
    """
    num_particles = section.get("num_samples", 2 * len(samplers)) // max(len(samplers), 1)
    for chosen in samplers:
        _check_noise(chosen)
        if chosen.entry.interacts and num_particles < 2:
            raise ConfigError(
                "config.sampler.num_samples must be at least 2 for config.sampler.name="
                f"{chosen.name!r}, whose particles move by each other, got {num_particles}."
            )
        is_fixed = section.get("target_acceptance") is None or not chosen.entry.adapts
        if not is_fixed and chosen.options.get("noise_scale"):
            raise ConfigError(
                f"config.sampler.target_acceptance adapts the step of {chosen.name}, and the noise "
                f"must follow it: set --{chosen.where}.noise_scale=None and --{chosen.where}."
                f"temperature={implied_temperature(chosen):.3g}, what they imply now."
            )
        if is_annealed(section) and "step_size" not in chosen.options:
            raise ConfigError(
                "config.sampler.final_step_fraction lowers the step along a chain, and "
                f"{chosen.name!r} has no argument step_size: set it to 1, or add the argument."
            )
    _check_box(section, samplers)


def is_annealed(section: Config) -> bool:
    """Returns whether steps fall along a chain."""
    return section.get("final_step_fraction", 1.0) != 1.0


def _check_noise(chosen: Chosen) -> None:
    name, where, options = chosen.name, chosen.where, chosen.options
    if not {"noise_scale", "temperature"} <= set(options):
        return
    noise, target, rejects = options["noise_scale"], options["temperature"], chosen.entry.rejects
    if noise is None and target is None:
        raise ConfigError(
            f"{where} needs a noise_scale, which implies a temperature, or a temperature, which "
            "implies the noise; set one of them."
        )
    if not rejects and noise is not None and target is not None:
        raise ConfigError(
            f"{where} has both a noise_scale and a temperature, and {name} never rejects: its "
            f"noise sets its temperature. Set --{where}.temperature=None or "
            f"--{where}.noise_scale=None."
        )
    implied = implied_temperature(chosen)
    if rejects and implied == 0:
        raise ConfigError(
            f"{where}.noise_scale=0.0 implies the temperature 0: without noise {name} would reject "
            "all moves. Set a noise_scale above 0, or take sgld, which never rejects."
        )
    is_decoupled = abs(implied - temperature(chosen)) > TOLERANCE * implied
    is_meant = chosen.part is not None and getattr(chosen.part.function, "decoupled", False)
    if rejects and is_decoupled and not is_meant:
        raise ConfigError(
            f"{where}.step_size={options['step_size']:g} and noise_scale={noise:g} imply the "
            f"temperature {implied:.3g}, not temperature={target:g}: that is no Langevin chain. "
            f"Set --{where}.temperature=None or --{where}.noise_scale=None."
        )


def _check_box(section: Config, samplers: Sequence[Chosen]) -> None:
    box, names = section.get("box", "none"), [chosen.name for chosen in samplers]
    if box == "none":
        return
    if tilting := [*set(names) & set(table.TILTING)]:
        raise ConfigError(
            f"config.sampler.box must be none for {tilting[0]}, whose Gaussian has no walls; got "
            f"{box!r}: set --config.sampler.box=none."
        )
    if section.low >= section.high:
        raise ConfigError(
            f"config.sampler.low must be below config.sampler.high={section.high:g}, got "
            f"{section.low:g}."
        )
    for chosen in samplers:
        if chosen.entry.needs == table.FIRST_LAYER and box != "clamp":
            raise ConfigError(
                f"config.sampler.box={box!r} is none that {chosen.name!r} knows: take 'clamp' or "
                "'none'."
            )
    if box != "reject":
        return
    rejecting = sorted(chosen.name for chosen in samplers if chosen.rejects)
    if not rejecting:
        able = sorted(name for name, entry in table.SAMPLERS.items() if entry.rejects)
        raise ConfigError(
            f"config.sampler.box='reject' takes back moves over the ends, and {names} never take "
            "one back. Take 'clamp' or 'reflect', or a sampler that rejects, one of "
            f"{able}."
        )
    # Outside the density is zero: no move of such a chain would ever be accepted.
    buffer = section.buffer
    reach = buffer.start_scale if buffer.start == "uniform" else 1.0  # images are in [-1, 1]
    is_inside = section.low <= -reach and reach <= section.high
    if buffer.start in ("gaussian", "data") or not is_inside:
        raise ConfigError(
            f"config.sampler.box='reject' holds chains of {rejecting} in [{section.low:g}, "
            f"{section.high:g}], and config.sampler.buffer.start={buffer.start!r} may start them "
            "outside, where no move is ever accepted. Start them inside, "
            "config.sampler.buffer.start=uniform with a lower start_scale, or take a wider box."
        )


def _hold_to_contract(part: UserPart, made: Any) -> Sampler[Any, Any]:
    """Returns the sampler ``made`` by a user's function; its mistakes name the contract.

    Raises:
      ConfigError: if it is no sampler, at once or when a chain starts or moves.
    """
    must = f"config.{part.field}={part.name!r} must return a sampler with"
    if not callable(getattr(made, "init", None)) or not callable(getattr(made, "step", None)):
        raise ConfigError(
            f"{must} init(position) and step(key, state), such as ebmjax.types.Sampler; got a "
            f"{type(made).__name__}."
        )

    @functools.wraps(made.init)
    def init(*given: Any) -> Any:
        with part.explain(" It is called as init(position)."):
            state = made.init(*given)
        if not hasattr(state, "position") and not hasattr(state, "particles"):
            kind = type(state).__name__
            raise ConfigError(
                f"{must} init(position) -> state with a field position; got a {kind}."
            )
        return state

    @functools.wraps(made.step)
    def step(key: Any, state: Any) -> Any:
        with part.explain(" It is called as step(key, state)."):
            found = made.step(key, state)
            if not isinstance(found, tuple) or len(found) != 2 or type(found) is type(state):
                kind = type(found).__name__
                raise ConfigError(f"{must} step(key, state) -> (state, info); got a {kind}.")
            before, after = (_shapes(one) for one in (state, found[0]))
        if before != after:
            raise ConfigError(
                f"{must} step(key, state), whose positions keep their shape and dtype; got {after} "
                f"from {before}."
            )
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
      section: ``config.sampler``. Of it max_score, box, low, high and final_step_fraction are read
        where the family has them.
      base: Gaussians that a sampler tilts; None for N(0, I).
    """
    box, falls = section.get("box", "none"), is_annealed(section)
    options = hyperparameters(chosen)
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
            return _split(
                functools.partial(make, max_score=max_score, **ends), chosen.name, log_density_fn
            )
        if falls:
            make = _anneal(make, options, final_step_fraction, section.num_steps)
        if box != "none":
            make = in_box(make, box, low, high, rejects=chosen.rejects)
        if max_score is not None:
            log_density_fn = samplers.clip_score(log_density_fn, max_score)
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
