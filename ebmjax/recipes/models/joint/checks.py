"""Refuses fields of a joint model's configuration that exclude each other."""

from ebmjax.recipes.config import checks
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.extractor_names import OF_SAMPLES, scores_of_samples
from ebmjax.recipes.evaluators.table import wants
from ebmjax.recipes.parts.objectives.table import check_objective
from ebmjax.recipes.parts.samplers import SAMPLERS, Chosen, check_particles, of_section
from ebmjax.recipes.parts.samplers import check as check_samplers

RUNNING_CHAINS = ("running", "running_chains")
"""Policies whose chains are normalised by running statistics, each on its own."""


def check(config: Config, about_images: str = "") -> None:
    """Raises ConfigError at the first pair of fields that do not go together.

    Args:
      config: of the family.
      about_images: what was read, and what was not.
    """
    if config.data.num_classes == 0:
        raise ConfigError(
            f"config.family=joint trains a classifier, and the images have no labels"
            f"{about_images and f' ({about_images})'}: add them, or take a configuration that "
            "needs none, such as configs/image.py or configs/latent.py."
        )
    if not config.model.factory and ((config.model.depth - 4) % 6 or config.model.depth < 10):
        raise ConfigError(
            f"config.model.depth must be 6n + 4 with n at least 1 (10, 16, 22, 28, ...), got "
            f" {config.model.depth}."
        )
    has_energy, section = bool(config.loss.generative_weight), config.sampler
    has_samples = has_energy and section.buffer.size is not None
    num_blocks, chosen = count_blocks(config), _check_sampler(config, has_energy)
    of_samples = scores_of_samples(config) if has_samples else set()
    if chosen:
        checks.check_box(config)
    if chosen and has_energy:
        checks.check_starts(config, [chosen.name] if chosen.rejects else [])
        checks.check_shards(config, "sampler.num_samples", "sampler.buffer.num_kept")
    if has_energy:
        check_objective(config)
    if has_samples:
        repeated = num_blocks if config.loss.is_conditional else 1
        checks.check_buffer(config, num_blocks, num_drawn=section.num_samples * repeated)
    checks.check_kept(config, set(checks.IS_HIGHER_BETTER) - OF_SAMPLES | of_samples)


def sampler(config: Config) -> Chosen:
    """Returns the sampler that ``config.sampler.name`` names."""
    return of_section(config, "sampler.name", config.sampler.name, SAMPLERS)


def count_blocks(config: Config) -> int:
    """Returns the number of blocks, one a class, that the replay buffer is divided into.

    Without a number of classes it is 1: the data decide, and what uses it comes again.
    """
    has_blocks = config.loss.is_conditional or config.sampler.buffer.start == "informative"
    return (config.data.num_classes or 1) if has_blocks else 1


def _check_sampler(config: Config, has_energy: bool) -> Chosen | None:
    """Returns the sampler of a run that has chains; refuses what it does not go with."""
    is_refined = wants(config, "robustness") and config.evals.robustness.refine_steps
    if not has_energy and not is_refined:
        return None
    chosen = sampler(config)
    # Without a step, the images decide, and this check comes again.
    if chosen.options.get("step_size", 0.0) is not None:
        check_samplers(config.sampler, (chosen,))
    if has_energy:
        check_particles((chosen,), config.sampler.num_samples)
        if config.loss.is_conditional and chosen.entry.interacts:
            able = sorted(name for name, entry in SAMPLERS.items() if not entry.interacts)
            raise ConfigError(
                f"config.loss.is_conditional=True needs chains that belong to a class; the "
                f"particles of config.sampler.name={chosen.name!r} move together. Take one of "
                f"{able}."
            )
        if not config.model.factory and config.model.norm == "batch":
            check_independence(config, chosen)
    if is_refined:
        _check_refinement(config, chosen)
    return chosen


def check_independence(config: Config, chosen: Chosen) -> None:
    """Refuses samplers that a network with batch statistics does not go with."""
    if config.model.get("norm_policy") in RUNNING_CHAINS:
        return
    if chosen.rejects or chosen.entry.interacts:
        does = "takes moves back chain by chain"
        if chosen.entry.interacts:
            does = "moves particles that interact"
        batch_norm, instead = "config.model.norm='batch'", "set --config.model.norm=group"
        if config.model.factory:
            batch_norm, instead = "your own network", "take group normalisation"
        raise ConfigError(
            f"config.sampler.name={chosen.name!r} {does}, and chains normalised by their batch, "
            f"as by {batch_norm} and norm_policy={config.model.norm_policy!r}, depend on "
            f"each other in a way it does not know: {instead}, or "
            "--config.model.norm_policy=running."
        )


def _check_refinement(config: Config, chosen: Chosen) -> None:
    section = config.evals.robustness
    if chosen.entry.interacts:
        raise ConfigError(
            f"config.evals.robustness.refine_steps={section.refine_steps} needs a run whose chains "
            "move each on its own, because every image must be classified on its own. Set it to 0."
        )
