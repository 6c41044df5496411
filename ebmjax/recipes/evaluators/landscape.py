"""The energy of training images around a model's parameters."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes

from ebmjax import metrics
from ebmjax._groups import map_groups
from ebmjax._phases import say_part
from ebmjax._ranges import TWO_OR_MORE
from ebmjax.data import ImageData, to_signed_unit
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.evaluators.plots import figure
from ebmjax.types import Key


def landscape(
    key: Key, model: Any, data: ImageData, *, num_points: Annotated[int, TWO_OR_MORE] = 11
) -> Found:
    """Returns the range of the mean joint energy over two random directions, from -1 to 1.

    The energy is that of a tenth of the training images. Energies and coordinates are arrays.

    Args:
      num_points: points a side of loss landscapes
    """
    del data
    say_part(f"loss at {num_points**2:,} points around the parameters")
    image_key, x_key, y_key = jax.random.split(jax.random.split(key, 3)[2], 3)
    train = model.train.images
    num_images = max(1, len(train) // 10)
    chosen = np.asarray(jax.random.permutation(image_key, len(train)))[:num_images]
    images = to_signed_unit(jnp.asarray(train[chosen]))
    coordinates = jnp.linspace(-1.0, 1.0, num_points)
    size = min(model.config.evals.batch_size, num_images)

    def grid(trained: Any, keys: tuple[Key, Key], images: jax.Array) -> jax.Array:
        def mean_energy(params: Any) -> jax.Array:
            one = partial(model.log_density, trained._replace(params=params))
            return -jnp.mean(map_groups(one, images, size))

        x, y = (metrics.filter_normalised_direction(key, trained.params) for key in keys)
        return metrics.energy_landscape(mean_energy, trained.params, x, y, coordinates, coordinates)

    program = model.program(("landscape", num_points), lambda: jax.jit(grid))
    energies = np.asarray(program(model.trained, (x_key, y_key), images))
    report = {"landscape_range": float(np.ptp(energies))}
    report |= {"num_points": num_points, "num_images": num_images}
    arrays = {"landscape_energies": energies, "landscape_coordinates": np.asarray(coordinates)}

    def draw(path: Path) -> None:
        with figure(path, size=(5, 4.2)) as ((axis,),):
            contours(axis, arrays["landscape_coordinates"], energies)

    return Found({"landscape": report}, arrays=arrays, pictures={"landscape": draw})


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
