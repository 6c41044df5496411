"""The energy of training images around a model's parameters."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes

from ebmjax import data, losses, metrics
from ebmjax._groups import map_groups
from ebmjax._phases import say_part
from ebmjax.recipes.evaluators.evaluator import Evaluator, Found
from ebmjax.recipes.evaluators.plots import figure
from ebmjax.types import Key


@dataclass(frozen=True)
class Landscape(Evaluator):
    """Mean joint energy of a tenth of the training images, over two random directions.

    Both coordinates go from -1 to 1. It uses ``model.logits_of``, ``model.trained`` and
    ``model.train``.
    """

    num_points: int = 11
    batch_size: int = 128

    def __call__(self, model: Any, test: data.ImageData, key: Key) -> Found:
        """Returns the range of the energies; energies and coordinates are arrays."""
        say_part(f"loss at {self.num_points**2:,} points around the parameters")
        image_key, x_key, y_key = jax.random.split(jax.random.split(key, 3)[2], 3)
        train = model.train.images
        num_images = max(1, len(train) // 10)
        chosen = np.asarray(jax.random.permutation(image_key, len(train)))[:num_images]
        images = data.to_signed_unit(jnp.asarray(train[chosen]))
        coordinates = jnp.linspace(-1.0, 1.0, self.num_points)
        grid = model.program(self, lambda: jax.jit(partial(self._grid, model)))
        energies = np.asarray(grid(model.trained, (x_key, y_key), images))
        report = {
            "landscape_range": float(np.max(energies) - np.min(energies)),
            "num_points": len(coordinates),
            "num_images": num_images,
        }
        arrays = {"landscape_energies": energies, "landscape_coordinates": np.asarray(coordinates)}
        return Found({"landscape": report}, arrays=arrays)

    def _grid(
        self, model: Any, trained: Any, keys: tuple[Key, Key], images: jax.Array
    ) -> jax.Array:
        size = min(self.batch_size, len(images))

        def mean_energy(params: Any) -> jax.Array:
            one = partial(model.logits_of, trained._replace(params=params))
            return jnp.mean(losses.joint_energy(map_groups(one, images, size)))

        x, y = (metrics.filter_normalised_direction(key, trained.params) for key in keys)
        coordinates = jnp.linspace(-1.0, 1.0, self.num_points)
        return metrics.energy_landscape(mean_energy, trained.params, x, y, coordinates, coordinates)

    def draw(self, folder: Path, found: Found) -> None:
        """Draws ``eval_landscape.png``: contours of the energy around the trained parameters."""
        arrays = found.arrays
        with figure(folder / "plots" / "eval_landscape.png", size=(5, 4.2)) as ((axis,),):
            contours(axis, arrays["landscape_coordinates"], arrays["landscape_energies"])


def contours(
    axis: Axes, coordinates: np.ndarray, energies: np.ndarray, levels: int | np.ndarray = 24
) -> None:
    """Draws a landscape, with the colour scale of the increasing ``levels`` if given.

    Energies that are not finite are left out.
    """
    shown = np.ma.masked_invalid(energies)
    if shown.count() and np.ptp(shown.compressed()) > 0:
        filled = axis.contourf(coordinates, coordinates, shown, levels=levels, cmap="viridis")
        axis.figure.colorbar(filled, ax=axis, label="mean energy, nats")
    axis.plot(0, 0, "+", color="white", ms=10)
    axis.set(xlabel="first direction", ylabel="second direction", aspect="equal")
