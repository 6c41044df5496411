"""A folder of the study of thermodynamic integration on the digits, filled with random numbers."""

import ast
import json

import numpy as np
from experiment_runs import digits

from ebmjax.recipes.folder.run_folder import as_json
from ebmjax.recipes.study.cells import cells, load

VARIANCES = (
    "coordinate_gradient_variance",
    "gradient_variance",
    "generator_coordinate_gradient_variance",
)
LOST = "tempered p=10.0"  # its last seed has no number
SIZES = [240, 300, 360]
MANIFOLD = ("precision", "recall", "density", "coverage")


def number(rng):
    return rng.uniform(0.01, 0.02)


def evaluation(rng, config):
    """evaluation.json of a run with random numbers, as the specification of a run has it."""
    powers = np.linspace(0, 1, config["loss"]["num_intervals"] + 1) ** config["loss"]["exponent"]
    train = config["train"]
    steps = train["num_epochs"] * (config["data"]["max_train"] // train["batch_size"])
    distances = {
        score: {"values": SIZES, "infinity": number(rng)}
        for score in ("fid", "kid_rbf", "kid_polynomial")
    }
    manifold = {score: number(rng) for score in MANIFOLD}
    return {
        **{name: number(rng) for name in (*VARIANCES, "test_log_evidence")},
        "generation": {
            "extractor": {"name": "digits_features"},
            "fresh": {"at_sizes": distances, "rms_displacement": number(rng), **manifold},
        },
        "evidence": {"ais": {"mean": number(rng)}},
        "powers": powers.tolist(),
        "test_mean_log_likelihoods": (rng.normal() + powers).tolist(),
        "cost": {
            "train_seconds": rng.uniform(10, 20),
            "flops_per_step": rng.uniform(1e6, 1e7),
            "steps": steps,
        },
    }


def lose(report):
    """Takes the numbers of the samples and of the gradient away."""
    for name in VARIANCES:
        report[name] = None
    for score in ("fid", "kid_rbf", "kid_polynomial"):
        report["generation"]["fresh"]["at_sizes"][score]["infinity"] = None


def write_run(cell, rng):
    """The folder of a finished run; returns its evaluation."""
    config_name, *arguments = cell.command[4:-3]
    _, _, variant = config_name.partition(":")
    config = digits(variant, **dict(_override(one) for one in arguments))
    report = evaluation(rng, config.to_dict())
    if cell.label == LOST and cell.seed == 4:
        lose(report)
    (cell.folder / "monitor").mkdir(parents=True)
    (cell.folder / "config.json").write_text(json.dumps(as_json(config)))
    (cell.folder / "evaluation.json").write_text(json.dumps(report))
    rows = [{"step": 5 * i, "loss": rng.normal()} for i in range(4)]
    rows += [{"step": 20, "test_log_evidence": 1.0}]
    (cell.folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    samples = rng.integers(0, 256, (40, 8, 8, 1), np.uint8)
    np.savez(cell.folder / "monitor" / "000020.npz", samples=samples)
    return report


def _override(argument):
    name, _, text = argument.removeprefix("--config.").partition("=")
    try:
        return name, ast.literal_eval(text)
    except ValueError:
        return name, text


def make(name, folder):
    """A study's folder; label to the evaluations of its runs."""
    rng = np.random.default_rng(0)
    study = load(f"studies/thermo_digits.py{name}")
    found = {}
    for cell in cells(study, folder, study.num_seeds):
        found.setdefault(cell.label, []).append(write_run(cell, rng))
    return found
