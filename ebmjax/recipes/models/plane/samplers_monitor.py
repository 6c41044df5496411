"""Compares samplers of one learned energy with perfect chains."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.recipes.evaluators.over_training import over_training
from ebmjax.recipes.folder.workdir import read_rows, save_snapshot
from ebmjax.recipes.models.build import Use
from ebmjax.recipes.models.plane import samplers_chains, samplers_plots
from ebmjax.recipes.models.plane.checks import SETTINGS, chosen_for
from ebmjax.recipes.models.plane.monitor import PlaneMonitor
from ebmjax.recipes.models.plane.numbers import draws_numbers, grid_draws, nearest_mode
from ebmjax.recipes.models.plane.samplers_chains import Chains
from ebmjax.samplers import StartFn
from ebmjax.training import TrainState


@dataclass(frozen=True)
class SamplersMonitor(PlaneMonitor):
    """Measures the learned density during training, and all samplers on it at the end.

    It also writes ``evaluation.npz`` and ``plots/eval_*``.

    Attributes:
      means: means of the modes, (modes, 2).
      start_fn: start distribution of a chain's start.
    """

    means: jax.Array
    start_fn: StartFn

    def __call__(self, state: TrainState, step: int) -> dict[str, Any]:
        """Returns the row of ``step``: how far the learned density is from the data's."""
        learned = self.learned(state.params)
        save_snapshot(self.workdir, step, {"log_density": learned})
        return self.density_numbers(learned)

    def learned(self, params: Any) -> np.ndarray:
        """Returns the learned log density on the grid, (num, num), up to a constant."""
        centres = jnp.asarray(self.grid.centres, jnp.float32)
        values = -np.asarray(self._energies(params, centres), np.float64)
        return values.reshape(self.grid.num, self.grid.num)

    @cached_property
    def _energies(self) -> Callable[..., jax.Array]:
        return jax.jit(self.energy_fn)

    def evaluate(self, state: TrainState) -> dict[str, Any]:
        """Evaluates every sampler in every setting, beside perfect draws; draws the pictures."""
        section, log_density = self.config.eval, self.learned(state.params)
        start_key, chain_key, draw_key = jax.random.split(self.key, 3)
        start_keys = jax.random.split(start_key, section.num_chains)
        starts = jax.vmap(self.start_fn, in_axes=(0, None))(start_keys, jnp.int32(0))
        density = self.density_numbers(log_density)
        judge, references = self.references(draw_key, log_density, density, np.asarray(starts))
        report: dict[str, Any] = {"density": density, "references": references}
        arrays: dict[str, Any] = {"log_density": log_density, "starts": np.asarray(starts)}
        for setting in SETTINGS:
            report[setting] = {}
            for i, name in enumerate(section.samplers):
                chosen = chosen_for(setting, name)
                chains = samplers_chains.run(
                    jax.random.fold_in(chain_key, i),
                    starts,
                    self.energy_fn,
                    state.params,
                    chosen,
                    num_steps=section.num_chain_steps,
                    burn_in=section.burn_in,
                )
                arrays[f"{setting}.{chosen.label}"] = chains.positions
                report[setting][chosen.label] = self.sampler_numbers(judge, chains)
        report["over_training"] = over_training(read_rows(self.workdir))
        report["notes"] = list(self._notes(report))
        np.savez(self.workdir / "evaluation.npz", **arrays)
        samplers_plots.evaluation(self.workdir, self.config, report)
        return report

    def use(self, state: TrainState) -> Use:
        """Returns the model: ``apply(params, points)`` gives energies (N,) of points (N, 2).

        The score is "log_density", up to a constant. Samples are independent draws on the grid,
        "points" (num, 2), and take no steps.
        """

        def sample(key: jax.Array, num: int, num_steps: int | None = None) -> dict[str, np.ndarray]:
            del num_steps
            return {"points": self.drawn(key, self.learned(state.params), num)}

        def score(points: np.ndarray) -> dict[str, np.ndarray]:
            energies = self._energies(state.params, jnp.asarray(points, jnp.float32))
            return {"log_density": -np.asarray(energies)}

        return Use(state.params, self.energy_fn, sample, score)

    def references(
        self,
        key: jax.Array,
        log_density: np.ndarray,
        density: dict[str, float],
        starts: np.ndarray,
    ) -> tuple[Callable[..., dict[str, float]], dict[str, dict[str, float]]]:
        """Returns references by which draws are judged, and scores of independent draws.

        "data" are fresh points. "model" follow the learned density on the grid. So do "locked"
        chains, which never leave the mode nearest to their start.
        """
        section, means = self.config.eval, np.asarray(self.means)
        data_key, fresh_key, grid_key = jax.random.split(key, 3)
        shape = (section.num_chains, section.num_chain_steps - section.burn_in, 2)
        data = np.asarray(self.toy.points(data_key, section.num_samples))
        fresh = np.asarray(self.toy.points(fresh_key, shape[0] * shape[1])).reshape(shape)
        if math.isnan(density["density_tv"]):
            judge = partial(
                draws_numbers, data=data, model=None, means=means, num=section.num_samples
            )
            return judge, {"data": judge(fresh)}
        rng = np.random.default_rng(np.asarray(jax.random.key_data(grid_key)))
        on_grid = np.asarray(log_density, np.float64)
        sample = partial(grid_draws, rng, grid=self.grid)
        model = sample(on_grid, num=section.num_samples)
        judge = partial(draws_numbers, data=data, model=model, means=means, num=section.num_samples)
        regions = nearest_mode(self.grid.centres, means).reshape(log_density.shape)
        locked = [
            sample(np.where(regions == mode, on_grid, -np.inf), num=shape[1])
            for mode in nearest_mode(starts, means)
        ]
        return judge, {
            "data": judge(fresh),
            "model": judge(sample(on_grid, num=shape[0] * shape[1]).reshape(shape)),
            "locked": judge(np.stack(locked)),
        }

    def sampler_numbers(
        self, judge: Callable[..., dict[str, float]], chains: Chains
    ) -> dict[str, float]:
        """Returns the numbers of one sampler in one setting."""
        numbers = judge(chains.positions[:, self.config.eval.burn_in :])
        return numbers | {
            "acceptance_prob": chains.acceptance_prob,
            "temperature": chains.temperature,
            "seconds": chains.seconds,
            "ess_per_second": numbers["ess"] / chains.seconds,
            "ess_within_per_second": numbers["ess_within"] / chains.seconds,
        }

    def _notes(self, report: dict[str, Any]) -> Iterator[str]:
        """Returns notes that readers of the numbers need."""
        if math.isnan(report["density"]["density_tv"]):
            why = self.not_normalised(report["density"]["border_mass"])
            yield f"The learned density {why} Nothing is compared with it."
        for setting in SETTINGS:
            for name, numbers in report[setting].items():
                if math.isnan(numbers["rhat_rank"]):
                    yield f"{name} ({setting}): not all draws are finite, or all are equal."
                if numbers["temperature"] > 1:
                    yield (
                        f"{name} ({setting}) ended at a mean temperature of "
                        f"{numbers['temperature']:.3g}: it follows a flatter density."
                    )
