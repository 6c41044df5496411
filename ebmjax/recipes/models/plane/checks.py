"""Refuses fields of a configuration of the plane that exclude each other. Needs no JAX."""

import inspect
from typing import Any

from ebmjax.recipes.config.errors import Config, ConfigError, pick
from ebmjax.recipes.config.user_parts import UserPart, default_options, find_function, is_users
from ebmjax.recipes.models.plane.fields import COMPARED
from ebmjax.recipes.parts.samplers import PLAIN, Chosen, defaults, of_shared
from ebmjax.recipes.parts.samplers import check as check_samplers

DATA = {
    "beta": ("gmm", "circles", "npy"),
    "contrastive_divergence": ("gaussians", "npy"),
    "denoising": ("gaussians", "npy"),
}
"""Data that each objective is studied on."""

MIN_DRAWS = 4
"""Fewest draws that chains are judged by."""


def _setting(leapfrogs: int, **step_sizes: float) -> dict[str, dict[str, Any]]:
    """Returns the options of samplers by name; the others are the table's, at temperature 1."""
    options: dict[str, dict[str, Any]] = {k: {"step_size": v} for k, v in step_sizes.items()}
    options["hmc"]["num_integration_steps"] = leapfrogs
    return options


SETTINGS = {
    "thesis": _setting(10, **dict.fromkeys(COMPARED, 0.01)),
    "tuned": _setting(
        3,
        gradient_descent=0.5,
        sgld=0.1,
        psgld=0.1,
        mala=1.0,
        tempered_mala=2.0,
        svgd=3.0,
        stochastic_svgd=2.0,
        hmc=0.2,
    ),
}
"""Settings in which ``--mode=eval`` runs every sampler: the thesis's steps, and ones to use."""


def chosen_for(setting: str, name: str) -> Chosen:
    """Returns a sampler of ``eval.samplers`` as a setting has it.

    A function of the user aims at temperature 1, too. It has the thesis's step, or its own default.

    Raises:
      ConfigError: if there is no such function, or it has an argument without a default.
    """
    where = "config.eval.samplers"
    if not is_users(name):
        return Chosen(name, where, defaults(name) | SETTINGS[setting].get(name, {}))
    function = find_function("eval.samplers", name)
    density, *others = inspect.signature(function).parameters
    usual = {"noise_scale": None, "temperature": 1.0}
    if setting == "thesis":
        usual["step_size"] = 0.01
    options = default_options(function, (density, "axis_name"))
    options |= {key: value for key, value in usual.items() if key in others}
    bare = [one for one in others if one not in (*options, "axis_name")]
    if bare:
        raise ConfigError(
            f"{where}={name!r} has arguments {bare} without a value. Give them defaults, in the "
            "function's signature or in FIELDS of its file."
        )
    return Chosen(name, where, options, UserPart("eval.samplers", name, function, options))


def check(config: Config) -> None:
    """Raises ConfigError at the first pair of fields that do not go together."""
    pick("data.name", config.data.name, dict.fromkeys(DATA[config.loss.name]))
    if config.data.name == "npy" and not config.data.path:
        raise ConfigError(
            "config.data.name=npy needs config.data.path, an .npy file of points (N, 2): set "
            "--config.data.path=FILE."
        )
    check_samplers(config.sampler, [of_shared(config, "sampler", PLAIN)])
    if config.loss.name == "beta":
        _check_beta(config)
    else:
        _check_samplers(config)


def name_of(beta: float) -> str:
    """0.3 is "0_3" and -0.5 "minus_0_5": dots descend in the columns of a study."""
    return f"{beta:g}".replace("-", "minus_").replace(".", "_")


def _check_beta(config: Config) -> None:
    betas, start = config.loss.betas, config.loss.beta_start
    if not betas or len({name_of(beta) for beta in betas}) < len(betas):
        raise ConfigError(
            "config.loss.betas must be one or more numbers that differ in their first six digits, "
            f"got {betas}."
        )
    lowest = min(*betas, betas[0] if start is None else start)
    if lowest < 0 and not config.loss.allow_negative:
        raise ConfigError(
            f"config.loss.betas and config.loss.beta_start must be 0 or more, got {lowest}. "
            "Negative ones are for samplers that overshoot: --config.loss.allow_negative=True."
        )
    if len(config.sampler.start_mean) != 2:
        raise ConfigError(
            f"config.sampler.start_mean must have two entries, got {config.sampler.start_mean}."
        )
    if config.mesh.num_shards != 1:
        raise ConfigError(
            "config.mesh.num_shards must be 1 for config.loss.name=beta, whose models share their "
            f"batches, got {config.mesh.num_shards}."
        )
    if config.loss.beta_variant == "true_objective" and config.train.batch_size % 2:
        raise ConfigError(
            "config.train.batch_size must be even for config.loss.beta_variant=true_objective, "
            f"which halves it, got {config.train.batch_size}."
        )
    width = 2 * config.eval.half_width / config.eval.grid_points
    if config.eval.bandwidth < width:
        raise ConfigError(
            f"config.eval.bandwidth={config.eval.bandwidth} must be at least the width of a cell, "
            f"{width:.3g}. Take more config.eval.grid_points."
        )


def _check_samplers(config: Config) -> None:
    section, size = config.eval, config.sampler.buffer.size
    if config.sampler.num_steps < 1:
        raise ConfigError("config.sampler.num_steps must be an integer of at least 1, got 0.")
    if not section.samplers:
        raise ConfigError("config.eval.samplers must name at least one sampler, got none.")
    chosen = [chosen_for("tuned", name) for name in section.samplers]
    if len({one.label for one in chosen}) < len(chosen):
        raise ConfigError(
            "config.eval.samplers must name each function once, whatever its file, because the "
            f"report has the names; got {section.samplers}."
        )
    check_samplers({}, chosen)
    if section.burn_in > section.num_chain_steps - MIN_DRAWS:
        raise ConfigError(
            f"config.eval.burn_in must leave at least {MIN_DRAWS} of config.eval.num_chain_steps="
            f"{section.num_chain_steps} to judge the chains by, got {section.burn_in}."
        )
    if size is not None and (size < config.train.batch_size or size % config.mesh.num_shards):
        raise ConfigError(
            "config.sampler.buffer.size must be None (chains start anew), or at least "
            f"config.train.batch_size={config.train.batch_size} and a multiple of "
            f"config.mesh.num_shards={config.mesh.num_shards}; got {size}."
        )
