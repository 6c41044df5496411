"""Every field of the plane's configurations. ``loss.name`` tells its two models apart.

"beta" trains an energy for every beta of the robust objective at once; "contrastive_divergence"
trains one energy, which many samplers follow afterwards. The defaults are those of the first.
"""

from functools import partial

from ebmjax.recipes.config import declare
from ebmjax.recipes.config.common_fields import RECOVERY, ROBUST, family, own_options, pick_fields
from ebmjax.recipes.config.declare import Field, allow_preset, field, under, when_is
from ebmjax.recipes.config.ranges import (
    BELOW_ONE,
    COUNT,
    FINITE,
    FLAG,
    GRID,
    PATH,
    POSITIVE,
    TWO_OR_MORE,
    WHOLE,
    WIDTHS,
    one_of,
    one_of_or_function,
    optional,
)
from ebmjax.recipes.parts.samplers.sections import declare_section as of_any
from ebmjax.recipes.parts.samplers.sections import sections
from ebmjax.recipes.parts.samplers.table import PLAIN

COMPARED = ("gradient_descent", "sgld", "psgld", "mala", "tempered_mala")
COMPARED += ("svgd", "stochastic_svgd", "hmc")

ALPHA = 5e-4
"""Variance of the noise of the robust paper's chains, twice their step."""

CD = allow_preset(when_is("loss.name", "contrastive_divergence"))
DENOISING = when_is("loss.name", "denoising", what="denoising score matching")
COMPARING = when_is("loss.name", "contrastive_divergence", "denoising")
GAUSSIANS = when_is("data.name", "gaussians")
OWN = when_is("data.name", "npy", what="your own points")

_COMPARED: dict[str, Field] = {
    "eval.samplers": field(
        COMPARED, one_of_or_function(*PLAIN), "samplers that --mode=eval compares"
    ),
    "eval.num_chains": field(10, TWO_OR_MORE, "chains of each sampler"),
    "eval.num_chain_steps": field(5000, COUNT, "steps of a chain"),
    "eval.burn_in": field(1000, WHOLE, "first steps that are left out"),
    "eval.num_frames": field(40, WHOLE, "frames of the animation; 0: none"),
}
_OF_BETA: dict[str, Field] = {
    **pick_fields(loss={"beta_variant": "default", "output_scale": 2 / ALPHA}),
    "sampler.num_samples": field(20, COUNT, "chains that move at each update"),
    "sampler.start_mean": field((0.0, 0.0), FINITE, "mean of the start distribution"),
    "loss.betas": field(
        (0.0, 0.1, 0.3, 0.5, 0.7, 0.9), BELOW_ONE, "exponents of the robust objective, a model each"
    ),
    "loss.beta_start": field(
        None, optional(BELOW_ONE), "beta at the start, linear to each of betas; None: constant"
    ),
    "loss.allow_negative": field(False, FLAG, "allow a beta below 0"),
    "eval.bandwidth": field(0.05, POSITIVE, "kernel bandwidth of density estimates"),
}

FIELDS: dict[str, Field] = {
    **family("plane"),
    "data.name": field(
        "gmm",
        one_of("gmm", "circles", "gaussians", "npy"),
        "eight weighted Gaussians, four circles, four equal Gaussians, or your points (npy)",
    ),
    "data.path": field("", PATH, "an .npy file of points (N, 2)", OWN),
    **pick_fields(
        data={"num_points": 50_000},
        model={"activation": "leaky_relu_0.05"},
        optimizer={"learning_rate": 1e-3},
        train={
            "num_epochs": 20,
            "batch_size": 50,
            "steps_per_dispatch": 500,
            "log_every": 100,
            "checkpoint_every_epochs": 20,
            "max_consecutive_skips": 20,
            "prng_impl": "threefry2x32",
            **RECOVERY,
            "max_abs_loss": 1e3,
        },
        mesh={"num_shards": 1},
        eval={"every_epochs": 5.0},
    ),
    "data.radius": field(10.0, POSITIVE, "distance of the means from the origin", GAUSSIANS),
    "model.hidden": field((32, 64, 64, 64), WIDTHS, "hidden layers of the energy"),
    **of_any("sampler", PLAIN, ALPHA / 2, "sampler of the negatives"),
    **own_options("sampler", "a sampler"),
    "sampler.num_steps": field(20, WHOLE, "steps of a chain between two updates"),
    "sampler.start_scale": field(
        1.0, POSITIVE, "standard deviation of starts, around start_mean or around the data"
    ),
    "loss.name": field("beta", one_of("beta", "contrastive_divergence", "denoising"), "objective"),
    **under(_OF_BETA, ROBUST),
    **under(
        pick_fields(
            loss={"energy_l2": 0.0}, sampler={"buffer.size": None, "buffer.reinit_prob": 0.05}
        ),
        CD,
    ),
    "loss.noise_scale": field(
        0.3, POSITIVE, "noise at which scores are matched, in units of the plane", DENOISING
    ),
    **under(_COMPARED, COMPARING),
    "eval.half_width": field(2.0, POSITIVE, "half width of the grid of densities"),
    "eval.grid_points": field(200, GRID, "cells of the grid along an axis"),
    "eval.num_samples": field(10_000, TWO_OR_MORE, "samples whose distances are measured"),
}
SECTIONS = sections(PLAIN, "sampler.name", has_shared=False)
configure = partial(declare.configure, {**FIELDS, **SECTIONS})
