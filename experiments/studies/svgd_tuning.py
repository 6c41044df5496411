"""The SVGD thesis's tuning study: ten images, one hyperparameter of the sampler at a time.

There are five sweeps. Each is run for the objective as printed ("literal") and for the corrected
one, with particles put back by softmax and by argmax, and once in place as a reference. Batches
hold the first image of each class, so an update is an epoch. Updates whose loss exceeds 1e5 in
magnitude are skipped and counted. <sweep>_<objective>.png are the curves of a sweep.

Variants: "" has the digits; cifar10 the first four sweeps on ten images of CIFAR-10 at 16x16, in
--config.data.path=FOLDER.

Source: SVGD-in-JEM thesis, 5.1, Figures 5.1-5.4; the fifth sweep follows the words of 3.3.2.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study, make_flags
from ebmjax.recipes.study.columns import pick_columns
from ebmjax.recipes.study.figures import DISTANCE, Panel, over_training

skip = project("settings.joint_rows").skip

STEPS = {"literal": 0.09, "corrected": 6.5}
"""Step sizes where they are not swept, by objective."""

REPLACEMENTS = ("softmax", "argmax")
REFERENCE = "in_place"
THESIS: dict[str, Any] = {"num_particles": 43, "num_steps": 10, "smoothing": 1.0, "bandwidth": None}
# Up to 0.09 they are the thesis's; beyond, 1/n of a particle's own score is made up for.
STEP_SIZES = (0.005, 0.01, 0.09, 1.0, 6.5, 43.0)


class Sweep(NamedTuple):
    """Values of one field, and the others, frozen."""

    field: str
    values: tuple[float, ...]
    frozen: Mapping[str, Any]


SWEEPS = {
    "step_size": Sweep("step_size", STEP_SIZES, THESIS),
    "num_particles": Sweep("num_particles", (10, 23, 43, 64), THESIS),
    "num_steps": Sweep("num_steps", (5, 10, 20), THESIS | {"num_particles": 23}),
    "smoothing": Sweep("smoothing", (1.0, 5.0, 50.0, 500.0), THESIS),
    # The other reading of the thesis's median rule.
    "step_size_median": Sweep("step_size", STEP_SIZES, THESIS | {"bandwidth": "median"}),
}
DIGITS = ("configs/svgdjem_digits.py:corrected", "--config.data.crop_padding=1")
CIFAR = ("configs/svgdjem_cifar10.py:cpu_corrected",)
FIELDS = {
    "step_size": "sampler.svgd.step_size",
    "num_particles": "sampler.num_samples",
    "num_steps": "sampler.num_steps",
    "smoothing": "loss.smoothing",
    "bandwidth": "sampler.svgd.bandwidth",
}
COMMON = (
    "--config.data.num_per_class=1",
    "--config.data.augment_positives=False",
    "--config.optimizer.name=adam",
    "--config.optimizer.learning_rate=1e-3",
    "--config.optimizer.decay_epochs=()",
    "--config.sampler.buffer.size=430",  # small, so that chains continue from what was put back
    "--config.train.batch_size=10",
    "--config.train.positive_batch_size=10",
    "--config.train.log_every=1",
    "--config.train.max_consecutive_skips=1000000",
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


def label(objective: str, replacement: str, values: Mapping[str, Any]) -> str:
    """The label of a run, and the name of its folder."""
    bandwidth = f"-bandwidth_{values['bandwidth']}" if values["bandwidth"] else ""
    return (
        f"{objective}-{replacement}-step{values['step_size']:g}"
        f"-particles{values['num_particles']}-steps{values['num_steps']}"
        f"-smoothing{values['smoothing']:g}{bandwidth}"
    )


def arguments(objective: str, replacement: str, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Further arguments of a run. Half of the particles are kept, where they are chosen."""
    fields = {
        "mesh.num_shards": 1,  # for 23 and 43 particles
        "loss.svgd_variant": objective,
        "sampler.buffer.num_kept": None,
    }
    if replacement != REFERENCE:
        fields["sampler.buffer.replacement"] = replacement
        fields["sampler.buffer.num_kept"] = values["num_particles"] // 2
    return make_flags(fields | {FIELDS[name]: value for name, value in values.items()})


def lines(sweep: Sweep, objective: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Label to name in a figure and arguments: every value by both replacements, and in place."""
    frozen = {"step_size": STEPS[objective], **sweep.frozen}
    runs = [(r, dict(frozen, **{sweep.field: v})) for v in sweep.values for r in REPLACEMENTS]
    runs.append((REFERENCE, frozen))
    return {
        label(objective, replacement, values): (
            f"{values[sweep.field]:g}, {replacement.replace('_', ' ')}",
            arguments(objective, replacement, values),
        )
        for replacement, values in runs
    }


def draw(sweeps: Mapping[str, Sweep], folder: Path) -> None:
    """A figure for each sweep and objective."""
    for name, sweep in sweeps.items():
        for objective in STEPS:
            shown = {row: text for row, (text, _) in lines(sweep, objective).items()}
            over_training(PANELS, f"{name}_{objective}", folder, shown)


def study(base: Sequence[str], sweeps: Mapping[str, Sweep]) -> Study:
    """The study of ``sweeps``, from a configuration and its arguments."""
    intervals = ("train.num_epochs", "train.checkpoint_every_epochs", "evals.every_epochs")
    length = make_flags(dict.fromkeys(intervals, 200) | {"train.steps_per_dispatch": 50})
    return Study(
        rows={
            row: [*base, *further, *length]
            for sweep in sweeps.values()
            for objective in STEPS
            for row, (_, further) in lines(sweep, objective).items()
        },
        columns={
            "accuracy": ("over_training.last.accuracy", 1.0, 2),
            "cross entropy": ("over_training.last.cross_entropy", 1.0, 3),
            "loss": ("over_training.last.loss", 1.0, 3),
            "f of data - f of particles": ("over_training.last.log_density_gap", 1.0, 3),
            "squared distance travelled": ("over_training.last.chain_displacement", 1.0, 7),
            "entropy of the particles": ("over_training.last.negative_entropy", 1.0, 0),
            **pick_columns("skipped steps"),
        },
        num_seeds=1,
        common=COMMON,
        draw=partial(draw, sweeps),
    )


STUDIES = {
    "": study(DIGITS, SWEEPS),
    "cifar10": study(CIFAR, {k: v for k, v in SWEEPS.items() if k != "step_size_median"}),
}
