"""The SVGD thesis's tuning study: ten images, one hyperparameter of the sampler at a time.

There are four sweeps. Each is run for the objective as printed ("literal") and for the corrected
one, with particles put back by softmax and by argmax. Batches hold the first image of each class,
so an update is an epoch. Updates whose loss exceeds 1e5 in magnitude are skipped and counted.
<sweep>_<objective>.png are the curves of a sweep.

Variants: "" has the digits; cifar10 ten images of CIFAR-10 at 16x16, in --config.data.path=FOLDER.

Source: SVGD-in-JEM thesis, 5.1, Figures 5.1-5.4.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study, make_flags
from ebmjax.recipes.study.figures import DISTANCE, Panel, over_training
from ebmjax.recipes.study.table import pick_columns

skip = project("settings.joint_rows").skip

STEPS = {"literal": 0.09, "corrected": 6.5}
"""Step sizes where they are not swept, by objective."""

STEP, PARTICLES = "sampler.svgd.step_size", "sampler.num_samples"
THESIS: dict[str, Any] = {
    PARTICLES: 43,
    "sampler.num_steps": 10,
    "loss.smoothing": 1.0,
    "sampler.svgd.bandwidth": None,
    "mesh.num_shards": 1,  # for 23 and 43 particles
}
SWEEPS: dict[str, tuple[str, Sequence[float], dict[str, Any]]] = {
    # Up to 0.09 they are the thesis's; beyond, 1/n of a particle's own score is made up for.
    "step_size": (STEP, (0.005, 0.01, 0.09, 1.0, 6.5, 43.0), {}),
    "num_particles": (PARTICLES, (10, 23, 43, 64), {}),
    "num_steps": ("sampler.num_steps", (5, 10, 20), {PARTICLES: 23}),
    "smoothing": ("loss.smoothing", (1.0, 5.0, 50.0, 500.0), {}),
}
"""The field that is swept, its values, and what differs from ``THESIS``, by sweep."""

DIGITS = ("configs/svgdjem_digits.py:corrected", "--config.data.crop_padding=1")
CIFAR = ("configs/svgdjem_cifar10.py:cpu_corrected",)
LENGTH = dict.fromkeys(
    ("train.num_epochs", "train.checkpoint_every_epochs", "evals.every_epochs"), 200
)
COMMON = (
    *make_flags(
        {
            **LENGTH,
            "train.steps_per_dispatch": 50,
            "train.batch_size": 10,
            "train.positive_batch_size": 10,
            "train.log_every": 1,
            "train.max_consecutive_skips": 1_000_000,
            "data.num_per_class": 1,
            "data.augment_positives": False,
            "optimizer.name": "adam",
            "optimizer.learning_rate": 1e-3,
            "optimizer.decay_epochs": (),
            "sampler.buffer.size": 430,  # small, so that chains continue from what was put back
        }
    ),
    *skip(),
)
PANELS: tuple[Panel, ...] = (
    ("accuracy", "accuracy on the ten images", "linear"),
    ("cross_entropy", "classification loss, nats", "log"),
    ("loss", "total loss, nats", "symlog"),
    ("log_density_gap", "f of data - f of particles, nats", "symlog"),
    DISTANCE,
    ("negative_entropy", "entropy of the particles, nats", "linear"),
)


def rows(sweep: str, objective: str) -> dict[str, tuple[str, ...]]:
    """Returns the label and flags of every value of a sweep, by both replacements.

    Half of the particles are kept.
    """
    swept, values, others = SWEEPS[sweep]
    frozen = {**THESIS, **others, STEP: STEPS[objective], "loss.svgd_variant": objective}
    found = {}
    for value in values:
        fields = frozen | {swept: value}
        fields["sampler.buffer.num_kept"] = fields[PARTICLES] // 2
        for replacement in ("softmax", "argmax"):
            flags = make_flags({**fields, "sampler.buffer.replacement": replacement})
            found[f"{sweep} {objective} {value:g}, {replacement}"] = flags
    return found


def draw(folder: Path) -> None:
    """Draws a figure for each sweep and objective."""
    for name in SWEEPS:
        for objective in STEPS:
            over_training(PANELS, f"{name}_{objective}", folder, list(rows(name, objective)))


def study(base: Sequence[str]) -> Study:
    """Returns the study of all sweeps, from a configuration and its arguments."""
    last = "over_training.last"
    return Study(
        rows={
            label: [*base, *flags]
            for name in SWEEPS
            for objective in STEPS
            for label, flags in rows(name, objective).items()
        },
        columns={
            "accuracy": (f"{last}.accuracy", 1.0, 2),
            "cross entropy": (f"{last}.cross_entropy", 1.0, 3),
            "loss": (f"{last}.loss", 1.0, 3),
            "f of data - f of particles": (f"{last}.log_density_gap", 1.0, 3),
            "squared distance travelled": (f"{last}.chain_displacement", 1.0, 7),
            "entropy of the particles": (f"{last}.negative_entropy", 1.0, 0),
            **pick_columns("skipped steps"),
        },
        num_seeds=1,
        common=COMMON,
        draw=(draw,),
    )


STUDIES = {"": study(DIGITS), "cifar10": study(CIFAR)}
