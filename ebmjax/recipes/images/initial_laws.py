"""Laws that chains of images start from, and a check that starts lie in the box."""

from collections.abc import Callable, Iterable

from ebmjax import samplers
from ebmjax.recipes.core.fields import Config, ConfigError


def laws(
    buffer: Config, image_shape: tuple[int, ...]
) -> dict[str, Callable[[], samplers.InitialLaw]]:
    """Name to maker, from ``buffer.law_scale``, of laws that do not depend on data."""
    scale = buffer.law_scale
    return {
        "uniform": lambda: samplers.uniform_law(image_shape, -scale, scale),
        "gaussian": lambda: samplers.gaussian_law(image_shape, scale=scale),
    }


def check_starts(config: Config, names: Iterable[str]) -> None:
    """Raises if starts lie outside a box that rejects, for the samplers in ``names``.

    The density there is zero, so such a chain would never accept a move.
    """
    names, section, buffer = sorted(names), config.sampler, config.sampler.buffer
    if section.box != "reject" or not names:
        return
    is_bounded = buffer.law != "gaussian"
    reach = buffer.law_scale if buffer.law == "uniform" else 1.0  # images are in [-1, 1]
    if is_bounded and section.low <= -reach and reach <= section.high:
        return
    law = f"within [-{reach:g}, {reach:g}]" if is_bounded else "anywhere"
    raise ConfigError(
        f"config.sampler.box='reject' holds chains of {names} in [{section.low:g}, "
        f"{section.high:g}], and config.sampler.buffer.law={buffer.law!r} starts them {law}: "
        "a chain that starts outside is never accepted anywhere. Take a law that starts "
        "inside, config.sampler.buffer.law=uniform with a lower law_scale, or a wider box."
    )
