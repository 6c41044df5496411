"""Distances of learned densities in the plane, and of their chains' samples, from the truth.

All use one grid, on which truth and models are normalised.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import losses
from ebmjax.densities import tempered
from ebmjax.recipes.folder.workdir import save_snapshot
from ebmjax.recipes.models.build import Use
from ebmjax.recipes.models.plane import grid as plane_grid
from ebmjax.recipes.models.plane.beta_bias import Parts, compensation, reweighted_distance
from ebmjax.recipes.models.plane.checks import name_of
from ebmjax.recipes.models.plane.monitor import PlaneMonitor
from ebmjax.recipes.models.plane.numbers import grid_draws
from ebmjax.training import TrainState
from ebmjax.types import PyTree


@dataclass(frozen=True)
class BetaMonitor(PlaneMonitor):
    """Measures every model's divergences and saves the panels' arrays, with ``truth.npz``.

    Attributes:
      parts: the modes or circles of the data.
      short_chains: ``(key, log_density_fn, num) -> (ends, metrics)`` of the run's sampler.
      long_chains: ``(key, log_density_fn, num) -> draws``, of long chains.
    """

    parts: Parts
    short_chains: Callable[..., tuple[jax.Array, Any]]
    long_chains: Callable[..., jax.Array]

    def __call__(self, state: TrainState, step: int) -> dict[str, Any]:
        """Returns the row of ``step``: a list over the models for every number."""
        row, arrays = self._measure(state)
        save_snapshot(self.workdir, step, arrays)
        np.savez_compressed(self.workdir / "truth.npz", log_density=self.truth)
        return row

    def _measure(self, state: TrainState) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the row, and its log densities and samples."""
        log_densities, samples = jax.device_get(self._arrays(state.params))
        models = [self.numbers(*pair) for pair in zip(log_densities, samples, strict=True)]
        row = {name: [model[name] for model in models] for name in models[0]}
        return row, {"log_densities": log_densities, "samples": samples}

    def evaluate(self, state: TrainState) -> dict[str, Any]:
        """Returns the finished run's numbers by beta, and the scores of as many data points."""
        # Writes no arrays, because plots draw those of training, on training's grid.
        row, arrays = self._measure(state)
        row |= self._bias(state, arrays)
        consecutive = state.carry.consecutive_skipped[0]
        by_beta = {}
        for i, beta in enumerate(self.config.loss.betas):
            is_diverged = bool(consecutive[i] >= self.config.train.max_consecutive_skips)
            # Numbers of a diverged model do not describe its objective.
            numbers = {name: math.nan if is_diverged else values[i] for name, values in row.items()}
            by_beta[name_of(beta)] = {
                **numbers,
                "beta": beta,
                "is_diverged": float(is_diverged),
                "skipped": int(state.carry.skipped[0, i]),
            }
        _, data_key = jax.random.split(self.key)
        fresh = self.toy.points(data_key, self.config.eval.num_samples)
        return {
            "by_beta": by_beta,
            "perfect_sampler": self.sample_numbers(np.asarray(fresh)),
            "shares": self._truth_shares.tolist(),
            "notes": [note for model in by_beta.values() for note in self._notes(model)],
        }

    def use(self, state: TrainState) -> Use:
        """Returns the models of all betas: ``apply(params, points)`` gives energies (betas, N).

        The score is "log_density" (N, betas), up to a constant each. Samples are independent draws
        on the grid, "points" (num, betas, 2), and take no steps.
        """
        params = jax.device_get(state.params)
        scale = self.config.loss.output_scale

        def apply(params: PyTree, points: jax.Array) -> jax.Array:
            return jax.vmap(self.energy_fn, (0, None))(params, points)

        def sample(key: jax.Array, num: int, num_steps: int | None = None) -> dict[str, np.ndarray]:
            del num_steps
            centres = jnp.asarray(self.grid.centres, jnp.float32)
            densities = -scale * np.asarray(apply(params, centres), np.float64)
            shape = (self.grid.num, self.grid.num)
            keys = jax.random.split(key, len(densities))
            draws = [
                self.drawn(key, density.reshape(shape), num)
                for key, density in zip(keys, densities, strict=True)
            ]
            return {"points": np.stack(draws, axis=1)}

        def score(points: np.ndarray) -> dict[str, np.ndarray]:
            energies = np.asarray(apply(params, jnp.asarray(points, jnp.float32)))
            return {"log_density": -scale * energies.T}

        return Use(params, apply, sample, score)

    def _notes(self, model: dict[str, float]) -> list[str]:
        """Returns why a model has no divergences, if it has none."""
        if model["is_diverged"]:
            return [f"beta {model['beta']:g} diverged: {model['skipped']} steps were skipped."]
        if model["is_normalisable"]:
            return []
        return [f"beta {model['beta']:g} {self.not_normalised(model['border_mass'])}"]

    def numbers(self, log_density: np.ndarray, samples: np.ndarray) -> dict[str, float]:
        """Returns one model's numbers; NaN if its density cannot be normalised on the grid."""
        report = self.density_numbers(log_density)
        report["is_normalisable"] = float(not math.isnan(report["density_tv"]))
        report["density_share_tv"] = math.nan
        if report["is_normalisable"]:
            report["density_share_tv"] = self._share_distance(self._density_shares(log_density))
        return report | self.sample_numbers(samples)

    def sample_numbers(self, samples: np.ndarray) -> dict[str, float]:
        """Returns numbers of samples (n, 2), by their kernel density estimate."""
        grid = self.grid
        estimate = self._estimate(samples)
        inside = plane_grid.mass(estimate, grid)
        report = {
            "sample_tv": plane_grid.total_variation(np.exp(self.truth), estimate, grid),
            "sample_kl": math.nan,
            "sample_share_tv": self._share_distance(self.parts.shares(samples)),
            "outside": 1.0 - inside,
        }
        if inside > 0:
            with np.errstate(divide="ignore"):
                log_estimate = np.log(estimate / inside)
            report["sample_kl"] = plane_grid.kl_divergence(log_estimate, self.truth, grid)
        return report

    def _bias(self, state: TrainState, arrays: dict[str, Any]) -> dict[str, list[Any]]:
        """Returns a list over the models for every number about the sampling bias."""
        keys = jax.random.split(jax.random.fold_in(self.key, 1), 3)
        betas = jnp.asarray(self.config.loss.betas, jnp.float32)
        negatives, draws = jax.device_get(self._chains(keys[:2], state.params, betas))
        rng = np.random.default_rng(np.asarray(jax.random.key_data(keys[2])))
        models = [
            self.bias_numbers(*model, rng=rng)
            for model in zip(
                self.config.loss.betas,
                arrays["log_densities"],
                arrays["samples"],
                negatives,
                draws,
                strict=True,
            )
        ]
        return {name: [model[name] for model in models] for name in models[0]}

    def bias_numbers(
        self,
        beta: float,
        log_density: np.ndarray,
        samples: np.ndarray,
        negatives: np.ndarray,
        draws: np.ndarray,
        *,
        rng: np.random.Generator,
    ) -> dict[str, Any]:
        """Returns one model's bias, from ends of its and of training's chains, and long chains.

        Numbers of the density are NaN if it cannot be normalised on the grid.
        """
        truth, estimate = np.exp(self.truth), self._estimate(negatives)
        numbers: dict[str, Any] = {
            "bias_slope": math.nan,
            "bias_correlation": math.nan,
            "negative_tv": plane_grid.total_variation(truth, estimate, self.grid),
            "reweighted_tv": reweighted_distance(
                log_density, self.truth, negatives=estimate, beta=beta, grid=self.grid
            ),
            "long_tv": math.nan,
            "exact_tv": math.nan,
            "density_shares": None,
            "sample_shares": self.parts.shares(samples).tolist(),
        }
        if plane_grid.border_mass(log_density, self.grid) > plane_grid.MAX_BORDER_MASS:
            return numbers
        learned = plane_grid.normalised(log_density, self.grid)
        data = plane_grid.smoothed(truth, self.grid, self.config.eval.bandwidth)
        exact = grid_draws(rng, log_density, grid=self.grid, num=len(draws))
        return {
            **numbers,
            **compensation(learned, self.truth, chains=self._estimate(samples), data=data),
            "long_tv": self._distance_to(learned, draws),
            "exact_tv": self._distance_to(learned, exact),
            "density_shares": self._density_shares(log_density).tolist(),
        }

    def _estimate(self, samples: np.ndarray) -> np.ndarray:
        return plane_grid.smoothed_histogram(samples, self.grid, self.config.eval.bandwidth)

    def _distance_to(self, learned: np.ndarray, samples: np.ndarray) -> float:
        return plane_grid.total_variation(np.exp(learned), self._estimate(samples), self.grid)

    def _density_shares(self, log_density: np.ndarray) -> np.ndarray:
        masses = np.exp(plane_grid.normalised(log_density, self.grid)).ravel()
        return self.parts.shares(self.grid.centres, masses)

    @cached_property
    def _truth_shares(self) -> np.ndarray:
        return self._density_shares(self.truth)

    def _share_distance(self, shares: np.ndarray) -> float:
        """Returns the total variation of the parts' shares from the data's, in [0, 1]."""
        return 0.5 * float(np.sum(np.abs(shares - self._truth_shares)))

    @cached_property
    def _chains(self) -> Callable[..., Any]:
        """Compiled ``keys, params, betas -> (ends of training's chains, draws of long chains)``.

        The first follow a share of the model's log density, as in training; the others follow the
        model.
        """
        num = self.config.eval.num_samples

        def chains(keys: jax.Array, params: PyTree, beta: jax.Array) -> tuple[jax.Array, jax.Array]:
            short_key, long_key = keys

            def log_density_fn(position: jax.Array) -> jax.Array:
                return -self.config.loss.output_scale * self.energy_fn(params, position)

            tempered_fn = tempered(log_density_fn, losses.beta_sampling_temperature(beta))
            negatives, _ = self.short_chains(short_key, tempered_fn, num)
            return negatives, self.long_chains(long_key, log_density_fn, num)

        return jax.jit(jax.vmap(chains, in_axes=(None, 0, 0)))

    @cached_property
    def _arrays(self) -> Callable[[PyTree], Any]:
        """Compiled ``params -> (log densities (betas, num, num), samples (betas, n, 2))``.

        The chains follow the model, at beta 0, as in the paper's panels.
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
