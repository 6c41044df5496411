"""What a joint energy model's configuration may not ask for together, told before training."""

from experiments.config import Config
from experiments.errors import ConfigError
from experiments.initial_laws import check_starts
from experiments.jem_samplers import REJECTING


def check(config: Config) -> None:
    """Raises ConfigError at the first pair of fields that do not go together."""
    _check_beta(config.loss)
    _check_sharpness(config.optimizer)
    if config.loss.generative_weight:
        check_starts(config, {config.sampler.name} & set(REJECTING))


def _check_beta(loss: Config) -> None:
    fields = {
        "beta": loss.beta,
        "sampling_beta": loss.sampling_beta,
        "max_positive_weight": loss.max_positive_weight,
    }
    is_used = loss.generative == "beta" and loss.generative_weight
    for name, value in fields.items():
        if value and not is_used:
            without = 0.0 if name == "beta" else None
            raise ConfigError(
                f"config.loss.{name}={value:g} belongs to the robust objective, and this run has "
                f"config.loss.generative={loss.generative!r} and generative_weight="
                f"{loss.generative_weight:g}: set --config.loss.generative=beta and a weight "
                f"above 0, or --config.loss.{name}={without}."
            )


def _check_sharpness(optimizer: Config) -> None:
    if optimizer.adaptive and optimizer.rho is None:
        raise ConfigError(
            "config.optimizer.adaptive=True makes SAM adaptive, and config.optimizer.rho is not "
            "set, which asks for neither: set --config.optimizer.rho=4.0, for example."
        )
