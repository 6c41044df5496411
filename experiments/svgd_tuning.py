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
from pathlib import Path

from ebmjax import training
from experiments import launch, svgd_tuning_plots, svgd_tuning_runs, workdir
from experiments.config import Config
from experiments.configs import svgdjem_digits
from experiments.svgd_tuning_sweeps import FULL, QUICK, REFERENCE_REPLACEMENT, Setting, Study
from experiments.validate import check_ranges
from experiments.workdir_lock import only_process


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
      WorkdirError: if the folder holds a run of another configuration, or another process is in it.
    """
    path, config = folder / setting.name, configuration(study, setting)
    workdir.prepare(path, config)
    with only_process(path):
        if (path / "summary.json").exists():
            return None
        return train(path, config)


def train(path: Path, config: Config) -> int | None:
    """As ``run``, once the folder is prepared."""
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
