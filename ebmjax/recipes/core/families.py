"""The families of experiments, by the name that a configuration gives in ``config.family``."""

import importlib
from pathlib import Path

from ebmjax.recipes.core.build import Experiment
from ebmjax.recipes.core.fields import Config, choose
from ebmjax.recipes.core.validate import check_ranges

# Imported when asked for: all of them take two seconds.
FAMILIES = {
    "image": "ebmjax.recipes.image.setup",
    "joint": "ebmjax.recipes.joint.setup",
    "latent": "ebmjax.recipes.latent.setup",
    "toy_beta": "ebmjax.recipes.plane.beta",
    "toy_samplers": "ebmjax.recipes.plane.samplers",
}


def build(config: Config, workdir: Path) -> Experiment:
    """Checks ``config`` and builds its experiment, to be run in ``workdir``.

    Raises:
      ConfigError: if a field is out of range or names something unknown.
      ValueError, OSError, DataUnavailableError: if the data cannot be had as configured.
    """
    check_ranges(config)
    module = importlib.import_module(choose("family", config.family, FAMILIES))
    return module.build(config, workdir)
