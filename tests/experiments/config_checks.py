"""What a configuration is refused for before its data are read."""

from experiments import igebm_checks, jem_checks, thermo_checks
from experiments.validate import check_ranges

NUM_TEST = 10_000  # CIFAR-10's; the digits' configurations evaluate on fewer of their own 357
CHECKS = {
    "igebm": igebm_checks.check,
    "jem": jem_checks.check,
    "thermo": lambda config: thermo_checks.check(config, NUM_TEST),
}


def check(config):
    """Raises ConfigError where a run would, of the toys for their ranges alone."""
    check_ranges(config)
    if config.family in CHECKS:
        CHECKS[config.family](config)
