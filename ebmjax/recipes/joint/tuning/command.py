"""The SVGD thesis's tuning study: ten images, five sweeps, the printed and the corrected objective.

  python experiments/svgd_tuning.py --folder=runs/svgd_tuning
  python experiments/svgd_tuning.py --folder=runs/svgd_tuning_cifar10 --seeds=3 \
    --config=configs/svgdjem_cifar10.py:cpu --config.data.data_dir=FOLDER

--config names the data and the network, and further fields change them as for run.py; what the
study sets itself (optimiser, objective, the sampler's settings) it keeps. Every run has a folder of
its own below FOLDER (config.json, metrics.jsonl, summary.json). What is finished is not run again,
so the same command continues an interrupted study, and --seeds=3 adds to a study of one seed.
FOLDER/<sweep>.png, table.md and table.json are drawn at the end, means over the seeds with their
spread; --sweeps=step_size makes one sweep alone. --quick is a study of seconds that shows nothing.

Source: SVGD-in-JEM thesis, section 5.1, Figures 5.1-5.4. The fifth sweep, step sizes with the
bandwidth h = median, is of its words in 3.3.2."""

import argparse
import copy
import dataclasses
import signal
import sys
from pathlib import Path
from typing import Any

from ebmjax import training
from ebmjax.recipes.core import launch, workdir
from ebmjax.recipes.core.command_line import read
from ebmjax.recipes.core.fields import Config, ConfigError, stop
from ebmjax.recipes.core.validate import check_ranges
from ebmjax.recipes.core.workdir_lock import only_process
from ebmjax.recipes.joint.tuning import plots, runs
from ebmjax.recipes.joint.tuning.sweeps import FULL, QUICK, REFERENCE_REPLACEMENT, Setting, Study


def fields(base: Config, study: Study, setting: Setting) -> dict[str, Any]:
    """Fields that the study sets in a configuration; the others are those of ``base``."""
    is_reference = setting.replacement == REFERENCE_REPLACEMENT
    return {
        "seed": setting.seed,
        # As in the thesis: two streams, of which only the classified one is augmented.
        "data.crop_padding": base.data.crop_padding or 1,
        "data.augment_positives": False,
        # The recipes for whole data sets warm up and decay within so many of their epochs.
        "optimizer.name": "adam",
        "optimizer.learning_rate": 1e-3,
        "optimizer.weight_decay": 0.0,
        "optimizer.warmup_steps": 0,
        "optimizer.schedule": "steps",
        "optimizer.decay_epochs": (),
        "optimizer.rho": None,
        "sampler.name": "svgd",
        "sampler.box": "clamp",
        "sampler.max_score": 1.0,
        "sampler.num_samples": setting.num_particles,
        "sampler.num_steps": setting.num_steps,
        "sampler.svgd.step_size": setting.step_size,
        "sampler.svgd.bandwidth": setting.bandwidth,
        "sampler.buffer.size": study.buffer_size,
        "sampler.buffer.replacement": setting.replacement,
        # With all of them kept, softmax and argmax would choose nothing.
        "sampler.buffer.num_kept": None if is_reference else setting.num_particles // 2,
        "loss.generative": "svgd",
        "loss.svgd_variant": setting.objective,
        "loss.beta": 0.0,
        "loss.energy_l2": 0.0,
        "loss.smoothing": setting.smoothing,
        "loss.smoothing_ratio": None,
        "train.batch_size": base.data.num_classes,
        "train.positive_batch_size": base.data.num_classes,
        "train.num_epochs": study.num_updates,
        "train.steps_per_dispatch": min(50, study.num_updates),
        "train.log_every": 1,
    }


def configuration(base: Config, study: Study, setting: Setting) -> Config:
    """``base`` with the fields of ``setting``; batches are an image of each class."""
    config = copy.deepcopy(base)
    config.update_from_flattened_dict(fields(base, study, setting))
    check_ranges(config)
    return config


def base_configuration(config: str, arguments: list[str]) -> Config:
    """``CONFIG[:VARIANT]`` with further ``--config.`` arguments.

    Raises:
      ConfigError: for one that the study sets itself, for a configuration of another family, or of
        data without classes.
      SystemExit: as ``command_line.read``.
    """
    base = read(config, arguments)
    if base.family != "joint" or not base.data.num_classes:
        raise ConfigError(
            f"--config must name a joint energy model of data with classes, got {config!r}: take "
            "configs/svgdjem_digits.py or configs/svgdjem_cifar10.py."
        )
    one = FULL.settings(1)[0]
    for argument in arguments:
        name = argument.removeprefix("--config.").partition("=")[0]
        if name in fields(base, FULL, one):
            raise ConfigError(
                f"config.{name} is set by the study, for each run: leave {argument} out."
            )
    return base


def run(base: Config, study: Study, setting: Setting, folder: Path) -> int | None:
    """Makes the run in its folder unless it is there; returns the signal that stopped it, or None.

    Raises:
      WorkdirError: if the folder holds a run of another configuration, or another process is in it.
    """
    path, config = folder / setting.name, configuration(base, study, setting)
    workdir.prepare(path, config)
    with only_process(path):
        if (path / "summary.json").exists():
            return None
        return train(path, config)


def train(path: Path, config: Config) -> int | None:
    """Does the work of ``run`` once the folder is prepared."""
    prepared = runs.prepare(config)
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
    workdir.write_summary(path, {"diverged": diverged, **plots.averages(rows)})
    return None


def main(argv: list[str] | None = None) -> None:
    """Makes the runs that are missing, then table and plots."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="of the study")
    parser.add_argument("--seeds", type=int, default=1, help="runs of every setting, default 1")
    parser.add_argument("--sweeps", nargs="+", help=f"some of {', '.join(FULL.sweeps)}")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--config", default="configs/svgdjem_digits.py", help="data and network")
    options, rest = parser.parse_known_args(argv)
    if unknown := [argument for argument in rest if not argument.startswith("--config.")]:
        parser.error(f"unrecognised arguments: {' '.join(unknown)}")
    study, folder = QUICK if options.quick else FULL, options.folder.expanduser()
    if options.seeds < 1:
        parser.error(f"--seeds must be at least 1, got {options.seeds}.")
    if options.sweeps:
        if unknown := [name for name in options.sweeps if name not in study.sweeps]:
            parser.error(f"--sweeps must be of {', '.join(study.sweeps)}, got {unknown[0]!r}.")
        chosen = {name: study.sweeps[name] for name in options.sweeps}
        study = dataclasses.replace(study, sweeps=chosen)
    launch.use_compilation_cache()
    settings = study.settings(options.seeds)
    try:
        base = base_configuration(options.config, rest)
        for i, setting in enumerate(settings):
            print(f"{i + 1}/{len(settings)} {setting.name}", flush=True)
            if (signum := run(base, study, setting, folder)) is not None:
                print("Interrupted; the same command continues.", file=sys.stderr)
                sys.exit(128 + signum)
    except launch.USER_ERRORS as error:
        stop(error)
    except KeyboardInterrupt:  # between two runs, or while compiling
        print("Interrupted; the same command continues.", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    print(plots.draw(study, folder, options.seeds))
