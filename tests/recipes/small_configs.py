"""The smallest runs of the families of images that train and evaluate, with a user's network."""

from ebmjax.recipes.config import declare, families
from experiments.configs import igebm_digits, jem_digits, thermo_digits


def change(config, fields):
    """The configuration with fields set, also those of sections that it lacks."""
    every = families.all_fields(config.family, fields)
    for name, value in fields.items():
        declare.put(every[name], config, name, value)
    return config


FACTORY_RUNS = {
    "joint": (
        "configs/jem_digits.py:smoke",
        jem_digits,
        {
            "model.factory": "own_networks:logits",
            "model.options.width": 6,
            "evals.robustness.every": "never",
            "evals.ood.every": "never",
            "evals.landscape.every": "never",
        },
    ),
    "energy": (
        "configs/igebm_digits.py:smoke",
        igebm_digits,
        {"model.factory": "own_networks:energy", "model.is_conditional": True},
    ),
    "latent": (
        "configs/thermo_digits.py:smoke",
        thermo_digits,
        {"model.factory": "own_networks:pair"},
    ),
}


def configuration(family, changes=()):
    """The run's configuration, with changes by dotted field names."""
    _, file, fields = FACTORY_RUNS[family]
    config = file.get_config("smoke")
    return change(config, {**fields, **dict(changes)})
