"""States that a run keeps or begins from: the best, another run's, one from before a divergence."""

import math
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ebmjax import training
from ebmjax._ranges import MAX_INTEGER
from ebmjax._records import list_steps
from ebmjax._shown import SEE_FAQ, trim
from ebmjax.recipes.config import declare, families
from ebmjax.recipes.config.errors import Config, ConfigError, WorkdirError, flatten
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.models.build import Experiment
from ebmjax.training import Monitor

RECOVERIES, MOST_RECOVERIES = "recoveries.json", 5

SMALLER = {
    r"sampler\.(.+\.)?step_size|optimizer\.((prior|generator)\.(final_)?)?learning_rate": 0.5,
    r"sampler\.(.+\.)?noise_scale": 0.5**0.5,  # the temperature stays
}
"""Factor of a recovery, by patterns of the names of fields."""

DOES_NOT_FIT = (training.CheckpointMismatchError, training.CheckpointDamagedError)


def keep_best(monitor: Monitor, folder: Path, name: str, about: Mapping[str, Any]) -> Monitor:
    """Returns ``monitor``, which then saves the state in ``folder`` if its number is the best.

    The first of equals is kept; a state before training, or without a finite number, never is.
    After an interruption the kept state still counts, unless its step is taken again.
    """
    sign, best, kept_step = 1.0 if families.IS_HIGHER_BETTER[name] else -1.0, -math.inf, -1
    if folder.exists():
        with training.Checkpoints(folder, is_read_only=True) as kept:
            found = kept.newest_before(MAX_INTEGER + 1)
        if found is not None:
            kept_step, best = found[0], sign * found[1][name]

    def measure(state: training.TrainState, step: int) -> dict[str, Any]:
        nonlocal best, kept_step
        if step <= kept_step:  # kept by an earlier sitting whose later steps are lost
            shutil.rmtree(folder)
            best, kept_step = -math.inf, -1
        row = monitor(state, step)
        value = row[name]
        if step > 0 and math.isfinite(value) and sign * value > best:
            best, kept_step = sign * value, step
            with training.Checkpoints(folder, max_to_keep=1, about=about) as kept:
                kept.save(step, state, {"step": step, name: value})
        return row

    return measure


def warm_start(config: Config, path: Path, experiment: Experiment) -> training.WarmStart | None:
    """Returns the start from ``train.start_from``; None once the run has begun.

    Raises:
      ConfigError: if that is not the folder of a run with a checkpoint of the same network, or one
        that was trained on images that this run holds out.
    """
    if list_steps(path / "checkpoints"):
        return None
    folder = config.train.start_from
    other = Path(folder).expanduser()
    assert experiment.warm_start is not None  # in every family that has the field
    try:
        theirs, ours = run_folder.config_of(other).data, config.data
        differing = [n for n in ("max_train", "holdout") if theirs[n] != ours[n]]
        if (experiment.config or config).data.holdout and theirs["name"] == ours.name and differing:
            raise WorkdirError(
                "that run may have learnt from images that config.data.holdout holds out, since "
                f"its config.data.{differing[0]} is {theirs[differing[0]]}. Start from a run that "
                "held out the same, or set --config.data.holdout=0."
            )
        start = experiment.warm_start(other / "checkpoints")
    except (FileNotFoundError, WorkdirError, *DOES_NOT_FIT) as error:
        raise ConfigError(f"config.train.start_from={folder!r}: {error}") from error
    taken, anew = ", ".join(("params", *start.taken)), ", ".join(("optimizer", *start.anew))
    print(f"Starts from step {start.step} of {folder}: {taken}; anew: {anew}")
    return start


def smaller_steps(config: Config) -> dict[str, list[Any]]:
    """Returns [value, new value] of every field that a recovery changes.

    Steps of a sampler that adapt stay: a checkpoint holds them.
    """
    adapts = config.get("sampler", {}).get("target_acceptance") is not None
    return {
        name: [value, factor * value]
        for name, value in flatten(run_folder.as_json(config)).items()
        for pattern, factor in SMALLER.items()
        if re.fullmatch(pattern, name) and value and not (adapts and name.startswith("sampler."))
    }


def read_recoveries(path: Path, config: Config) -> list[dict[str, Any]]:
    """Returns the recoveries of a run; raises WorkdirError for a file that holds anything else."""
    file, fields = path / RECOVERIES, families.fields_of(config)
    if not file.exists():
        return []
    try:
        found = list(run_folder.read_json(file)["recoveries"])
        for one in found:
            for name, (_, new) in one["changes"].items():
                if not any(re.fullmatch(pattern, name) for pattern in SMALLER):
                    raise ValueError(f"a recovery does not change {trim(name)}")
                declare.from_json(fields[name], name, new)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise WorkdirError(
            f"{file} must hold the recoveries of this run, but does not ({error}). Put it back as "
            "it was, or use another --workdir."
        ) from error
    return found


def go_back(
    path: Path, config: Config, recoveries: list[dict[str, Any]], error: training.DivergenceError
) -> list[dict[str, Any]]:
    """Takes a run that diverged back to a checkpoint, and returns its recoveries with the new one.

    That is the newest from before the first skipped step; without any, step 0. Later checkpoints go
    first, and recoveries.json is written then: a process that is killed between diverges once more
    at the same step, and goes back to the same checkpoint. ``config`` has all that the recoveries
    so far changed, and what the images decided. It may also say that the run ends with ``error``.
    """
    changes, hint = smaller_steps(config), ""
    if config.train.get("on_divergence", "stop") == "stop":
        hint = "With --config.train.on_divergence=recover a new run takes smaller steps itself."
    elif not changes or len(recoveries) == MOST_RECOVERIES:
        hint = f"It had recovered {len(recoveries)} times."
    if hint:
        raise training.DivergenceError(f"{error.args[0]} {hint}") from error
    with training.Checkpoints(path / "checkpoints") as kept:
        step, _ = kept.newest_before(error.first_skipped) or (0, {})
        kept.remove_after(step)
    found = {"diverged_at": error.step, "first_skipped": error.first_skipped}
    found |= {"reason": error.reason, "from_step": step, "changes": changes}
    every = [*recoveries, found]
    changed = ", ".join(f"config.{name} {old:g} -> {new:g}" for name, (old, new) in changes.items())
    print(
        f"Diverged at step {error.step}: {error.reason or 'no finite update'}, from step "
        f"{error.first_skipped} on. Goes on from step {step} with a new key and smaller steps: "
        f"{changed}. {SEE_FAQ}",
        flush=True,
    )
    run_folder.write_json(path / RECOVERIES, {"recoveries": every})
    return every
