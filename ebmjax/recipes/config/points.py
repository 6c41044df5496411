"""Tells configurations of points from those of images."""

from collections.abc import Mapping
from typing import Any

from ebmjax.recipes.config.declare import When, allow_preset, when_is

POINTS = ("gmm", "circles", "gaussians", "points")
"""Sources of points, in place of images; the last reads the user's file, the others have a law."""


def is_points(config: Mapping[str, Any]) -> bool:
    """Returns whether a run learns from points, and not from images."""
    return config["family"] == "energy" and config["data"]["name"] in POINTS


OF_POINTS = allow_preset(when_is("data.name", *POINTS, what="points"))
ON_IMAGES = allow_preset(
    When(f"images, config.data.name other than {', '.join(POINTS)}", lambda c: not is_points(c))
)
NOT_DRAWN = When(
    f"data that are not drawn anew, config.data.name other than {', '.join(POINTS[:-1])}",
    lambda config: config["data.name"] not in POINTS[:-1],
)
