"""How far the learned densities of the plane, and the samples of their chains, are from the truth.

Every number is taken on one grid: the truth is normalised there like the models.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.training import TrainState
from ebmjax.types import PyTree
from experiments import toy_grid
from experiments.errors import ConfigError
from experiments.toy_plane import PlaneEvaluation


@dataclass(frozen=True)
class ToyBetaEvaluation(PlaneEvaluation):
    """Divergences of every model, and the arrays that the panels show: also ``truth.npz``.

    Attributes:
      short_chains: ``(key, log_density_fn, num) -> (ends, metrics)`` of the run's sampler.
    """

    short_chains: Callable[..., tuple[jax.Array, Any]]

    def check(self) -> None:
        """Raises ConfigError for a grid that cuts off the data, or is too coarse for the kernel."""
        super().check()
        if self.config.eval.bandwidth < self.grid.width:
            raise ConfigError(
                f"config.eval.bandwidth={self.config.eval.bandwidth} must be at least the width of "
                f"a cell, {self.grid.width:.3g}. Take more config.eval.grid_points."
            )

    def __call__(self, state: TrainState, step: int) -> dict[str, Any]:
        """The row of this evaluation: a list over the models for every number."""
        row, arrays = self._measure(state)
        (self.workdir / "evaluations").mkdir(exist_ok=True)
        np.savez_compressed(self.workdir / "evaluations" / f"{step:06d}.npz", **arrays)
        np.savez_compressed(self.workdir / "truth.npz", log_density=self.truth)
        return row

    def _measure(self, state: TrainState) -> tuple[dict[str, Any], dict[str, Any]]:
        """The row, and the log densities and samples that it is of."""
        log_densities, samples = jax.device_get(self._arrays(state.params))
        models = [self.numbers(*pair) for pair in zip(log_densities, samples, strict=True)]
        row = {name: [model[name] for model in models] for name in models[0]}
        return row, {"log_densities": log_densities, "samples": samples}

    def assess(self, state: TrainState) -> dict[str, Any]:
        """The same of the finished run by beta, beside what as many points of the data score."""
        # Without a file: those of training belong to training's grid, and are drawn with it.
        row, consecutive = self._measure(state)[0], state.shards.consecutive_skipped[0]
        by_beta = {}
        for i, beta in enumerate(self.config.loss.betas):
            is_diverged = bool(consecutive[i] >= self.config.train.max_consecutive_skips)
            # What a model was when it diverged says nothing of its objective.
            numbers = {name: math.nan if is_diverged else values[i] for name, values in row.items()}
            by_beta[name_of(beta)] = {
                **numbers,
                "beta": beta,
                "is_diverged": float(is_diverged),
                "skipped": int(state.shards.skipped[0, i]),
            }
        _, data_key = jax.random.split(self.key)
        fresh = self.toy.points(data_key, self.config.eval.num_samples)
        return {
            "by_beta": by_beta,
            "perfect_sampler": self.sample_numbers(np.asarray(fresh)),
            "notes": [note for model in by_beta.values() for note in self._notes(model)],
        }

    def _notes(self, model: dict[str, float]) -> list[str]:
        """Why a model has no divergences, where it has none."""
        if model["is_diverged"]:
            return [f"beta {model['beta']:g} diverged: {model['skipped']} steps were skipped."]
        if model["is_normalisable"]:
            return []
        return [
            f"beta {model['beta']:g} has {model['border_mass']:.2g} of its mass on the grid at the "
            "grid's border, so there is more beyond: no normalised density is reported. If it is "
            "bounded at all, --config.eval.half_width= can be larger."
        ]

    def numbers(self, log_density: np.ndarray, samples: np.ndarray) -> dict[str, float]:
        """Of one model; NaN where its density cannot be normalised on the grid."""
        report = self.density_numbers(log_density)
        report["is_normalisable"] = float(not math.isnan(report["density_tv"]))
        return report | self.sample_numbers(samples)

    def sample_numbers(self, samples: np.ndarray) -> dict[str, float]:
        """Of samples (n, 2), by their kernel density estimate."""
        grid = self.grid
        estimate = toy_grid.smoothed_histogram(samples, grid, self.config.eval.bandwidth)
        inside = toy_grid.mass(estimate, grid)
        report = {
            "sample_tv": toy_grid.total_variation(np.exp(self.truth), estimate, grid),
            "sample_kl": math.nan,
            "outside": 1.0 - inside,
        }
        if inside > 0:
            with np.errstate(divide="ignore"):
                log_estimate = np.log(estimate / inside)
            report["sample_kl"] = toy_grid.kl_divergence(log_estimate, self.truth, grid)
        return report

    @cached_property
    def _arrays(self) -> Callable[[PyTree], Any]:
        """``params -> (log densities (betas, num, num), samples (betas, n, 2))``, compiled.

        The chains follow the model itself, at beta 0, as the paper's panels do.
        """
        grid, num = self.grid, self.config.eval.num_samples
        chain_key, _ = jax.random.split(self.key)

        def arrays(params: PyTree) -> tuple[jax.Array, jax.Array]:
            def log_density_fn(position: jax.Array) -> jax.Array:
                return -self.config.loss.output_scale * self.energy_fn(params, position)

            values = log_density_fn(jnp.asarray(grid.centres, jnp.float32))
            ends, _ = self.short_chains(chain_key, log_density_fn, num)
            return values.reshape(grid.num, grid.num), ends

        return jax.jit(jax.vmap(arrays))


def name_of(beta: float) -> str:
    """0.3 is "0_3" and -0.5 "minus_0_5": dots descend in the columns of a study."""
    return f"{beta:g}".replace("-", "minus_").replace(".", "_")
