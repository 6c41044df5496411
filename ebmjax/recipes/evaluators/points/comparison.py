"""Samplers side by side on one learned energy of points, beside perfect chains."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax._phases import say_part
from ebmjax.recipes.evaluators.evaluator import Evaluator, Found
from ebmjax.recipes.evaluators.points import chains as sampler_chains
from ebmjax.recipes.evaluators.points.comparison_plots import scatter
from ebmjax.recipes.evaluators.points.density import on_grid
from ebmjax.recipes.evaluators.points.numbers import draws_numbers
from ebmjax.recipes.evaluators.points.plane import plane_of
from ebmjax.recipes.evaluators.points.settings import SETTINGS, sampler_in
from ebmjax.types import Key


@dataclass(frozen=True)
class Comparison(Evaluator):
    """R-hat, effective samples, modes and distances of samplers in every one of ``SETTINGS``.

    It uses ``model.truth``, ``model.plan`` and ``model.log_density_of``. ``density`` has the fields
    of the evaluator of densities, for its grid and its number of samples.
    """

    density: Mapping[str, Any] = field(default_factory=dict)
    samplers: tuple[str, ...] = ()
    num_chains: int = 10
    num_steps: int = 5000
    burn_in: int = 1000

    def __call__(self, model: Any, test: data.ImageData, key: Key) -> Found:
        """Returns the numbers by setting and sampler, those of perfect chains, and notes."""
        plane = plane_of(model)
        log_density = on_grid(model, plane.grid)
        start_key, chain_key, draw_key = jax.random.split(key, 3)
        start_keys = jax.random.split(start_key, self.num_chains)
        starts = jax.vmap(model.plan.start_fn, in_axes=(0, None))(start_keys, jnp.int32(0))
        judge, references = self.references(draw_key, model, log_density, np.asarray(starts))
        report: dict[str, Any] = {"references": references}
        arrays: dict[str, Any] = {"log_density": log_density, "starts": np.asarray(starts)}
        for setting in SETTINGS:
            report[setting] = {}
            for i, name in enumerate(self.samplers):
                chosen = sampler_in(setting, name)
                say_part(f"{self.num_chains} chains of {chosen.label}, {setting}")
                chains = sampler_chains.run(
                    jax.random.fold_in(chain_key, i),
                    starts,
                    model.log_density_of,
                    model.params,
                    chosen,
                    num_steps=self.num_steps,
                    burn_in=self.burn_in,
                )
                arrays[f"{setting}.{chosen.label}"] = chains.positions
                numbers = judge(chains.positions[:, self.burn_in :])
                report[setting][chosen.label] = numbers | chains.numbers(numbers)
        report["notes"] = [*_notes(report)]
        if "model" not in references:
            why = plane.not_normalised(plane.density_numbers(log_density)["border_mass"])
            report["notes"].insert(0, f"{why} Nothing is compared with it.")
        return Found(report, arrays=arrays)

    def references(
        self, key: Key, model: Any, log_density: np.ndarray, starts: np.ndarray
    ) -> tuple[Callable[..., dict[str, float]], dict[str, dict[str, float]]]:
        """Returns what judges draws (chains, n, 2), and the numbers of independent draws.

        "data" are fresh points. "model" follow the learned density on the grid. So do "locked"
        chains, which never leave the part of the plane, a mode, that they start in.
        """
        plane, truth = plane_of(model), model.truth
        num = self.density["num_samples"]
        data_key, fresh_key, model_key, grid_key = jax.random.split(key, 4)
        shape = (self.num_chains, self.num_steps - self.burn_in, 2)
        fresh = np.asarray(truth.draw(fresh_key, shape[0] * shape[1])).reshape(shape)
        judge = partial(
            draws_numbers,
            data=np.asarray(truth.draw(data_key, num)),
            model=None,
            means=truth.means,
            num=num,
        )
        if not plane.density_numbers(log_density)["is_normalisable"]:
            return judge, {"data": judge(fresh)}
        judge = partial(judge, model=plane.draw(model_key, log_density, num))
        parts = truth.part_of(plane.grid.centres).reshape(log_density.shape)
        first, *keys = jax.random.split(grid_key, self.num_chains + 1)
        locked = [
            plane.draw(one, np.where(parts == part, log_density, -np.inf), shape[1])
            for one, part in zip(keys, truth.part_of(starts), strict=True)
        ]
        perfect = plane.draw(first, log_density, shape[0] * shape[1]).reshape(shape)
        return judge, {
            "data": judge(fresh),
            "model": judge(perfect),
            "locked": judge(np.stack(locked)),
        }

    def draw(self, folder: Path, found: Found) -> None:
        """Draws ``plots/eval_scatter_<setting>.png``: draws over the learned energy."""
        for setting in SETTINGS:
            numbers = found.report[setting]
            chains = {name: found.arrays[f"{setting}.{name}"] for name in numbers}
            path = folder / "plots" / f"eval_scatter_{setting}.png"
            scatter(path, chains, found.arrays["log_density"], numbers, self)

    @property
    def half_width(self) -> float:
        """Half width of the pictures."""
        return self.density["half_width"]


def _notes(report: dict[str, Any]) -> Iterator[str]:
    """Yields notes that readers of the numbers need."""
    for setting in SETTINGS:
        for name, numbers in report[setting].items():
            if math.isnan(numbers["rhat_rank"]):
                yield f"{name} ({setting}): not all draws are finite, or all are equal."
            if numbers["temperature"] > 1:
                yield (
                    f"{name} ({setting}) ended at a mean temperature of "
                    f"{numbers['temperature']:.3g}: it follows a flatter density."
                )
