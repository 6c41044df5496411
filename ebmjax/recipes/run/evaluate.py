"""Runs the full evaluation of a run: evaluation.json and the family's files."""

import time
import warnings
from pathlib import Path

import jax

from ebmjax import training
from ebmjax._phases import phase
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.evaluators import per_image
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.folder.saved_state import Saved
from ebmjax.recipes.models.build import Experiment
from ebmjax.recipes.run import best
from ebmjax.recipes.run.tracking import evaluation_table


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


def restore(
    path: Path, config: Config, experiment: Experiment, found: Saved, is_named: bool = False
) -> tuple[training.TrainState, Saved]:
    """Returns a state and where it was found; nothing in the folder is changed.

    If the newest checkpoint is damaged, it is the newest intact one, unless a step ``is_named``.

    Raises:
      WorkdirError: see ``best.restore``.
      CheckpointMismatchError: see ``Checkpoints.restore_latest``; also if the run was trained on
        other data.
      CheckpointDamagedError: see ``Checkpoints.restore_latest``.
    """
    # Points of a law are what the configuration says; their last bits depend on the machine.
    if "num_points" not in config.data or config.data.name == "npy":
        training.check_same_data(found.meta, found.newest, training.digest_data(experiment.data))
    if found.is_best:
        return best.restore(path, experiment.state), found
    with training.Checkpoints(path / "checkpoints", is_read_only=True) as checkpoints:
        if is_named:
            return checkpoints.restore(experiment.state, found.step)[0], found
        restored = checkpoints.restore_latest(experiment.state)
    assert restored is not None  # ``find_saved`` has seen one
    step = int(restored[0].step)
    if step < found.step:
        print(f"checkpoint {found.step} is damaged; step {step} is used", flush=True)
    return restored[0], found._replace(step=step)


def _split(config: Config) -> str:
    """Returns the evaluated images: "test", or "validation" for those held out of training."""
    is_held_out = config.data.get("holdout") and not config.eval.use_test_split
    return "validation" if is_held_out else "test"


def evaluate(
    path: Path,
    config: Config,
    experiment: Experiment,
    state: training.TrainState,
    is_finished: bool = True,
) -> None:
    """Evaluates ``state``, writes evaluation.json and says where things are.

    ``is_finished`` says whether that is the outcome of a finished run.

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
        "is_finished": is_finished,
        "seed": config.seed,
        "eval": workdir.as_json(config)["eval"],
        "versions": workdir.versions(),
        "revision": workdir.revision(),
        "devices": [str(device.device_kind) for device in jax.devices()],
        "params_sha256": training.tree_digest(state.params),
        "evaluation_seconds": round(time.perf_counter() - started, 3),
    }
    if "data" in config:  # toy families have fresh points in place of a split
        report["split"] = _split(experiment.config or config)
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
