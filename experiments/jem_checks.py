"""What a joint energy model's configuration may not ask for together, told before training."""

from experiments import best
from experiments.config import Config
from experiments.errors import ConfigError
from experiments.initial_laws import check_starts
from experiments.jem_samplers import REJECTING

# Fields of the robust objective, and what they are where it is not used.
OF_BETA = {
    "beta": 0.0,
    "sampling_beta": None,
    "max_positive_weight": None,
    "beta_variant": "default",
    "output_scale": 1.0,
}


def check(config: Config) -> None:
    """Raises ConfigError at the first pair of fields that do not go together."""
    best.check(config, best.IS_HIGHER_BETTER)
    _check_beta(config.loss)
    _check_sharpness(config.optimizer)
    if config.loss.generative_weight:
        check_starts(config, {config.sampler.name} & set(REJECTING))


def _check_beta(loss: Config) -> None:
    if loss.generative == "beta" and loss.generative_weight:
        return
    for name, unused in OF_BETA.items():
        if loss[name] != unused:
            raise ConfigError(
                f"config.loss.{name}={loss[name]} belongs to the robust objective, and this run "
                f"has config.loss.generative={loss.generative!r} and generative_weight="
                f"{loss.generative_weight:g}: set --config.loss.generative=beta and a weight "
                f"above 0, or --config.loss.{name}={unused}."
            )


def _check_sharpness(optimizer: Config) -> None:
    if optimizer.adaptive and optimizer.rho is None:
        raise ConfigError(
            "config.optimizer.adaptive=True makes SAM adaptive, and config.optimizer.rho is not "
            "set, which asks for neither: set --config.optimizer.rho=4.0, for example."
        )
