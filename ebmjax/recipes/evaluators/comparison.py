"""Samplers side by side on one learned energy of points, beside perfect chains."""

import inspect
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import metrics
from ebmjax import samplers as library
from ebmjax._phases import say_part
from ebmjax._ranges import COUNT, TWO_OR_MORE, WHOLE, one_of_or_function
from ebmjax.data import ImageData
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import UserPart, default_options, find_function, is_users
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.evaluators.density import (
    density_numbers,
    grid_draws,
    grid_of,
    learned_on_grid,
    why_not_normalised,
)
from ebmjax.recipes.evaluators.table import wants
from ebmjax.recipes.parts.samplers import Chosen, bind_sampler, defaults
from ebmjax.recipes.parts.samplers import check as check_samplers
from ebmjax.recipes.parts.samplers.table import PLAIN
from ebmjax.types import Key, LogDensityFn, PyTree

COMPARED_SAMPLERS = ("gradient_descent", "sgld", "psgld", "mala", "tempered_mala")
COMPARED_SAMPLERS += ("svgd", "stochastic_svgd", "hmc")
MIN_DRAWS = 4
"""Fewest draws that chains are judged by."""
FIELD = "evals.comparison.samplers"
MODE_RADIUS = 3.0
"""Radius of a mode in the Gaussians' standard deviations: 98.9 % of the mass."""


def comparison(
    key: Key,
    model: Any,
    data: ImageData,
    *,
    samplers: Annotated[Sequence[str], one_of_or_function(*PLAIN)] = COMPARED_SAMPLERS,
    num_chains: Annotated[int, TWO_OR_MORE] = 10,
    num_steps: Annotated[int, COUNT] = 5000,
    burn_in: Annotated[int, WHOLE] = 1000,
) -> Found:
    """Returns R-hat, effective samples, modes and distances of samplers in all ``SETTINGS``.

    They stand by setting and sampler, beside those of perfect chains and notes.

    Args:
      samplers: samplers that are compared
      num_chains: chains of each sampler
      num_steps: steps of a chain
      burn_in: first steps that are left out
    """
    del data
    log_density = learned_on_grid(model)
    start_key, chain_key, draw_key = jax.random.split(key, 3)
    start_keys = jax.random.split(start_key, num_chains)
    starts = jax.vmap(model.plan.start_fn, in_axes=(0, None))(start_keys, jnp.int32(0))
    length = num_steps - burn_in

    def log_density_of(params: PyTree) -> LogDensityFn:
        trained = model.trained._replace(params=params)
        return lambda point: model.class_log_densities(trained, point)[0]

    judge, references = find_references(draw_key, model, log_density, np.asarray(starts), length)
    report: dict[str, Any] = {"references": references}
    notes = []
    if "model" not in references:
        why = why_not_normalised(density_numbers(model, log_density)["border_mass"])
        notes.append(f"{why} Nothing is compared with it.")
    arrays: dict[str, Any] = {"log_density": log_density, "starts": np.asarray(starts)}
    for setting in SETTINGS:
        report[setting] = {}
        for i, name in enumerate(samplers):
            chosen = sampler_in(setting, name)
            say_part(f"{num_chains} chains of {chosen.label}, {setting}")
            positions, numbers = run_chains(
                jax.random.fold_in(chain_key, i),
                starts,
                log_density_of,
                model.params,
                chosen,
                num_steps=num_steps,
                burn_in=burn_in,
            )
            arrays[f"{setting}.{chosen.label}"] = positions
            numbers = judge(positions[:, burn_in:]) | numbers
            for size in ("ess", "ess_within"):
                numbers[f"{size}_per_second"] = numbers[size] / numbers["seconds"]
            report[setting][chosen.label] = numbers
            if numbers["temperature"] > 1:
                notes.append(
                    f"{chosen.label} ({setting}) ended at a mean temperature of "
                    f"{numbers['temperature']:.3g}: it follows a flatter density."
                )
    return Found(report | {"notes": notes}, arrays=arrays)


def find_references(
    key: Key, model: Any, log_density: np.ndarray, starts: np.ndarray, length: int
) -> tuple[Callable[..., dict[str, float]], dict[str, dict[str, float]]]:
    """Returns what judges draws (chains, n, 2), and the numbers of independent draws.

    "data" are fresh points. "model" follow the learned density on the grid. So do "locked"
    chains, which never leave the part of the plane, a mode, that they start in.
    """
    grid, truth = grid_of(model.config), model.truth
    num = model.config.evals.density.num_samples
    data_key, fresh_key, model_key, grid_key = jax.random.split(key, 4)
    shape = (len(starts), length, 2)
    fresh = np.asarray(truth.draw(fresh_key, shape[0] * length)).reshape(shape)
    judge = partial(
        draws_numbers,
        data=np.asarray(truth.draw(data_key, num)),
        model=None,
        means=truth.means,
        num=num,
    )
    if not density_numbers(model, log_density)["is_normalisable"]:
        return judge, {"data": judge(fresh)}
    judge = partial(judge, model=grid_draws(model_key, log_density, grid, num))
    parts = truth.part_of(grid.centres).reshape(log_density.shape)
    first, *keys = jax.random.split(grid_key, len(starts) + 1)
    locked = [
        grid_draws(one, np.where(parts == part, log_density, -np.inf), grid, length)
        for one, part in zip(keys, truth.part_of(starts), strict=True)
    ]
    perfect = grid_draws(first, log_density, grid, shape[0] * length).reshape(shape)
    return judge, {
        "data": judge(fresh),
        "model": judge(perfect),
        "locked": judge(np.stack(locked)),
    }


def run_chains(
    key: Key,
    starts: jax.Array,
    log_density_of: Callable[[PyTree], LogDensityFn],
    params: PyTree,
    chosen: Chosen,
    *,
    num_steps: int,
    burn_in: int,
) -> tuple[np.ndarray, dict[str, float]]:
    """Runs ``num_steps`` of a sampler from ``starts`` (chains, 2), twice, and times it once.

    Returns:
      Positions (chains, steps, 2), burn-in included. And numbers: "acceptance_prob", its mean after
      the burn-in; "temperature", the mean over chains of the last one; and "seconds" of all steps
      of all chains. The first two are NaN for a sampler that has none.
    """
    bound, is_interacting = bind_sampler(chosen, {}), chosen.entry.interacts

    def move(key: Key, starts: jax.Array, params: PyTree) -> tuple[jax.Array, Any, Any]:
        sampler = bound(log_density_of(params))
        if is_interacting:
            state, step = sampler.init(starts), sampler.step
        else:
            state = library.start_chains(key, sampler, starts)
            step = library.batch_step(sampler.step)
        _, positions, infos = library.run_chain(key, state, step, num_steps)
        positions = jnp.swapaxes(positions, 0, 1) if is_interacting else positions
        acceptance_prob = temperature = jnp.nan
        if library.acceptance_of(infos) is not None:
            accepted = library.acceptance_of(infos)[:, burn_in:]
            acceptance_prob = jnp.mean(jnp.mean(accepted, axis=-1))
        if hasattr(infos, "temperature"):
            temperature = jnp.mean(infos.temperature[:, -1])
        return positions, acceptance_prob, temperature

    program = jax.jit(move)
    jax.block_until_ready(program(key, starts, params))
    began = time.perf_counter()
    found = jax.block_until_ready(program(key, starts, params))
    seconds = time.perf_counter() - began
    numbers = dict(zip(("acceptance_prob", "temperature"), map(float, found[1:]), strict=True))
    return np.asarray(found[0]), numbers | {"seconds": seconds}


def draws_numbers(
    draws: np.ndarray,
    *,
    data: np.ndarray,
    model: np.ndarray | None,
    means: np.ndarray,
    num: int,
) -> dict[str, float]:
    """Returns numbers of ``draws`` (chains, n, 2).

    Args:
      draws: draws after the burn-in.
      data: (m, 2), fresh points of the data.
      model: (m, 2), independent draws from the learned density, or None.
      means: (modes, 2).
      num: number of draws for the distances, evenly spaced in every chain; a few more if the chains
        do not divide it.

    Returns:
      R-hat by both definitions (the larger of the coordinates), effective sample sizes (the
      smaller), energy distances, and the visits of modes. All NaN if a draw is not finite.
    """
    names = ("rhat_classic", "rhat_rank", "ess", "ess_within")
    visits = mode_visits(draws, means)
    if not np.isfinite(draws).all():
        return dict.fromkeys((*names, "distance_to_data", "distance_to_model"), math.nan) | visits
    numbers: dict[str, float] = dict(zip(names, map(float, _diagnostics(draws)), strict=True))
    distance = partial(metrics.energy_distance, spread_draws(draws, num))
    numbers["distance_to_data"] = distance(data)
    numbers["distance_to_model"] = math.nan if model is None else distance(model)
    return numbers | visits


def spread_draws(draws: np.ndarray, num: int) -> np.ndarray:
    """Takes equally many ``draws`` (chains, n, 2) of every chain, at least ``num`` if possible."""
    num_chains, length = draws.shape[:2]
    kept = min(-(-num // num_chains), length)
    return draws[:, np.arange(kept) * length // kept].reshape(-1, 2)


@jax.jit
def _diagnostics(draws: jax.Array) -> tuple[jax.Array, ...]:
    """Returns classic and rank-normalised R-hat, effective size, and the sum of single chains'."""
    scale_reduction = partial(metrics.potential_scale_reduction, allow_few_draws=True)
    sample_size = partial(metrics.effective_sample_size, allow_few_draws=True)
    alone = jax.vmap(sample_size)(draws[:, None])
    return (
        jnp.max(scale_reduction(draws, method="classic")),
        jnp.max(scale_reduction(draws)),
        jnp.min(sample_size(draws)),
        jnp.min(jnp.sum(alone, axis=0)),
    )


def mode_visits(draws: np.ndarray, means: np.ndarray) -> dict[str, float]:
    """Returns visits of ``draws`` (chains, n, 2): modes found and changes of mode.

    A draw is in a mode if it is nearer than ``MODE_RADIUS`` and than half the way to the next mode.
    "inside" is the share of such draws, "crossings" the changes of mode a chain.
    """
    between = _distances(means, means)
    radius = min(MODE_RADIUS, np.min(between[between > 0], initial=np.inf) / 2)
    distances = _distances(draws, means)
    modes = np.where(np.min(distances, axis=-1) < radius, np.argmin(distances, axis=-1), -1)
    crossings = [np.count_nonzero(np.diff(chain[chain >= 0])) for chain in modes]
    return {
        "modes": float(len(set(modes[modes >= 0].tolist()))),
        "inside": float(np.mean(modes >= 0)),
        "crossings": float(np.mean(crossings)),
    }


def _distances(positions: np.ndarray, means: np.ndarray) -> np.ndarray:
    """(..., modes)."""
    return np.linalg.norm(positions[..., None, :] - means, axis=-1)


def _setting(leapfrogs: int, **step_sizes: float) -> dict[str, dict[str, Any]]:
    """Returns the options of samplers by name; the others are the table's, at temperature 1."""
    options: dict[str, dict[str, Any]] = {k: {"step_size": v} for k, v in step_sizes.items()}
    options["hmc"]["num_integration_steps"] = leapfrogs
    return options


SETTINGS = {
    "thesis": _setting(10, **dict.fromkeys(COMPARED_SAMPLERS, 0.01)),
    "tuned": _setting(
        3,
        gradient_descent=0.5,
        sgld=0.1,
        psgld=0.1,
        mala=1.0,
        tempered_mala=2.0,
        svgd=3.0,
        stochastic_svgd=2.0,
        hmc=0.2,
    ),
}
"""Settings in which every sampler runs: the thesis's steps, and ones to use."""


def sampler_in(setting: str, name: str) -> Chosen:
    """Returns a sampler of ``evals.comparison.samplers`` as a setting has it.

    A function of the user aims at temperature 1, too. It has the thesis's step, or its own default.

    Raises:
      ConfigError: if there is no such function, or it has an argument without a default.
    """
    where = f"config.{FIELD}"
    if not is_users(name):
        return Chosen(name, where, defaults(name) | SETTINGS[setting].get(name, {}))
    function = find_function(FIELD, name)
    density, *others = inspect.signature(function).parameters
    usual = {"noise_scale": None, "temperature": 1.0}
    if setting == "thesis":
        usual["step_size"] = 0.01
    options = default_options(function, (density, "axis_name"))
    options |= {key: value for key, value in usual.items() if key in others}
    bare = [one for one in others if one not in (*options, "axis_name")]
    if bare:
        raise ConfigError(
            f"{where}={name!r} has arguments {bare} without a value. Give them defaults, in the "
            "function's signature or in FIELDS of its file."
        )
    return Chosen(name, where, options, UserPart(FIELD, name, function, {}))


def check_fields(config: Config) -> None:
    """Raises ConfigError at the first pair of fields of density and comparison that is wrong."""
    density = config.evals.density
    width = 2 * density.half_width / density.grid_points
    if wants(config, "density") and density.bandwidth < width:
        raise ConfigError(
            f"config.evals.density.bandwidth={density.bandwidth} must be at least the width of a "
            f"cell, {width:.3g}. Take more config.evals.density.grid_points."
        )
    if not wants(config, "comparison"):
        return
    section = config.evals.comparison
    if not wants(config, "density"):
        raise ConfigError(
            "config.evals.comparison compares samplers on the grid of the density, and "
            "config.evals.density.every='never': set --config.evals.density.every=end."
        )
    if not section.samplers:
        raise ConfigError(f"config.{FIELD} must name at least one sampler, got none.")
    chosen = [sampler_in("tuned", name) for name in section.samplers]
    if len({one.label for one in chosen}) < len(chosen):
        raise ConfigError(
            f"config.{FIELD} must name each function once, whatever its file, because the report "
            f"has the names; got {section.samplers}."
        )
    check_samplers({}, chosen)
    if section.burn_in > section.num_steps - MIN_DRAWS:
        raise ConfigError(
            f"config.evals.comparison.burn_in must leave at least {MIN_DRAWS} of "
            f"config.evals.comparison.num_steps={section.num_steps} to judge the chains by, got "
            f"{section.burn_in}."
        )
