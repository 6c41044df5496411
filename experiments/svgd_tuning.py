"""The SVGD thesis's tuning study: ten images, four sweeps, the printed and the corrected objective.

  python experiments/svgd_tuning.py --folder=runs/svgd_tuning

Every run has a folder of its own below FOLDER (config.json, metrics.jsonl, summary.json). What is
finished is not run again, so the same command continues an interrupted study, and --seeds=3 adds to
a study of one seed. FOLDER/<sweep>.png, table.md and table.json are drawn at the end. --quick is a
study of seconds that shows nothing.

Source: SVGD-in-JEM thesis, section 5.1, Figures 5.1-5.4."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":  # as run.py, which is given the repository's root by its installation
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, losses, samplers, training
from experiments import build, jem_parts, launch, workdir
from experiments.config import Config
from experiments.configs import svgdjem_digits
from experiments.validate import check_ranges

OBJECTIVES = ("literal", "corrected")
REPLACEMENTS = ("softmax", "argmax")
REFERENCE_REPLACEMENT = "in_place"
AVERAGED_ROWS = 20


class Setting(NamedTuple):
    """One run. The smoothing is the thesis's alpha; steps are the sampler's."""

    objective: str
    replacement: str
    step_size: float
    num_particles: int
    num_steps: int
    smoothing: float
    seed: int = 0

    @property
    def name(self) -> str:
        """The name of its folder."""
        return (
            f"{self.objective}-{self.replacement}-step{self.step_size:g}"
            f"-particles{self.num_particles}-steps{self.num_steps}"
            f"-smoothing{self.smoothing:g}-seed{self.seed}"
        )


@dataclasses.dataclass(frozen=True)
class Study:
    """Sweeps of one field each, the others frozen.

    Attributes:
      values: of each swept field.
      frozen: the other fields in the sweep of a field; ``step_size`` is that of the objective.
      step_sizes: of each objective where it is not swept.
      num_updates: of the parameters, each an epoch of the ten images.
      buffer_size: of the replay buffer. Small, so that chains do continue from what was put back.
    """

    values: dict[str, tuple[float, ...]]
    frozen: dict[str, dict[str, Any]]
    step_sizes: dict[str, float]
    num_updates: int
    buffer_size: int

    def lines(self, sweep: str, objective: str) -> Iterator[Setting]:
        """The runs of one panel: every value with both replacements, one of them also in place."""
        frozen = {"step_size": self.step_sizes[objective], **self.frozen[sweep]}
        reference = frozen.pop(sweep)
        for value in self.values[sweep]:
            for replacement in REPLACEMENTS:
                yield Setting(objective, replacement, **frozen, **{sweep: value})
        yield Setting(objective, REFERENCE_REPLACEMENT, **frozen, **{sweep: reference})

    def settings(self, num_seeds: int) -> list[Setting]:
        """All runs, each once, seed by seed."""
        once = dict.fromkeys(
            setting
            for sweep in self.values
            for objective in OBJECTIVES
            for setting in self.lines(sweep, objective)
        )
        return [setting._replace(seed=seed) for seed in range(num_seeds) for setting in once]


THESIS: dict[str, Any] = {"num_particles": 43, "num_steps": 10, "smoothing": 1.0}
FULL = Study(
    # Up to 0.09 they are the thesis's; beyond, 1/n of a particle's own score is made up for.
    values={
        "step_size": (0.005, 0.01, 0.09, 1.0, 6.5, 20.0, 43.0),
        "num_particles": (10, 23, 43, 64),
        "num_steps": (5, 10, 20, 40),
        "smoothing": (1.0, 5.0, 50.0, 500.0),
    },
    frozen={
        "step_size": THESIS,
        "num_particles": THESIS,
        "num_steps": THESIS | {"num_particles": 23},
        "smoothing": THESIS,
    },
    step_sizes={"literal": 0.09, "corrected": 6.5},
    num_updates=200,
    buffer_size=430,
)
QUICK_FROZEN = {"num_particles": 4, "num_steps": 2, "smoothing": 1.0}
QUICK = Study(
    values={"step_size": (0.09, 2.0), "smoothing": (1.0, 5.0)},
    frozen={"step_size": QUICK_FROZEN, "smoothing": QUICK_FROZEN},
    step_sizes={"literal": 0.09, "corrected": 2.0},
    num_updates=4,
    buffer_size=8,
)


def configuration(study: Study, setting: Setting) -> Config:
    """``svgdjem_digits`` with the fields of ``setting``; batches are the ten images."""
    config = svgdjem_digits.get_config(setting.objective)
    is_reference = setting.replacement == REFERENCE_REPLACEMENT
    config.update_from_flattened_dict(
        {
            "seed": setting.seed,
            # As in the thesis: two streams, of which only the classified one is augmented.
            "data.augment_positives": False,
            "sampler.num_samples": setting.num_particles,
            "sampler.num_steps": setting.num_steps,
            "sampler.svgd.step_size": setting.step_size,
            "buffer.size": study.buffer_size,
            "buffer.replacement": setting.replacement,
            # With all of them kept, softmax and argmax would choose nothing.
            "buffer.num_kept": None if is_reference else setting.num_particles // 2,
            "loss.smoothing": setting.smoothing,
            "train.batch_size": config.data.num_classes,
            "train.positive_batch_size": config.data.num_classes,
            "train.num_epochs": study.num_updates,
            "train.steps_per_dispatch": min(50, study.num_updates),
            "train.log_every": 1,
        }
    )
    check_ranges(config)
    return config


def one_of_each_class(images: data.ImageData) -> data.ImageData:
    """The first image of every class, in the order of the classes."""
    _, first = np.unique(np.asarray(images.labels), return_index=True)
    return data.ImageData(*(np.asarray(array)[first] for array in images))


class Dials(NamedTuple):
    """What differs between runs of one compiled program; the smoothing is in ``JointShard``."""

    step_size: jax.Array
    is_literal: jax.Array


class Prepared(NamedTuple):
    """What ``training.fit`` takes, but for the writers."""

    key: jax.Array
    state: training.TrainState
    train_step: training.TrainStep
    data: data.ImageData
    plan: training.Plan


def prepare(config: Config) -> Prepared:
    """The run of ``config`` on ten images, with step size and objective as data of the program.

    The particles start from the Gaussians of all training images: one image has no covariance.
    """
    train, _ = build.images(config)
    ten = one_of_each_class(train)
    params_key, train_key, _ = build.root_keys(config)
    network_key, buffer_key = jax.random.split(params_key)
    classifier = jem_parts.classifier(config, config.model.dtype)
    params, statistics = classifier.init(network_key, data.to_signed_unit(jnp.asarray(ten.images)))
    negatives = jem_parts.negatives(config, train)
    shards = training.init_joint_shards(
        buffer_key,
        statistics,
        negatives,
        num_shards=1,
        buffer_size=config.buffer.size,
        smoothing=config.loss.smoothing,
    )
    dials = Dials(
        jnp.full((1,), config.sampler.svgd.step_size),
        jnp.full((1,), config.loss.svgd_variant == "literal"),
    )

    def gradient_fn(key: Any, params: Any, shard: Any, batch: Any) -> tuple[Any, Any, Any]:
        joint, dials = shard
        learn = training.make_joint_gradient_fn(
            classifier,
            training.JointObjective(generative_loss=partial(generative_loss, dials.is_literal)),
            classified_view=jem_parts.classified_view(config),
            positive_view=jem_parts.positive_view(config),
            negatives=dataclasses.replace(
                negatives, sampler=partial(sampler, config.sampler, dials.step_size)
            ),
        )
        gradients, joint, metrics = learn(key, params, joint, batch)
        return gradients, (joint, dials), metrics

    optimizer = jem_parts.optimizer(config, 1)
    return Prepared(
        train_key,
        training.init_state(params, optimizer, (shards, dials)),
        training.make_train_step(gradient_fn, optimizer, max_abs_loss=config.train.max_abs_loss),
        ten,
        build.plan(config, len(ten.images), (config.train.positive_batch_size,)),
    )


def generative_loss(
    is_literal: jax.Array, positive: jax.Array, negative: jax.Array, smoothing: jax.Array
) -> tuple[jax.Array, Any]:
    """Either objective, by a flag that may be traced."""
    corrected, metrics = losses.svgd_generative_loss(positive, negative, smoothing=smoothing)
    literal, _ = losses.svgd_generative_loss(
        positive, negative, smoothing=smoothing, variant="literal"
    )
    return jnp.where(is_literal, literal, corrected), metrics


def sampler(section: Config, step_size: jax.Array, density: Any) -> Any:
    """SVGD with clipped scores in a box, at a step size that may be traced."""
    boxed = samplers.clamp(samplers.svgd, section.low, section.high)
    return boxed(samplers.clip_score(density, section.max_score), step_size=step_size)


def run(study: Study, setting: Setting, folder: Path) -> int | None:
    """Makes the run in its folder unless it is there; returns the signal that stopped it, or None.

    Raises:
      WorkdirError: if the folder holds a run of another configuration.
    """
    path, config = folder / setting.name, configuration(study, setting)
    workdir.prepare(path, config)
    if (path / "summary.json").exists():
        return None
    prepared, writer = prepare(config), training.JsonlWriter(path / "metrics.jsonl")
    diverged = False
    try:
        result = training.fit(*prepared, writers=[writer])
        if result.signum is not None:
            return result.signum
    except training.DivergenceError:
        diverged = True
    finally:
        writer.close()
    workdir.write_summary(path, {"diverged": diverged, **averages(workdir.read_rows(path))})
    return None


def averages(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the table shows: means over the last rows, and how many updates were sound."""
    last = rows[-AVERAGED_ROWS:]
    names = ("accuracy", "cross_entropy", "log_density_gap", "negative_entropy")
    means = {name: float(np.mean([_number(row[name]) for row in last])) for name in names}
    means["generative_loss"] = float(np.mean([generative_part(row) for row in last]))
    # Of the whole run, as exploration; its end would be that of a model gone astray.
    displacements = [_number(row["chain_displacement"]) for row in rows]
    return {
        **means,
        "chain_displacement": float(np.median(displacements)),
        "sound_updates": rows[-1]["step"] - rows[-1]["skipped"],
    }


def generative_part(row: dict[str, Any]) -> float:
    """The generative loss of a row: both terms have weight 1."""
    return _number(row["loss"]) - _number(row["cross_entropy"])


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def main(argv: list[str] | None = None) -> None:
    """Makes the runs that are missing, then table and plots."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="of the study")
    parser.add_argument("--seeds", type=int, default=1, help="runs of every setting, default 1")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    options = parser.parse_args(argv)
    study, folder = QUICK if options.quick else FULL, options.folder.expanduser()
    if options.seeds < 1:
        parser.error(f"--seeds must be at least 1, got {options.seeds}.")
    launch.use_compilation_cache()
    settings = study.settings(options.seeds)
    try:
        for i, setting in enumerate(settings):
            print(f"{i + 1}/{len(settings)} {setting.name}", flush=True)
            if (signum := run(study, setting, folder)) is not None:
                print("Interrupted; the same command continues.", file=sys.stderr)
                sys.exit(128 + signum)
    except launch.USER_ERRORS as error:
        sys.exit(f"error: {error}")
    from experiments import svgd_tuning_plots

    print(svgd_tuning_plots.draw(study, folder, options.seeds))


if __name__ == "__main__":
    main()
