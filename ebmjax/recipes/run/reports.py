"""Ends a run: its plots, summary.json, and its full evaluation, evaluation.json."""

import time
import warnings
from dataclasses import asdict
from typing import Any

import jax

from ebmjax import training
from ebmjax._phases import phase
from ebmjax._versions import versions
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.extractor_names import extractor_name
from ebmjax.recipes.evaluators.result_tables import advice, as_lines, evaluation_results, results
from ebmjax.recipes.folder import per_image, workdir
from ebmjax.recipes.folder.run_folder import as_json
from ebmjax.recipes.models.build import Seconds
from ebmjax.recipes.run.run import Run
from ebmjax.types import PyTree


def summarise(run: Run, result: training.FitResult, sitting_seconds: float) -> None:
    """Writes summary.json of a run that trained to its end, and prints where things are.

    The seconds include a pilot's, and the steps that recoveries undid.
    """
    experiment, pilot = run.experiment, run.experiment.pilot
    before, lost = pilot or Seconds(0.0, 0.0), run.recoveries
    seconds = Seconds(
        before.wall + result.wall_seconds + sum(one.lost_seconds for one in lost),
        before.compile + result.compile_seconds + sum(one.lost_compile_seconds for one in lost),
    )
    summary: dict[str, Any] = {
        **result.row,
        "steps": int(result.state.step),
        **_origin(run.config, result.state.params),
        "wall_seconds": round(seconds.wall, 3),
        "compile_seconds": round(seconds.compile, 3),
        "run_seconds": round(seconds.run, 3),
        "data_sha256": result.data_sha256,
    }
    if experiment.config is not None:
        summary["extractor"] = extractor_name(experiment.config)
    if experiment.about_data:
        summary["data"] = list(experiment.about_data)
    if pilot is not None:
        summary["pilot_seconds"] = round(pilot.wall, 3)
    if run.config.train.get("on_divergence") == "recover":
        summary["recoveries"] = [asdict(one) for one in run.recoveries]
    workdir.write_json(run.path / "summary.json", summary)
    print(
        f"Done in {sitting_seconds:.0f} s, of which compiling took {seconds.compile:.0f} s.",
        as_lines(results(summary)),
        *advice(summary),
        f"Numbers in {run.path}/summary.json, plots in {run.path}/plots",
        sep="\n",
    )


def _origin(config: Config, params: PyTree) -> dict[str, Any]:
    """Returns what says by which code, on what and from which seed parameters came."""
    return {
        "seed": config.seed,
        "versions": versions(),
        "revision": workdir.revision(),
        "devices": [str(device.device_kind) for device in jax.devices()],
        "params_sha256": training.tree_digest(params),
    }


def check_evaluation(run: Run) -> None:
    """Raises ConfigError if the family has no full evaluation, or it could not finish.

    It runs before training, so that a mistake in ``config.evals`` shows early.
    """
    if run.experiment.evaluate is None:
        raise ConfigError(
            f"config.family={run.config.family!r} has no evaluation beyond that of its training, "
            "whose numbers are in summary.json: use --mode=train."
        )
    if run.experiment.check_evaluate is not None:
        run.experiment.check_evaluate()


def evaluate(run: Run, state: training.TrainState, is_finished: bool = True) -> None:
    """Evaluates ``state``, writes evaluation.json and says where things are.

    ``is_finished`` says whether that is the outcome of a finished run.

    "per_image" of a report goes to per_image.npz; its errors go into the report. So do warnings of
    numbers that could not be measured, which are printed too.
    """
    path, config, experiment = run.path, run.config, run.experiment
    assert experiment.evaluate is not None  # ``check_evaluation`` refuses None
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
        "evals": as_json(config)["evals"],
        **_origin(config, state.params),
        "evaluation_seconds": round(time.perf_counter() - started, 3),
    }
    if "data" in config:  # toy families have fresh points in place of a split
        is_held_out = (experiment.config or config).data.get("holdout")
        is_held_out = is_held_out and not config.evals.use_test_split
        report["split"] = "validation" if is_held_out else "test"
    workdir.write_json(path / "evaluation.json", report)
    # Some families draw no plots.
    drawn = f", plots in {path}/plots/eval_*" if any((path / "plots").glob("eval_*")) else ""
    shown = as_lines(evaluation_results(report))
    print(
        f"Evaluated step {report['step']} in {report['evaluation_seconds']:.0f} s.",
        *(f"warning: {text}" for text in report["warnings"]),
        *([shown] if shown else []),
        f"Numbers in {path}/evaluation.json{drawn}",
        sep="\n",
    )
