"""Refuses fields of a latent EBM's configuration that exclude each other."""

import numpy as np

from ebmjax._ranges import MIN_FLOAT
from ebmjax.recipes.config.by_images import PRIOR_RATES
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.families import check_kept, scores_of_samples
from ebmjax.recipes.evaluators.table import wants
from ebmjax.recipes.parts.samplers import SINGLE, Chosen, of_shared
from ebmjax.recipes.parts.samplers import check as check_samplers

SMC_REPEATS = 8
"""Populations of the method "smc", whose spread tells its error."""
JACKKNIFE_GROUPS = 8
"""Groups of chains whose spread tells the error of a divergence."""


def check(config: Config) -> None:
    """Raises ConfigError at the first pair of fields that do not go together."""
    check_kept(config, scores_of_samples(config))
    _check_rates(config)
    _check_ladders(config)
    _check_gaussians(config)
    _check_chains(config)
    _check_sizes(config)


def _check_rates(config: Config) -> None:
    for name in ("prior", "generator"):
        section = config.optimizer[name]
        rate = section.learning_rate or min(PRIOR_RATES)  # which the images choose
        if (config.optimizer.decay_per_epoch or 0) < 1 and rate < section.final_learning_rate:
            raise ConfigError(
                f"config.optimizer.{name}.learning_rate={rate:g} must be at least "
                f"final_learning_rate={section.final_learning_rate:g}, where its decay ends: lower "
                f"--config.optimizer.{name}.final_learning_rate as well."
            )


def _check_ladders(config: Config) -> None:
    """Refuses powers that float32 cannot tell apart: within a compiled program nobody would."""
    exponent = config.loss.exponent
    for name in ("num_intervals", "pilot_intervals"):
        num_intervals = config.loss.get(name, 1)
        steps = np.arange(num_intervals + 1, dtype=np.float32) / np.float32(num_intervals)
        powers = steps ** np.float32(exponent)
        powers[powers < MIN_FLOAT] = 0.0  # as compiled programs do
        if not np.all(np.diff(powers) > 0):
            raise ConfigError(
                f"config.loss.{name}={num_intervals} and config.loss.exponent={exponent} make "
                "powers that coincide in float32, where they must increase strictly from 0 to 1. "
                "Take an exponent nearer to 1, or fewer intervals."
            )


def _check_gaussians(config: Config) -> None:
    """Refuses a Gaussian fit that an image's chains cannot carry, in training or in a report."""
    section = config.evals.evidence
    latent_dim = config.model.latent_dim
    smallest = fewest_chains(latent_dim)
    if wants(config, "evidence") and section.divergences and section.num_chains < smallest:
        raise ConfigError(
            f"config.evals.evidence.num_chains={section.num_chains} are too few for the log "
            "evidence that is reported: its divergences fit a full covariance in "
            f"config.model.latent_dim={latent_dim} dimensions to the chains of an image. Set "
            f"--config.evals.evidence.num_chains={smallest} or more, or "
            "--config.evals.evidence.divergences=False to report the trapezium rule alone, by that "
            "name."
        )
    if config.loss.name != "through_chain" or config.loss.kl_weight == 0:
        return
    covariance = config.loss.kl_covariance
    name, num_chains = "loss.chains_per_observation", config.loss.chains_per_observation
    if covariance == "full" and num_chains < latent_dim + 3:
        raise ConfigError(
            f"config.{name}={num_chains} cannot carry the full covariance of "
            f"config.model.latent_dim={latent_dim} dimensions. Take at least {latent_dim + 3}, "
            "or --config.loss.kl_covariance=shrunk or =diagonal."
        )
    smallest = 4 if covariance == "diagonal" else 2
    if num_chains < smallest:
        raise ConfigError(
            f"config.{name}={num_chains} cannot carry a {covariance} covariance. Take at least "
            f"{smallest}, or --config.loss.kl_weight=0.0 to train on the trapezium sum alone."
        )


def fewest_chains(latent_dim: int) -> int:
    """The chains of an image that the reported divergences take, at least.

    d + 3 would be free of bias, with a spread of tens of nats; at 3 d the spread is about that of
    the rest of the sum (docs/evidence.md). Two in each of the groups whose spread tells the error.
    """
    return max(3 * latent_dim, 2 * JACKKNIFE_GROUPS)


def _check_chains(config: Config) -> None:
    section, loss, estimator = config.sampler, config.loss, config.loss.name
    num_chains = loss.chains_per_observation
    samplers = [sampler(config, name) for name in ("prior", "posterior")]
    check_samplers(section, samplers)
    if section.persistent and section.warm_start:
        raise ConfigError(
            "config.sampler.persistent and config.sampler.warm_start exclude each other: chains go "
            "on where they stood, or start where those of the power below ended."
        )
    if estimator == "covariance" and num_chains < 2:
        raise ConfigError(
            "config.loss.name='covariance' needs at least 2 chains of every image, got "
            f"config.loss.chains_per_observation={num_chains}."
        )
    if estimator != "through_chain":
        return
    if section.persistent:
        raise ConfigError(
            "config.loss.name='through_chain' differentiates whole chains and so starts them "
            "afresh: set --config.sampler.persistent=False."
        )
    for chosen in samplers:
        if chosen.entry.rejects:
            raise ConfigError(
                f"{chosen.where}.name={chosen.name!r} accepts or rejects, which has "
                "no derivative: config.loss.name='through_chain' needs 'sgld' or another "
                "sampler that always moves."
            )


def sampler(config: Config, name: str) -> Chosen:
    """Returns the sampler that ``config.sampler.<name>.name`` names, for "prior" or "posterior".

    It moves one chain at a time, because each chain has a separate density.
    """
    return of_shared(config, f"sampler.{name}", SINGLE)


def check_test_images(config: Config, num_test: int) -> None:
    """Raises ConfigError where ``num_test`` images are too few for ``config.evals.num_test``."""
    held = "holdout" if config.data.holdout else "max_test"
    if config.evals.num_test > num_test:
        raise ConfigError(
            f"config.evals.num_test must be at most {num_test}, the number of test images "
            f"(config.data.{held}); got {config.evals.num_test}."
        )


def _check_sizes(config: Config) -> None:
    num_test, held = config.evals.num_test, config.data.holdout or 0
    limit = int(held) if held >= 1 else None if held else config.data.max_test
    if limit is not None and num_test is not None:
        check_test_images(config, limit)
    # Without a number, the images decide, and this check comes again.
    if num_test is not None and config.evals.evidence.num_images > num_test:
        raise ConfigError(
            f"config.evals.evidence.num_images must be at most {config.evals.num_test}, the number "
            f"of evaluated images (config.evals.num_test); got {config.evals.evidence.num_images}."
        )
    num_chains = config.evals.evidence.num_chains
    if "smc" in config.evals.evidence.methods and (
        num_chains % SMC_REPEATS or num_chains < 2 * SMC_REPEATS
    ):
        raise ConfigError(
            f"config.evals.evidence.num_chains must be a multiple of {SMC_REPEATS}, and at least "
            f"{2 * SMC_REPEATS}, for config.evals.evidence.methods with 'smc', which makes "
            f"{SMC_REPEATS} populations of them; got {num_chains}."
        )
    if not wants(config, "generation"):
        return
    generated, smallest = config.evals.generation.num_images, config.evals.generation.smallest_num
    if smallest is not None and not 2 <= smallest < generated:
        raise ConfigError(
            "config.evals.generation.smallest_num must be from 2 to "
            f"config.evals.generation.num_images - 1 = {generated - 1}, so that the metrics can be "
            f"extrapolated; got {smallest}."
        )
