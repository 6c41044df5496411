"""A trained energy of points: what evaluators of points ask of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.recipes.evaluators.density import plane_of
from ebmjax.recipes.models.energy.checks import output_scale
from ebmjax.recipes.models.energy.model import EnergyModel, TrainedEnergy
from ebmjax.recipes.parts.points_data import Truth
from ebmjax.types import Key, LogDensityFn, PyTree


@dataclass(frozen=True, kw_only=True, eq=False)
class PointsModel(EnergyModel):
    """An energy of points (N, d).

    Attributes:
      truth: knowledge of the data's law.
      log_density_of: parameters to the learned log density of points (..., d), up to a constant.
    """

    truth: Truth
    log_density_of: Callable[[PyTree], LogDensityFn]

    def log_densities(self, points: Any) -> jax.Array:
        """Returns the log densities (N,) of points, up to a constant."""

        def make() -> Any:
            return jax.jit(lambda params, points: self.log_density_of(params)(points))

        return self.program("log densities", make)(self.params, jnp.asarray(points, jnp.float32))

    def class_log_densities(self, trained: TrainedEnergy, x: jax.Array) -> jax.Array:
        """Returns the log density (1,) of one point (d,)."""
        return self.log_density_of(trained.params)(x)[None]

    def chain_scale(self, trained: TrainedEnergy) -> Any:
        """Returns the factor by which chains follow the log density."""
        return super().chain_scale(trained) / output_scale(self.config)

    def follow(self, key: Key, num: int, num_steps: int, *, beta: Any = 0.0) -> np.ndarray:
        """Returns ends (num, d) of fresh chains of the run's samplers.

        They follow ``1 - beta`` of the log density: by default the model itself.
        """
        followed = replace(self, trained=self.trained._replace(beta=jnp.float32(beta)))
        return followed.fresh_chains(key, num, num_steps).ends

    def score(self, images: np.ndarray) -> dict[str, np.ndarray]:
        """Returns "log_density" (N,), up to a constant, of points."""
        return {"log_density": np.asarray(self.log_densities(images))}

    def sample(self, key: Key, num: int, num_steps: int | None = None) -> dict[str, np.ndarray]:
        """Returns "points" (num, d).

        In the plane they are independent draws of the learned density on the grid of
        ``evals.density``. With ``num_steps``, or in another space, they are the finite ends of
        chains.
        """
        if num_steps is None and self.train.images.shape[1] == 2:
            plane = plane_of(self)
            return {"points": plane.draw(key, plane.on(self), num)}
        ends = self.follow(key, num, num_steps or self.num_chain_steps)
        return {"points": ends[np.isfinite(ends).all(axis=1)]}


def points_model(truth: Truth, **parts: Any) -> PointsModel:
    """Returns the model of points with the ``parts`` of an ``EnergyModel``.

    The robust objective has its own factor on the log density, ``loss.output_scale``.
    """
    scale, energy_of = output_scale(parts["config"]), parts["energy_of"]

    def log_density_of(params: PyTree) -> LogDensityFn:
        energy = energy_of(params)
        return lambda x: -scale * energy(x, jnp.zeros(jnp.shape(x)[:-1], jnp.int32))

    return PointsModel(truth=truth, log_density_of=log_density_of, **parts)
