"""Fields of a configuration file, and the checks that a run makes before it reads data."""

import importlib

from ebmjax.recipes.core.fields import flatten
from ebmjax.recipes.core.validate import check_ranges
from ebmjax.recipes.image import checks as igebm_checks
from ebmjax.recipes.joint import checks as jem_checks
from ebmjax.recipes.latent import checks as thermo_checks

NUM_TEST = 10_000  # CIFAR-10's; the digits' configurations evaluate on fewer of their own 357
CHECKS = {
    "image": igebm_checks.check,
    "joint": jem_checks.check,
    "latent": lambda config: thermo_checks.check(config, NUM_TEST),
}


def check(config):
    """Raises ConfigError where a run would, of the toys for their ranges alone."""
    check_ranges(config)
    if config.family in CHECKS:
        CHECKS[config.family](config)


def fields(file):
    name, _, variant = file.partition(":")
    module = importlib.import_module(f"experiments.configs.{name}")
    return flatten(module.get_config(variant).to_dict())


def chosen(file, names):
    found = fields(file)
    return {name: found[name] for name in names}
