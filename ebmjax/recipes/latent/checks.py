"""Refuses, before training, fields of a latent EBM's configuration that exclude each other."""

import numpy as np

from ebmjax import latent
from ebmjax.recipes.core import best
from ebmjax.recipes.core.fields import Config, ConfigError, choose
from ebmjax.recipes.latent.evidence import JACKKNIFE_GROUPS, METHODS, SMC_REPEATS
from ebmjax.recipes.latent.parts import sampler
from ebmjax.recipes.samplers import check as check_samplers
from ebmjax.recipes.samplers.blackjax_kernels import check_installed

COVARIANCES = {name: name for name in ("full", "diagonal", "shrunk")}
# The fields that make a power law: numbers of intervals and exponents.
LADDERS = (
    ("loss.num_intervals", "loss.exponent"),
    ("loss.pilot_intervals", "loss.pilot_exponent"),
    ("eval.evidence_intervals", "eval.evidence_exponent"),
)


def check(config: Config, num_test: int) -> None:
    """Raises ConfigError at the first pair of fields that do not go together."""
    _check_best(config)
    _check_ladders(config)
    _check_gaussians(config)
    _check_chains(config)
    _check_sizes(config, num_test)
    _check_blackjax(config)


def _check_best(config: Config) -> None:
    has_judge = config.data.num_classes or config.eval.inception_weights
    best.check(config, best.OF_SAMPLES if has_judge else ())
    if config.train.keep_best and config.train.num_repeats > 1:
        raise ConfigError(
            f"config.train.keep_best={config.train.keep_best!r} keeps one state, but each of the "
            f"repeats of config.train.num_repeats={config.train.num_repeats} has a best of its "
            "own: set --config.train.num_repeats=1, or --config.train.keep_best=''."
        )


def _check_ladders(config: Config) -> None:
    """Refuses powers that float32 cannot tell apart: within a compiled program nobody would."""
    for intervals, exponent in LADDERS:
        num_intervals, p = config[intervals], config[exponent]
        powers = np.asarray(latent.power_schedule(num_intervals, p))
        if not np.all(np.diff(powers) > 0):
            raise ConfigError(
                f"config.{intervals}={num_intervals} and config.{exponent}={p} make powers that "
                "coincide in float32, where they must increase strictly from 0 to 1. Take an "
                "exponent nearer to 1, or fewer intervals."
            )


def _check_gaussians(config: Config) -> None:
    """Refuses a Gaussian fit that an image's chains cannot carry, in training or in a report."""
    covariance = choose("loss.kl_covariance", config.loss.kl_covariance, COVARIANCES)
    latent_dim, section = config.model.latent_dim, config.eval
    smallest = fewest_chains(latent_dim)
    if section.evidence_divergences and section.evidence_chains < smallest:
        raise ConfigError(
            f"config.eval.evidence_chains={section.evidence_chains} are too few for the log "
            "evidence that is reported: its divergences fit a full covariance in "
            f"config.model.latent_dim={latent_dim} dimensions to the chains of an image. Set "
            f"--config.eval.evidence_chains={smallest} or more, or "
            "--config.eval.evidence_divergences=False to report the trapezium rule alone, by that "
            "name."
        )
    if config.loss.estimator != "through_chain" or config.loss.kl_weight == 0:
        return
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
    section, estimator = config.sampler, config.loss.estimator
    samplers = [sampler(config, name) for name in ("prior", "posterior")]
    check_samplers(section, samplers)
    if section.persistent and section.warm_start:
        raise ConfigError(
            "config.sampler.persistent and config.sampler.warm_start exclude each other: chains go "
            "on where they stood, or start where those of the power below ended."
        )
    if estimator == "covariance" and config.loss.chains_per_observation < 2:
        raise ConfigError(
            "config.loss.estimator='covariance' needs at least 2 chains of every image, got "
            f"config.loss.chains_per_observation={config.loss.chains_per_observation}."
        )
    _check_control_variates(config)
    if config.loss.kl_sum == "literal" and estimator != "through_chain":
        raise ConfigError(
            "config.loss.kl_sum='literal' is for config.loss.estimator='through_chain', whose "
            f"objective alone has the divergences, got {estimator!r}."
        )
    if estimator != "through_chain":
        return
    if section.persistent:
        raise ConfigError(
            "config.loss.estimator='through_chain' differentiates whole chains and so starts them "
            "afresh: set --config.sampler.persistent=False."
        )
    for chosen in samplers:
        if chosen.entry.rejects:
            raise ConfigError(
                f"{chosen.where}.name={chosen.name!r} accepts or rejects, which has "
                "no derivative: config.loss.estimator='through_chain' needs 'sgld' or another "
                "sampler that always moves."
            )


def _check_control_variates(config: Config) -> None:
    section = config.loss
    if not section.control_variates:
        return
    if section.estimator != "covariance":
        raise ConfigError(
            "config.loss.control_variates=True is for config.loss.estimator='covariance', got "
            f"config.loss.estimator={section.estimator!r}, which has no covariances."
        )
    if section.chains_per_observation < 4 or section.chains_per_observation % 2:
        raise ConfigError(
            "config.loss.control_variates=True needs an even number of at least 4 chains of every "
            "image, one half to fit them for the other, got "
            f"config.loss.chains_per_observation={section.chains_per_observation}."
        )


def _check_sizes(config: Config, num_test: int) -> None:
    held = "num_validation" if config.data.num_validation else "max_test"
    for name, available, which in (
        ("num_test", num_test, f"test images (config.data.{held})"),
        ("evidence_images", config.eval.num_test, "evaluated images (config.eval.num_test)"),
    ):
        if config.eval[name] > available:
            raise ConfigError(
                f"config.eval.{name} must be at most {available}, the number of {which}; got "
                f"{config.eval[name]}."
            )
    for name in config.eval.evidence_methods:
        choose("eval.evidence_methods", name, METHODS)
    num_chains = config.eval.evidence_chains
    if "smc" in config.eval.evidence_methods and (
        num_chains % SMC_REPEATS or num_chains < 2 * SMC_REPEATS
    ):
        raise ConfigError(
            f"config.eval.evidence_chains must be a multiple of {SMC_REPEATS}, and at least "
            f"{2 * SMC_REPEATS}, for config.eval.evidence_methods with 'smc', which makes "
            f"{SMC_REPEATS} populations of them; got {num_chains}."
        )
    generated, smallest = config.eval.num_generated, config.eval.smallest_generated
    if generated and not 2 <= smallest < generated:
        raise ConfigError(
            f"config.eval.smallest_generated must be from 2 to config.eval.num_generated - 1 = "
            f"{generated - 1}, so that the metrics can be extrapolated; got {smallest}."
        )


def _check_blackjax(config: Config) -> None:
    if "smc" in config.eval.evidence_methods:
        check_installed("config.eval.evidence_methods with 'smc'")
