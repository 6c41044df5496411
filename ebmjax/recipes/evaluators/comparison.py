"""Samplers side by side on one learned energy of points, beside perfect chains."""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from ebmjax import metrics
from ebmjax import samplers as library
from ebmjax._phases import say_part
from ebmjax._ranges import TWO_OR_MORE, one_of_or_function
from ebmjax.data import ImageData
from ebmjax.recipes.config.user_parts import UserPart, default_options, find_function, is_users
from ebmjax.recipes.evaluators import Found, density
from ebmjax.recipes.parts.samplers import PLAIN, Chosen, bind_sampler, defaults, describe_users
from ebmjax.types import Key

FIELD = "evals.comparison.samplers"
MODE_RADIUS = 3.0
"""Radius of a mode in the Gaussians' standard deviations: 98.9 % of the mass."""
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "thesis": {"hmc": {"num_integration_steps": 10}},
    "tuned": {
        "gradient_descent": {"step_size": 0.5},
        "sgld": {"step_size": 0.1},
        "psgld": {"step_size": 0.1},
        "mala": {"step_size": 1.0},
        "tempered_mala": {"step_size": 2.0},
        "svgd": {"step_size": 3.0},
        "stochastic_svgd": {"step_size": 2.0},
        "hmc": {"step_size": 0.2},
    },
}
"""Options by setting and sampler, beside the table's: the thesis's step of 0.01, and tuned ones."""


def comparison(
    key: Key,
    model: Any,
    data: ImageData,
    *,
    samplers: Annotated[Sequence[str], one_of_or_function(*PLAIN)] = (*SETTINGS["tuned"],),
    num_chains: Annotated[int, TWO_OR_MORE] = 10,
    num_steps: Annotated[int, TWO_OR_MORE] = 5000,
) -> Found:
    """Returns R-hat, effective samples and distances of samplers in all ``SETTINGS``.

    They stand by setting and sampler, beside those of chains that never leave their mode. The first
    fifth of a chain is burn-in.

    Args:
      samplers: samplers that are compared
      num_chains: chains of each sampler
      num_steps: steps of a chain
    """
    del data
    start_key, chain_key, draw_key = jax.random.split(key, 3)
    start_keys = jax.random.split(start_key, num_chains)
    starts = jax.vmap(model.plan.start_fn, in_axes=(0, None))(start_keys, jnp.int32(0))
    burn_in = num_steps // 5
    judge, references = find_references(
        draw_key, model, density.learned_on_grid(model), np.asarray(starts), num_steps - burn_in
    )
    log_density = Partial(model.log_density, model.trained)
    report: dict[str, Any] = {"references": references}
    for setting in SETTINGS:
        report[setting] = {}
        for i, name in enumerate(samplers):
            chosen, label = choose(name, setting), name.rpartition(":")[2]
            say_part(f"{num_chains} chains of {label}, {setting}")
            one = jax.random.fold_in(chain_key, i)
            draws, numbers = run_chains(one, starts, log_density, chosen, num_steps, burn_in)
            numbers |= judge(draws)
            for size in ("ess", "ess_within"):
                numbers[f"{size}_per_second"] = numbers[size] / numbers["seconds"]
            report[setting][label] = numbers
    return Found(report)


def check(model: Any, data: ImageData, *, samplers: Sequence[str], **_: Any) -> None:
    """Refuses a grid that does not hold the data, and samplers that cannot be made."""
    density.check(model, data)
    for setting in SETTINGS:
        for name in samplers:
            bind_sampler(choose(name, setting), {})(jnp.sum)


def choose(name: str, setting: str) -> Chosen:
    """Returns a sampler at temperature 1; a user's has the thesis's step, or its own default."""
    if not is_users(name):
        return Chosen(name, defaults(name) | SETTINGS[setting].get(name, {}), PLAIN[name])
    function = find_function(FIELD, name)
    usual: dict[str, Any] = {"noise_scale": None, "temperature": 1.0}
    usual |= {"step_size": 0.01} if setting == "thesis" else {}
    options = {k: usual.get(k, v) for k, v in default_options(function, ("axis_name",)).items()}
    entry = describe_users(UserPart(FIELD, name, function, {}))
    return Chosen(name, options, entry)


def find_references(
    key: Key, model: Any, log_density: np.ndarray, starts: np.ndarray, length: int
) -> tuple[Callable[[np.ndarray], dict[str, float]], dict[str, dict[str, float]]]:
    """Returns a judge of draws (chains, n, 2), and the numbers of "locked" chains.

    These draw independently from the learned density, in the mode that they start in. There are
    none if the grid cannot normalise it.
    """
    grid, truth = density.grid_of(model.config), model.truth
    num = model.config.evals.density.num_samples
    data_key, _, model_key, grid_key = jax.random.split(key, 4)
    data = np.asarray(truth.draw(data_key, num))
    judge = partial(draws_numbers, data=data, model=None, means=truth.means, num=num)
    if grid.border_mass(log_density) > density.MAX_BORDER_MASS:
        return judge, {}
    judge = partial(judge, model=grid.draw(model_key, log_density, num))
    mode_of = lambda x: np.argmin(_distances(x, truth.means), axis=-1)  # noqa: E731
    modes = mode_of(grid.centres).reshape(log_density.shape)
    keys = jax.random.split(grid_key, len(starts) + 1)[1:]
    locked = [
        grid.draw(one, np.where(modes == mode, log_density, -np.inf), length)
        for one, mode in zip(keys, mode_of(starts), strict=True)
    ]
    return judge, {"locked": judge(np.stack(locked))}


def run_chains(
    key: Key, starts: jax.Array, log_density: Partial, chosen: Chosen, num_steps: int, burn_in: int
) -> tuple[np.ndarray, dict[str, float]]:
    """Runs ``num_steps`` of a sampler from ``starts`` (chains, 2), twice, and times it once.

    Returns:
      Draws (chains, steps, 2) after the burn-in. And numbers: "acceptance_prob", their mean, NaN
      for a sampler without one, and "seconds" of all steps of all chains.
    """
    bound, is_interacting = bind_sampler(chosen, {}), chosen.entry.interacts

    @jax.jit
    def move(key: Key, starts: jax.Array, log_density: Partial) -> tuple[jax.Array, Any]:
        sampler = bound(log_density)
        if is_interacting:
            state, step = sampler.init(starts), sampler.step
        else:
            state = library.start_chains(key, sampler, starts)
            step = library.batch_step(sampler.step)
        _, positions, infos = library.run_chain(key, state, step, num_steps)
        positions = jnp.swapaxes(positions, 0, 1) if is_interacting else positions
        accepted = library.acceptance_of(infos)
        return positions, jnp.nan if accepted is None else jnp.mean(accepted[:, burn_in:])

    jax.block_until_ready(move(key, starts, log_density))
    began = time.perf_counter()
    positions, accepted = jax.block_until_ready(move(key, starts, log_density))
    numbers = {"acceptance_prob": float(accepted), "seconds": time.perf_counter() - began}
    return np.asarray(positions)[:, burn_in:], numbers


def draws_numbers(
    draws: np.ndarray, *, data: np.ndarray, model: np.ndarray | None, means: np.ndarray, num: int
) -> dict[str, float]:
    """Returns R-hat, effective sizes, energy distances and share in modes of draws (chains, n, 2).

    R-hat, by both definitions, is the larger of the coordinates, a size the smaller. Distances are
    of about ``num`` draws to ``data`` and to ``model``, (m, 2). All but "inside", the share of
    draws within ``MODE_RADIUS`` of one of the ``means``, are NaN if a draw is not finite, or a
    chain has fewer than 4.
    """
    between = _distances(means, means)
    radius = min(MODE_RADIUS, np.min(between[between > 0], initial=np.inf) / 2)
    is_inside = np.min(_distances(draws, means), axis=-1) < radius
    names = ("rhat_classic", "rhat_rank", "ess", "ess_within")
    numbers = {"inside": float(np.mean(is_inside))}
    numbers |= dict.fromkeys((*names, "distance_to_data", "distance_to_model"), math.nan)
    if draws.shape[1] < 4 or not np.isfinite(draws).all():
        return numbers
    numbers |= zip(names, map(float, _diagnostics(draws)), strict=True)
    some = draws[:, :: max(1, is_inside.size // num)].reshape(-1, 2)
    for name, others in (("data", data), ("model", model)):
        if others is not None:
            numbers[f"distance_to_{name}"] = metrics.energy_distance(some, others)
    return numbers


@jax.jit
def _diagnostics(draws: jax.Array) -> tuple[jax.Array, ...]:
    """Returns classic and rank-normalised R-hat, effective size, and the sum of single chains'."""
    scale_reduction = partial(metrics.potential_scale_reduction, allow_few_draws=True)
    sample_size = partial(metrics.effective_sample_size, allow_few_draws=True)
    return (
        jnp.max(scale_reduction(draws, method="classic")),
        jnp.max(scale_reduction(draws)),
        jnp.min(sample_size(draws)),
        jnp.min(jnp.sum(jax.vmap(sample_size)(draws[:, None]), axis=0)),
    )


def _distances(positions: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Returns distances (..., modes) of positions (..., 2)."""
    return np.linalg.norm(positions[..., None, :] - means, axis=-1)
