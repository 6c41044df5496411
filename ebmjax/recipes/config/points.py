"""Tells configurations of points from those of images."""

from collections.abc import Mapping
from typing import Any

from ebmjax.recipes.config.declare import When, when_is
from ebmjax.recipes.config.errors import Config

POINTS = ("gmm", "circles", "gaussians", "points")
"""Sources of points, in place of images; the last reads the user's file, the others have a law."""


def is_points(config: Mapping[str, Any]) -> bool:
    """Returns whether a run learns from points, and not from images."""
    return config["family"] == "energy" and config["data"]["name"] in POINTS


OF_POINTS = when_is("data.name", *POINTS)
ON_IMAGES = When(
    f"images, config.data.name other than {', '.join(POINTS)}",
    lambda c: c.get("data.name") not in POINTS,
)


def is_drawn(config: Config) -> bool:
    """Returns whether a run's points are drawn anew from a law that is known."""
    return config.data.name in POINTS[:-1]
