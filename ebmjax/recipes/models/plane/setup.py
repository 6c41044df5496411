"""Models of the plane, from their configuration."""

from pathlib import Path

from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.models.build import Experiment
from ebmjax.recipes.models.plane import beta, samplers


def build(config: Config, workdir: Path) -> Experiment:
    """The experiment of ``config`` (see ``plane/fields.py`` for the fields)."""
    model = beta if config.loss.name == "beta" else samplers
    return model.build(config, workdir)
