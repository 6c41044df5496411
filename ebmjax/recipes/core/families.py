"""The families of experiments, by the name that a configuration gives in ``config.family``."""

import importlib
from pathlib import Path

from experiments.build import Experiment
from experiments.config import Config
from experiments.validate import check_ranges, choose

# Imported when asked for: all of them take two seconds.
FAMILIES = {
    "igebm": "experiments.igebm.experiment",
    "jem": "experiments.jem.experiment",
    "thermo": "experiments.thermo.experiment",
    "toy_beta": "experiments.toys.beta",
    "toy_samplers": "experiments.toys.samplers",
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
