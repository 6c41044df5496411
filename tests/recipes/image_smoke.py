"""The smoke run of image energies that their tests share."""

from experiments.configs import igebm_digits


def smoke(variant="", **overrides):
    """The smoke run of the digits, of a network of one stage, with a variant's changes on top."""
    config = igebm_digits.get_config("smoke")
    config.model.features = (4,)
    changes = igebm_digits.VARIANTS.get(variant, {})
    sizes = ("sampler.num_steps", "sampler.num_samples")
    config.update_from_flattened_dict({k: v for k, v in changes.items() if k not in sizes})
    config.update_from_flattened_dict(overrides)
    return config
