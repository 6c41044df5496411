"""The smallest runs of the families of images that train and evaluate, with a user's network."""

from experiments.configs import igebm_digits, jem_digits, thermo_digits

FACTORY_RUNS = {
    "joint": (
        "configs/jem_digits.py:smoke",
        jem_digits,
        {
            "model.factory": "own_networks:logits",
            "model.options": '{"width": 6}',
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
    config.update_from_flattened_dict({**fields, **dict(changes)})
    return config
