"""Runs the full evaluation of a finished run: evaluation.json and the family's files."""

import time
import warnings
from pathlib import Path

import jax
import numpy as np

from ebmjax import training
from ebmjax._phases import phase
from ebmjax.recipes.core import best, per_image, workdir
from ebmjax.recipes.core.build import Experiment
from ebmjax.recipes.core.fields import Config, ConfigError, WorkdirError
from ebmjax.recipes.core.tracking import evaluation_table


def check_folder(path: Path, config: Config) -> None:
    """Raises WorkdirError unless the folder holds a run of ``config``; ``eval`` may differ.

    Raises:
      WorkdirError: if there is no checkpoint, or the run has another configuration.
    """
    workdir.check(path, config, may_differ="eval.")
    folder = path / "checkpoints"
    if not (path / "config.json").exists() or not folder.is_dir() or not any(folder.iterdir()):
        raise WorkdirError(
            f"--workdir {path} holds no checkpoint to evaluate. Train first: the same command with "
            "--mode=train, or with --mode=all to train and then evaluate."
        )


def check(experiment: Experiment, config: Config) -> None:
    """Raises ConfigError if the family has no full evaluation, or it could not finish.

    It runs before training, so that a mistake in ``config.eval`` shows early.
    """
    if experiment.evaluate is None:
        raise ConfigError(
            f"config.family={config.family!r} has no evaluation beyond that of its training, whose "
            "numbers are in summary.json: use --mode=train."
        )
    if experiment.check_evaluate is not None:
        experiment.check_evaluate()


def is_of_best(config: Config) -> bool:
    """Returns whether the best state of training is evaluated instead of the last."""
    return config.eval.get("checkpoint") == "best"


def restore(path: Path, config: Config, experiment: Experiment) -> training.TrainState:
    """Returns the state to evaluate: the end of training, or the best state.

    The end is the newest intact checkpoint in ``path``. ``config.eval.checkpoint`` chooses the best
    state, which may also be a diverged run's.

    Raises:
      WorkdirError: if training is unfinished; if it diverged and the best state is not chosen; if
        there is no best state.
      CheckpointMismatchError: see ``Checkpoints.restore_latest``; also if the run was trained on
        other data.
      CheckpointDamagedError: see ``Checkpoints.restore_latest``.
    """
    with training.Checkpoints(path / "checkpoints") as checkpoints:
        restored = checkpoints.restore_latest(experiment.state)
    state = experiment.state
    if restored:
        state, meta = restored
        training.check_same_data(meta, int(state.step), training.digest_data(experiment.data))
    step, total = int(state.step), experiment.plan.total_steps
    skipped = int(np.min(state.consecutive_skipped))  # over all repeats, as ``fit`` counts
    has_diverged = skipped >= experiment.plan.max_consecutive_skips
    if has_diverged and not is_of_best(config):
        raise WorkdirError(
            f"--workdir {path} holds a run that diverged: the last {skipped} steps, up to step "
            f"{step} of {total}, had no finite update. It cannot be continued and is not "
            "evaluated. Train in another workdir, with longer chains, an L2 penalty on the "
            "energies, a lower learning rate or smaller steps of the sampler; from what this run "
            f"has learnt, with --config.train.start_from={path}. If it kept its best state "
            "(train.keep_best), that is evaluated with --config.eval.checkpoint=best."
        )
    if step < total and not has_diverged:
        raise WorkdirError(
            f"--workdir {path} holds an unfinished run: its newest checkpoint that can be read is "
            f"of step {step} of {total}. Continue it with the command and the configuration it was "
            "started with and --mode=train; then evaluate."
        )
    return best.restore(path, experiment.state) if is_of_best(config) else state


def _split(config: Config) -> str:
    """Returns the evaluated images: "test", or "validation" for those held out of training."""
    is_held_out = config.data.get("num_validation") and not config.eval.use_test_split
    return "validation" if is_held_out else "test"


def evaluate(
    path: Path, config: Config, experiment: Experiment, state: training.TrainState
) -> None:
    """Evaluates ``state``, writes evaluation.json and says where things are.

    "per_image" of a report goes to per_image.npz; its errors go into the report. So do warnings of
    numbers that could not be measured, which are printed too.
    """
    assert experiment.evaluate is not None  # ``check`` refuses None
    started = time.perf_counter()
    (path / "plots").mkdir(exist_ok=True)
    with (
        phase(f"evaluating step {int(state.step):,}"),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", UserWarning)
        report = experiment.evaluate(jax.device_get(state))
    report["warnings"] = [str(one.message) for one in caught]
    if "per_image" in report:
        report["test_set_error"] = per_image.write(path, report.pop("per_image"))
    report |= {
        "step": int(state.step),
        "seed": config.seed,
        "eval": workdir.as_json(config)["eval"],
        "versions": workdir.versions(),
        "revision": workdir.revision(),
        "devices": [str(device.device_kind) for device in jax.devices()],
        "params_sha256": training.tree_digest(state.params),
        "evaluation_seconds": round(time.perf_counter() - started, 3),
    }
    if "data" in config:  # toy families have fresh points in place of a split
        report["split"] = _split(config)
    workdir.write_json(path / "evaluation.json", report)
    # Some families draw no plots.
    drawn = f", plots in {path}/plots/eval_*" if any((path / "plots").glob("eval_*")) else ""
    shown = evaluation_table(report)
    print(
        f"Evaluated step {report['step']} in {report['evaluation_seconds']:.0f} s.",
        *(f"warning: {text}" for text in report["warnings"]),
        *([shown] if shown else []),
        f"Numbers in {path}/evaluation.json{drawn}",
        sep="\n",
    )
