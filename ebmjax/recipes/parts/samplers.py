"""Samplers that configurations name: signatures are their fields, facts stand on the functions.

``of_section`` reads one from a configuration, and ``bind_sampler`` makes ``log_density_fn ->
Sampler`` of it, with clipping, box and annealing.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ebmjax import densities, samplers
from ebmjax._axes import AxisName
from ebmjax._ranges import POSITIVE, optional
from ebmjax.learning import ChainKind
from ebmjax.recipes.config.declare import Field, When, field, rare, read_fields, under
from ebmjax.recipes.config.errors import Config, ConfigError, pick
from ebmjax.recipes.config.user_parts import UserPart, find_function, find_part, is_users
from ebmjax.types import Sampler

STEPS_OF_A_REDRAW = 5
"""Steps of ``sampler.num_steps`` for which a chain that tilts an autoregressive base takes one."""
FIRST_LAYER, BASE = "first_layer", "base"
"""Needs of samplers: a density split after its first layer; a Gaussian of the training images."""

TEMPERATURE = "T of the density exp(-E / T) that the chains follow"
NO_FIELDS = {
    *("curvature_drift", "drive", "max_score", "num_steps"),  # other sections have them
    *("acceptance_threshold", "temperature_growth", "langevin_weight"),
}
"""Arguments of the library's samplers that are no fields of theirs."""


class SamplerEntry(NamedTuple):
    """A sampler that a configuration names, ours or the user's.

    The last four are facts of bound forms, see ``ebmjax.samplers``.

    Attributes:
      make: function of a log density and hyperparameters.
      fields: hyperparameters by name. A "noise_scale" that is set takes the place of "temperature".
      needs: "", ``FIRST_LAYER`` or ``BASE``. A sampler that needs the first layer also takes the
        box and the clipping as arguments, for its inner moves.
    """

    make: Callable[..., Any]
    fields: Mapping[str, Field]
    needs: str = ""
    rejects: bool = False
    adapts: bool = False
    interacts: bool = False
    memory: tuple[str, ...] = ()


def describe(
    make: Callable[..., Any], of: Callable[..., Any] | None = None, needs: str = "", **defaults: Any
) -> SamplerEntry:
    """Returns the entry of a sampler. The noise of one that rejects follows its temperature.

    Args:
      make: the function, whose fields and facts are read.
      of: sampler of the library that ``make`` gives further options to: it has the facts and those
        fields.
      needs: see ``SamplerEntry``.
      defaults: in place of the signature's.
    """
    defaults = {"step_size": 0.01, **defaults}
    fields = read_fields(of or make, **defaults) | read_fields(make, **defaults)
    facts = {name: getattr(of or make, name, None) for name in SamplerEntry._fields[3:]}
    left_out = NO_FIELDS | ({"noise_scale"} if facts["rejects"] else set())
    fields = {name: one for name, one in fields.items() if name not in left_out}
    if one := fields.get("temperature"):
        fields["temperature"] = field(one.default or 1.0, POSITIVE, TEMPERATURE)
    return SamplerEntry(make, fields, needs, **{k: v for k, v in facts.items() if v is not None})


def proximal_sgld(
    log_density_fn: Any, *, max_drift: Annotated[Any, POSITIVE] = 1.0, **options: Any
) -> samplers.Sampler:
    """Returns SGLD whose drift is clipped, as in JEM++ and SADA-JEM.

    Args:
      max_drift: largest drift of a coordinate at a step.
    """
    return samplers.clip_drift(samplers.sgld, max_drift)(log_density_fn, **options)


def tempered_mala(
    log_density_fn: Any, *, step_size: Any, temperature: Annotated[Any, POSITIVE] = 1.0, **more: Any
) -> samplers.Sampler:
    """Returns tempered MALA whose first moves are MALA's of the same step.

    The library divides the step by the temperature; here it is multiplied by it first.

    Args:
      temperature: T at the start.
    """
    return samplers.tempered_mala(
        log_density_fn, step_size=step_size * temperature, temperature=temperature, **more
    )


def pyld(density: Any, **options: Any) -> samplers.Sampler:
    """Returns PYLD on a density with the attributes ``first_layer`` and ``head``."""
    return samplers.pyld(density.first_layer, density.head, **options)


SAMPLERS: dict[str, SamplerEntry] = {
    "gradient_descent": describe(samplers.gradient_descent),
    "sgld": describe(samplers.sgld),
    "proximal_sgld": describe(proximal_sgld, samplers.sgld),
    "psgld": describe(samplers.psgld),
    "mala": describe(samplers.mala),
    "tempered_mala": describe(tempered_mala, samplers.tempered_mala),
    "underdamped_langevin": describe(samplers.underdamped_langevin),
    "tilted_langevin": describe(
        samplers.tilted_langevin, needs=BASE, step_size=0.2, temperature=0.01
    ),
    "svgd": describe(samplers.svgd),
    "adaptive_svgd": describe(samplers.adaptive_svgd),
    "stochastic_svgd": describe(samplers.stochastic_svgd),
    "hmc": describe(samplers.hmc, num_integration_steps=3),
    "pyld": describe(pyld, samplers.pyld, FIRST_LAYER, num_inner=5, noise_scale=0.0),
}

PLAIN = {name: entry for name, entry in SAMPLERS.items() if not entry.needs}
"""Samplers on a density that is one function and their whole target."""
SINGLE = {name: entry for name, entry in PLAIN.items() if not entry.interacts}
"""Those of them that move one chain at a time."""
TILTING = {name: entry for name, entry in SAMPLERS.items() if entry.needs == BASE}
"""Samplers whose target is the density that they are given times a base density of images."""


def defaults(name: str) -> dict[str, Any]:
    """Returns the table's values of the hyperparameters of a sampler."""
    return {key: one.default for key, one in SAMPLERS[name].fields.items()}


def sections(
    names: Iterable[str], words: str, named: Callable[[Any], Iterable[str]], *left_out: str
) -> dict[str, Field]:
    """Returns the fields of samplers, ``sampler.<name>.<field>``, for a family.

    Those whose step can adapt have ``sampler.target_acceptance`` besides.

    Args:
      names: samplers of the table that the family offers.
      words: field that names them, for messages.
      named: function from a configuration to the samplers that it names.
      left_out: fields that the family lacks, or has in another section.
    """
    able = [name for name in names if SAMPLERS[name].adapts]
    needs = f"a sampler whose step can adapt, config.{words}={' or '.join(able)}"
    adapts = When(needs, lambda config: not set(able).isdisjoint(named(config)))
    text = "acceptance that the step adapts to; None: fixed"
    made = {"sampler.target_acceptance": rare(None, optional(POSITIVE), text, adapts)}
    for name in names:
        when = When(f"config.{words}={name}", lambda config, name=name: name in named(config))
        own = {f"sampler.{name}.{key}": one for key, one in SAMPLERS[name].fields.items()}
        noise, temperature = f"sampler.{name}.noise_scale", f"sampler.{name}.temperature"
        if {noise, temperature} <= own.keys():
            none = When(f"no config.{noise}", lambda config, noise=noise: config.get(noise) is None)
            own[noise] = replace(own[noise], off=None)
            own[temperature] = replace(own[temperature], when=(none,))
        made |= under(own, when)
    return {name: one for name, one in made.items() if name.split(".")[-1] not in left_out}


class Chosen(NamedTuple):
    """A sampler of the table with the hyperparameters that a configuration gives it.

    Attributes:
      name: in the table.
      options: every field of its entry, by name.
      entry: its row of the table, or that of the user's function, with these options.
    """

    name: str
    options: Mapping[str, Any]
    entry: SamplerEntry


def of_section(
    config: Config, field: str, name: str, allowed: Mapping[str, SamplerEntry], **shared: Any
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
        usual = {"step_size": SAMPLERS["sgld"].fields["step_size"]}
        arguments = [*inspect.signature(find_function(field, name)).parameters]
        first = arguments[:1] or ["log_density_fn"]
        part = find_part(config, field, name, first, ("axis_name",), usual)
        entry, options = describe_users(part), part.options
        if entry.interacts and not any(one.interacts for one in allowed.values()):
            raise ConfigError(
                f"config.{field}={name!r} moves all chains together (its attribute interacts), and "
                f"here each chain moves alone: take one of {sorted(allowed)}, or another function."
            )
    else:
        entry, options = pick(field, name, allowed), config.sampler.get(name, {})
    known = {*entry.fields, *options}
    options = {**options, **{key: value for key, value in shared.items() if key in known}}
    if not is_users(name) and options.get("noise_scale") is not None:
        options.pop("temperature", None)  # the noise sets it
    rejects = entry.rejects and options.get("rejects", True)
    return Chosen(name, options, entry._replace(rejects=rejects))


def temperature(chosen: Chosen) -> Any:
    """Returns the T of the density that the chains follow; None for a sampler without one.

    A noise that is given sets it: ``noise_scale^2 / (2 step_size)``.
    """
    noise = chosen.options.get("noise_scale")
    if noise is None or "temperature" not in chosen.entry.fields:
        return chosen.options.get("temperature")
    return noise**2 / (2.0 * chosen.options["step_size"])


def check(section: Config, samplers: Sequence[Chosen]) -> None:
    """Raises ConfigError for what makes no chain of a model of data, before anything compiles.

    Args:
      section: ``config.sampler``.
      samplers: all that share its box.
    """
    box, low, high, buffer = section.box, section.low, section.high, section.buffer
    names, has_box = [one.name for one in samplers], box != "none"
    each = section.num_samples // len(samplers)
    is_moved = any(one.entry.rejects for one in samplers)
    # Outside the density is zero: no move of such a chain would ever be accepted.
    reach = buffer.start_scale if buffer.start == "uniform" else 1.0
    is_inside = buffer.start not in ("gaussian", "data") and low <= -reach and reach <= high
    refused = {
        f"num_samples must be at least 2 for {names}, whose particles move by each other, got "
        f"{each}": each < 2 and any(one.entry.interacts for one in samplers),
        f"final_step_fraction must be 1 for {names}, of which one has no argument step_size": (
            section.get("final_step_fraction", 1.0) != 1.0
            and any("step_size" not in one.options for one in samplers)
        ),
        f"low must be below config.sampler.high={high:g}, got {low:g}": has_box and low >= high,
        f"box must be none or clamp for {names}, got {box!r}": (
            box not in ("none", "clamp") and any(one.entry.needs == FIRST_LAYER for one in samplers)
        ),
        f"box='reject' takes back moves over the ends, and {names} never take one back: take "
        "clamp, reflect or a sampler that rejects, such as mala": box == "reject" and not is_moved,
        f"box='reject' keeps chains in [{low:g}, {high:g}], and config.sampler.buffer.start="
        f"{buffer.start!r} may start them outside, where no move is accepted: take uniform "
        "with a lower start_scale, or a wider box": box == "reject" and not is_inside,
    }
    for why, is_refused in refused.items():
        if is_refused:
            raise ConfigError(f"config.sampler.{why}.")


def describe_users(part: UserPart) -> SamplerEntry:
    """Returns the row of a user's function. Mistakes of its sampler name the contract."""
    return describe(part.function)._replace(make=functools.partial(_make_users, part))


def _make_users(part: UserPart, log_density_fn: Any, **hyperparameters: Any) -> Sampler[Any, Any]:
    made = part.call(log_density_fn, **hyperparameters)
    must = (
        "return a sampler with init(position) -> state with a field position, and step(key, state) "
        "-> (state, info), which keeps shape and dtype of the position, such as "
        "ebmjax.types.Sampler"
    )
    is_sampler = all(callable(getattr(made, name, None)) for name in ("init", "step"))
    part.hold(is_sampler, must, f"a {type(made).__name__}")

    @functools.wraps(made.init)
    def init(*given: Any) -> Any:
        with part.explain(" It is called as init(position)."):
            state = made.init(*given)
        has_position = hasattr(state, "position") or hasattr(state, "particles")
        part.hold(has_position, must, f"a state that is a {type(state).__name__}")
        return state

    @functools.wraps(made.step)
    def step(key: Any, state: Any) -> Any:
        with part.explain(" It is called as step(key, state)."):
            found = made.step(key, state)
        is_pair = isinstance(found, tuple) and len(found) == 2 and type(found) is not type(state)
        part.hold(is_pair, must, f"a {type(found).__name__} of step")
        with part.explain():
            before, after = (
                jax.tree.map(lambda x: f"{jnp.result_type(x)}{[*jnp.shape(x)]}", position)
                for position in map(samplers.position_of, (state, found[0]))
            )
        part.hold(before == after, must, f"{after} from {before}")
        return found

    return Sampler(init, step)


def is_autoregressive(base: Any) -> bool:
    """Returns whether chains that tilt ``base`` move by redraws."""
    return isinstance(base, samplers.Autoregressive)


def bind_sampler(chosen: Chosen, section: Config, base: Any = None) -> Callable[..., Any]:
    """Returns ``log_density_fn -> Sampler``, which also takes ``step_size=`` and ``axis_name=``.

    Scores are clipped first; then the box acts, and the step falls along the chain.
    ``learning.numbers_of`` finds its numbers.

    Args:
      chosen: already checked by ``chosen.check``.
      section: ``config.sampler``, of which the box and what every chain has are read.
      base: density that a sampler tilts; None for N(0, I). Where it is autoregressive, its redraws
        take the place of Langevin moves.
    """
    box = section.get("box", "none")
    of_all = ("max_score", "low", "high", "final_step_fraction")
    habits = {name: section.get(name) for name in of_all}
    options = {**chosen.options, **({"base": base} if chosen.entry.needs == BASE else {})}

    def make_bound(
        log_density_fn: Any, *, options: dict[str, Any], habits: dict[str, Any], **given: Any
    ) -> Any:
        max_score, low, high = habits["max_score"], habits["low"], habits["high"]
        make = functools.partial(chosen.entry.make, **options)
        if is_autoregressive(given.get("base", options.get("base"))):
            moves = {"base": options["base"], "temperature": options["temperature"], **given}
            return samplers.tilted_metropolis(log_density_fn, **moves)
        if chosen.entry.needs == FIRST_LAYER:
            ends = {"low": low, "high": high} if box == "clamp" else {}
            if getattr(log_density_fn, "first_layer", None) is None or log_density_fn.head is None:
                raise ConfigError(
                    f"the sampler {chosen.name!r} needs a network split after its first layer. Your"
                    " own must be a Linen module with methods first_layer and head, or a Network "
                    "that has both."
                )
            return make(log_density_fn, max_score=max_score, **ends)
        if section.get("final_step_fraction", 1.0) != 1.0:
            # Steps fall evenly along a training chain and then stay, at one temperature: a noise
            # that is given falls with the root of the step.
            last = max(section.num_steps - 1, 1)
            fraction = optax.linear_schedule(1.0, habits["final_step_fraction"], last)
            first, noise = given.get("step_size", options["step_size"]), options.get("noise_scale")
            given["step_size"] = lambda step: first * fraction(step)
            if noise is not None:
                given["noise_scale"] = lambda step: noise * jnp.sqrt(fraction(step))
            make = samplers.schedule(make)
        if max_score is not None:
            log_density_fn = samplers.clip_score(log_density_fn, max_score)
        if box == "reflect":
            make = samplers.reflect(make, low, high)
        elif box == "reject" and chosen.entry.rejects:
            log_density_fn = densities.within_box(log_density_fn, low, high)
        elif box != "none":  # beside one that rejects, others are projected
            make = samplers.clamp(make, low, high)
        return make(log_density_fn, **given)

    return functools.partial(make_bound, options=options, habits=habits)


def chain_kind(chosen: Chosen, section: Config, base: Any, axis_name: AxisName) -> ChainKind:
    """Returns the chains of a sampler in training, see ``bind_sampler``.

    ``axis_name`` is of the shards whose interacting samples are one system.
    """
    entry = chosen.entry
    redraws = entry.needs == BASE and is_autoregressive(base)
    adapts = entry.adapts and not redraws
    return ChainKind(
        sampler=bind_sampler(chosen, section, base),
        num_steps=-(-section.num_steps // STEPS_OF_A_REDRAW) if redraws else section.num_steps,
        target_acceptance=section.get("target_acceptance") if adapts else None,
        is_interacting=entry.interacts,
        axis_name=axis_name if entry.interacts else None,
        step_size=chosen.options.get("step_size", 1.0),
        memory=entry.memory,
    )
