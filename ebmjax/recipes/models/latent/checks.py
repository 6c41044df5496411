"""Refuses fields of a latent EBM's configuration that exclude each other."""

from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.models.latent.fields import SAMPLERS, SHARED, naming
from ebmjax.recipes.parts.samplers import Chosen, of_section


def check(config: Config) -> None:
    """Raises ConfigError at the first pair of fields that do not go together."""
    section, loss, latent_dim = config.sampler, config.loss, config.model.latent_dim
    found = {field: sampler(config, name) for name, field in naming(config).items()}
    is_through = loss.name == "through_chain"
    rejecting = [f"config.{k}={v.name!r}" for k, v in found.items() if v.entry.rejects]
    fewest, why = 1, ""
    if loss.name == "covariance":
        fewest, why = 2, "config.loss.name='covariance'"
    elif is_through and loss.kl_weight:
        fewest = {"full": latent_dim + 3, "diagonal": 4}[loss.kl_covariance]
        why = f"config.loss.kl_covariance={loss.kl_covariance!r}, latent_dim={latent_dim}"
    every, num_steps = section.get("exchange_every"), section.posterior.num_steps
    refused = {
        "config.sampler.persistent and config.sampler.warm_start exclude each other: chains go on "
        "where they stood, or start where those of the power below ended.": (
            section.persistent and section.warm_start
        ),
        "config.loss.name='through_chain' differentiates whole chains and starts them afresh: set "
        "--config.sampler.persistent=False.": is_through and section.persistent,
        "config.loss.name='through_chain' needs samplers that always move, such as 'sgld': "
        f"{' and '.join(rejecting)} may reject, which has no derivative.": is_through and rejecting,
        "config.sampler.exchange_every swaps powers above 0, two or more, that run at once: set "
        "warm_start=False, loss.num_intervals of 2 or more, and a loss.name other than 'vanilla' "
        f"and 'through_chain'; got {loss.name!r}.": every
        and (section.warm_start or loss.num_intervals < 2 or is_through or loss.name == "vanilla"),
        f"config.sampler.exchange_every={every} must be at most posterior.num_steps={num_steps}, "
        "and posterior.temperature must be 1: swaps keep the power posteriors.": every
        and (every > num_steps or section.posterior.get("temperature", 1.0) != 1.0),
        "config.sampler.place_powers needs config.sampler.exchange_every and .persistent=True.": (
            section.get("place_powers") and not (section.persistent and every)
        ),
        f"config.loss.chains_per_observation must be at least {fewest} for {why}, got "
        f"{loss.chains_per_observation}.": loss.chains_per_observation < fewest,
    }
    for sentence, is_refused in refused.items():
        if is_refused:
            raise ConfigError(sentence)


def sampler(config: Config, name: str) -> Chosen:
    """Returns the sampler of ``name``, "prior" or "posterior"."""
    values, field = config.sampler[name], naming(config)[name]
    shared = {key: values[key] for key in SHARED if key in values}
    return of_section(config, field, config[field], SAMPLERS, **shared)
