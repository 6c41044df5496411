"""The one table of evaluators: what makes each, when it runs, its fields. Imports no JAX."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ebmjax._ranges import (
    COUNT,
    FLAG,
    GRID,
    INSIDE_ONE,
    NAME,
    POSITIVE,
    RADIUS,
    TWO_OR_MORE,
    WHOLE,
    Range,
    one_of,
    one_of_or_function,
    optional,
)
from ebmjax.recipes.config.declare import (
    Field,
    When,
    allow_preset,
    field,
    under,
    when_other_than,
    when_set,
)
from ebmjax.recipes.parts.samplers.table import PLAIN

END, NEVER, FITTED, CHAINS = "end", "never", "fitted", "chains"
EVERY = Range(
    "'end', 'never', or an integer of at least 1",
    lambda v: v in (END, NEVER) or COUNT.holds(v),
    object,
    (END, NEVER, 1, 3),
)
EVERY_TEXT = "N: at every N-th evaluation of training and at its end; end: only then; never"
IN_TRAINING = Range(
    "'never', or an integer of at least 1",
    lambda v: v == NEVER or COUNT.holds(v),
    object,
    (NEVER, 1, 3),
)

TEMPERATURE = replace(
    POSITIVE,
    words="'fitted', 'chains', or positive and finite",
    holds=lambda v: v in (FITTED, CHAINS) or (not isinstance(v, str) and POSITIVE.holds(v)),
    kind=object,
    examples=(1.0, FITTED, CHAINS),
)

COMPARED = allow_preset(when_set("eval.evidence.methods", "methods to compare"))
COMPARED_SAMPLERS = ("gradient_descent", "sgld", "psgld", "mala", "tempered_mala")
COMPARED_SAMPLERS += ("svgd", "stochastic_svgd", "hmc")
REFINED = when_set("eval.robustness.refine_steps", "chains before an attacked image is classified")


class Entry(NamedTuple):
    """An evaluator that configurations can name.

    Attributes:
      made_by: "module:class" of ``ebmjax.recipes.evaluators``; its arguments are the fields.
      every: when it runs by default.
      fields: its fields below ``eval.<name>``, by name.
      at_end: whether it runs in the evaluation after training, too.
    """

    made_by: str
    every: Any
    fields: Mapping[str, Field] = {}
    at_end: bool = True


EVALUATORS = {
    "classification": Entry("classification:Classification", 1),
    "samples": Entry(
        "samples:Samples",
        1,
        {"num_images": field(1000, TWO_OR_MORE, "samples that are scored during training")},
        at_end=False,
    ),
    "profile": Entry(
        "profile:ChainProfile",
        NEVER,
        {"num_chains": field(64, COUNT, "chains whose every step is kept and drawn")},
        at_end=False,
    ),
    "ood": Entry(
        "ood:OutOfDistribution",
        END,
        {
            "num_images": field(1000, TWO_OR_MORE, "images of each out-of-distribution set"),
            "tfds": field((), NAME, "tensorflow-datasets that are out of distribution"),
            "false_alarm_rate": field(
                0.05, INSIDE_ONE, "share of images held out that a threshold may flag"
            ),
        },
    ),
    "robustness": Entry(
        "robustness:Robustness",
        END,
        {
            "num_images": field(128, COUNT, "test images that are attacked"),
            "linf": field((0, 4, 16, 32), RADIUS, "radii in L-infinity, of 255"),
            "l2": field((0, 64, 128, 256), RADIUS, "radii in L2, of 255"),
            "attack": field(
                "pgd",
                one_of("pgd", "apgd_ce", "apgd_dlr", "apgd_t"),
                "attack: PGD, or AutoPGD by cross-entropy, DLR or targeted DLR",
            ),
            "num_steps": field(20, COUNT, "steps of an attack"),
            "step_size": field(
                None, optional(POSITIVE), "step of PGD, of 255; None: 2.5 radii / steps"
            ),
            "num_restarts": field(1, COUNT, "random starts of an attack"),
            "refine_steps": field(0, WHOLE, "sampler steps before an attacked image is classified"),
            "refine_gradients": field(
                ("bpda", "full"),
                one_of("bpda", "full"),
                "attacks on refined images: bpda takes the chain's derivative as 1, full is its "
                "own",
                REFINED,
            ),
            "num_eot": field(1, COUNT, "gradients averaged in a step of an attack", REFINED),
        },
    ),
    "generation": Entry(
        "generation:Generation",
        END,
        {"num_images": field(1000, TWO_OR_MORE, "images that are generated and scored")},
    ),
    "energies": Entry("energies:Energies", 1),
    "mixing": Entry("mixing:Mixing", END),
    "fit": Entry(
        "fit_tests:FitTests",
        NEVER,
        {
            "num_samples": field(500, TWO_OR_MORE, "chains, and examples of each other set"),
            "tests": field(
                ("ksd", "mmd", "c2st"),
                one_of("ksd", "mmd", "c2st"),
                "kernel Stein discrepancy; MMD and a classifier against held-out data",
            ),
        },
    ),
    "nats": Entry(
        "nats:Nats",
        NEVER,
        {
            "num_images": field(1000, TWO_OR_MORE, "test images or points that are scored"),
            "num_chains": field(64, TWO_OR_MORE, "chains of each side of log Z"),
            "num_powers": field(400, TWO_OR_MORE, "powers from fitted Gaussians to the model"),
            "temperature": field(
                1.0, TEMPERATURE, "divisor of the log density; fitted: by the data; chains: theirs"
            ),
        },
    ),
    "density": Entry(
        "points.density:Density",
        1,
        {
            "half_width": field(2.0, POSITIVE, "half width of the grid of densities in the plane"),
            "grid_points": field(200, GRID, "cells of the grid along an axis"),
            "num_samples": field(10_000, TWO_OR_MORE, "samples whose distances are measured"),
            "bandwidth": field(0.05, POSITIVE, "kernel bandwidth of density estimates"),
        },
    ),
    "comparison": Entry(
        "points.comparison:Comparison",
        NEVER,
        {
            "samplers": field(
                COMPARED_SAMPLERS, one_of_or_function(*PLAIN), "samplers that are compared"
            ),
            "num_chains": field(10, TWO_OR_MORE, "chains of each sampler"),
            "num_steps": field(5000, COUNT, "steps of a chain"),
            "burn_in": field(1000, WHOLE, "first steps that are left out"),
        },
    ),
    "reconstruction": Entry("latent.reconstruction:Reconstruction", 1),
    "evidence": Entry(
        "latent.evidence:Evidence",
        1,
        {
            "num_images": field(32, COUNT, "images whose log evidence is estimated"),
            "num_chains": field(
                64, TWO_OR_MORE, "chains of an image; at least 3 for each latent dimension"
            ),
            "divergences": field(
                True, FLAG, "report divergences, too; False: the trapezium rule alone"
            ),
            "methods": field(
                ("thermodynamic", "stepping_stone", "ais"),
                one_of("thermodynamic", "stepping_stone", "ais", "smc"),
                "methods that are compared after training; empty: none",
            ),
            "num_intervals": field(40, COUNT, "intervals of these methods", COMPARED),
            "num_steps": field(10, COUNT, "steps at each of their powers", COMPARED),
            "step_size": field(0.02, POSITIVE, "step size of their chains", COMPARED),
        },
    ),
    "gradient_variance": Entry(
        "latent.gradient_variance:VarianceOfGradients",
        1,
        {"num_gradients": field(8, TWO_OR_MORE, "gradients whose variance is measured")},
    ),
    "landscape": Entry(
        "landscape:Landscape",
        END,
        {"num_points": field(11, TWO_OR_MORE, "points a side of loss landscapes")},
    ),
}

SELECTED = field(False, FLAG, "also judge the buffer's images that the model is sure of")
"""Field ``eval.generation.selected_by_confidence``, of models that classify."""


def when_evaluated(name: str) -> When:
    """The condition that an evaluator runs; configuration files may set its fields all the same."""
    return allow_preset(when_other_than(f"eval.{name}.every", NEVER, "an evaluation"))


def fields(name: str, *when: When, **changes: Any) -> dict[str, Field]:
    """Returns an evaluator's fields, ``eval.<name>.<field>``, as a family declares them.

    Args:
      name: in the table.
      when: conditions under which the family can run it.
      changes: values in place of the table's defaults, by field; a new field is added.
    """
    entry = EVALUATORS[name]
    every = field(entry.every, IN_TRAINING, "N: at every N-th evaluation of training; never")
    if entry.at_end:
        every = field(entry.every, EVERY, EVERY_TEXT)
    made = {"every": every, **under(entry.fields, when_evaluated(name))}
    for key, value in changes.items():
        made[key] = value if isinstance(value, Field) else replace(made[key], default=value)
    return {f"eval.{name}.{key}": one for key, one in under(made, *when).items()}
