"""Laws that chains of images start from."""

from collections.abc import Callable

from ebmjax import samplers
from ebmjax.recipes.config.errors import Config


def laws(
    buffer: Config, image_shape: tuple[int, ...]
) -> dict[str, Callable[[], samplers.InitialLaw]]:
    """Name to maker, from ``buffer.law_scale``, of laws that do not depend on data."""
    scale = buffer.law_scale
    return {
        "uniform": lambda: samplers.uniform_law(image_shape, -scale, scale),
        "gaussian": lambda: samplers.gaussian_law(image_shape, scale=scale),
    }
