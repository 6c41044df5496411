"""Start distributions of chains of images."""

from collections.abc import Callable

from ebmjax import samplers


def start_makers(
    image_shape: tuple[int, ...], scale: float
) -> dict[str, Callable[[], samplers.StartFn]]:
    """Returns makers of the start distributions that do not depend on data, by name."""
    return {
        "uniform": lambda: samplers.uniform_start(image_shape, -scale, scale),
        "gaussian": lambda: samplers.gaussian_start(image_shape, scale=scale),
    }
