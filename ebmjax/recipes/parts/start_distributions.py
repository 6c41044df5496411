"""Laws that chains of images start from."""

from collections.abc import Callable

from ebmjax import samplers
from ebmjax.recipes.config.errors import Config


def start_makers(
    buffer: Config, image_shape: tuple[int, ...]
) -> dict[str, Callable[[], samplers.StartFn]]:
    """Returns makers of the start distributions that do not depend on data, by name."""
    scale = buffer.start_scale
    return {
        "uniform": lambda: samplers.uniform_start(image_shape, -scale, scale),
        "gaussian": lambda: samplers.gaussian_start(image_shape, scale=scale),
    }
