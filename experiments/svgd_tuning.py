"""The SVGD thesis's tuning study: ten images, four sweeps, the printed and the corrected objective.

  python experiments/svgd_tuning.py --folder=runs/svgd_tuning

Every run has a folder of its own below FOLDER (config.json, metrics.jsonl, summary.json). What is
finished is not run again, so the same command continues an interrupted study, and --seeds=3 adds to
a study of one seed. FOLDER/<sweep>.png, table.md and table.json are drawn at the end. --quick is a
study of seconds that shows nothing.

Source: SVGD-in-JEM thesis, section 5.1, Figures 5.1-5.4."""

import argparse
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ebmjax import training
from experiments import launch, svgd_tuning_plots, svgd_tuning_runs, workdir
from experiments.config import Config
from experiments.configs import svgdjem_digits
from experiments.validate import check_ranges

OBJECTIVES = ("literal", "corrected")
REPLACEMENTS = ("softmax", "argmax")
REFERENCE_REPLACEMENT = "in_place"


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


@dataclass(frozen=True)
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
        frozen: dict[str, Any] = {"step_size": self.step_sizes[objective], **self.frozen[sweep]}
        for value in self.values[sweep]:
            for replacement in REPLACEMENTS:
                yield Setting(objective, replacement, **dict(frozen, **{sweep: value}))
        yield Setting(objective, REFERENCE_REPLACEMENT, **frozen)

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
        "step_size": (0.005, 0.01, 0.09, 1.0, 6.5, 43.0),
        "num_particles": (10, 23, 43, 64),
        "num_steps": (5, 10, 20),
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
QUICK = Study(
    values={
        "step_size": (0.09, 2.0),
        "num_particles": (4,),
        "num_steps": (2,),
        "smoothing": (1.0,),
    },
    frozen={name: {"num_particles": 4, "num_steps": 2, "smoothing": 1.0} for name in FULL.values},
    step_sizes={"literal": 0.09, "corrected": 2.0},
    num_updates=4,
    buffer_size=10,
)


def configuration(study: Study, setting: Setting) -> Config:
    """``svgdjem_digits`` with the fields of ``setting``; batches are the ten images."""
    config: Config = svgdjem_digits.get_config(setting.objective)
    is_reference = setting.replacement == REFERENCE_REPLACEMENT
    config.update_from_flattened_dict(
        {
            "seed": setting.seed,
            # As in the thesis: two streams, of which only the classified one is augmented.
            "data.crop_padding": 1,
            "data.augment_positives": False,
            # The recipe for the whole data set decays a larger rate within 34 epochs.
            "optimizer.learning_rate": 1e-3,
            "optimizer.decay_epochs": (),
            "sampler.num_samples": setting.num_particles,
            "sampler.num_steps": setting.num_steps,
            "sampler.svgd.step_size": setting.step_size,
            "sampler.buffer.size": study.buffer_size,
            "sampler.buffer.replacement": setting.replacement,
            # With all of them kept, softmax and argmax would choose nothing.
            "sampler.buffer.num_kept": None if is_reference else setting.num_particles // 2,
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


def run(study: Study, setting: Setting, folder: Path) -> int | None:
    """Makes the run in its folder unless it is there; returns the signal that stopped it, or None.

    Raises:
      WorkdirError: if the folder holds a run of another configuration.
    """
    path, config = folder / setting.name, configuration(study, setting)
    workdir.prepare(path, config)
    if (path / "summary.json").exists():
        return None
    prepared = svgd_tuning_runs.prepare(config)
    writer = training.JsonlWriter(path / "metrics.jsonl")
    diverged = False
    try:
        result = training.fit(*prepared, writers=[writer])
        if result.signum is not None:
            return result.signum
    except training.DivergenceError:
        diverged = True
    finally:
        writer.close()
    rows = workdir.read_rows(path)
    workdir.write_summary(path, {"diverged": diverged, **svgd_tuning_plots.averages(rows)})
    return None


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
    except KeyboardInterrupt:  # between two runs, or while compiling
        print("Interrupted; the same command continues.", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    print(svgd_tuning_plots.draw(study, folder, options.seeds))


if __name__ == "__main__":
    main()
