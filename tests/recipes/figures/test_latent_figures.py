"""Figures of the thermodynamic thesis on a study of random numbers."""

import ast
import json

import numpy as np
import pytest
from experiment_runs import digits

from ebmjax.recipes.folder.run_folder import as_json
from ebmjax.recipes.study.cells import cells, load
from experiments.figures import latent

VARIANCES = (
    "coordinate_gradient_variance",
    "gradient_variance",
    "generator_coordinate_gradient_variance",
)
LOST = "tempered p=10.0"  # its last seed has no number
MANIFOLD = ("precision", "recall", "density", "coverage")


def number(rng):
    return rng.uniform(0.01, 0.02)


def evaluation(rng, config):
    """evaluation.json of a run with random numbers, as the specification of a run has it."""
    powers = np.linspace(0, 1, config["loss"]["num_intervals"] + 1) ** config["loss"]["exponent"]
    train = config["train"]
    steps = train["num_epochs"] * (config["data"]["max_train"] // train["batch_size"])
    scores = {score: number(rng) for score in MANIFOLD}
    sized = {score: number(rng) for score in ("fid", "kid_rbf")}
    return {
        **{name: number(rng) for name in (*VARIANCES, "test_log_evidence")},
        "generation": {
            "extractor": {"name": "digits_features"},
            "fresh": {"at_sizes": sized, "rms_displacement": number(rng), **scores},
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
    report["generation"]["fresh"]["at_sizes"] = {"fid": None, "kid_rbf": None}


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


def make(folder):
    """A study's folder of random numbers; label to the evaluations of its runs."""
    rng = np.random.default_rng(0)
    study = load("studies/thermo_digits.py")
    found = {}
    for cell in cells(study, folder, study.num_seeds):
        found.setdefault(cell.label, []).append(write_run(cell, rng))
    return found


VARIANCE = "coordinate_gradient_variance"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The folder, and what each run measured, by the row's label."""
    folder = tmp_path_factory.mktemp("study")
    return folder, make(folder)


def test_names_tell_the_rows_of_a_sweep_from_its_variants(study):
    rows = latent.gather(study[0])
    swept = latent.sweep(rows, "tempered")
    assert [row.swept for row in swept] == [0.1, 0.3, 1.0, 3.0, 6.0, 10.0]
    assert [row.swept for row in latent.sweep(rows, "vanilla")] == [25, 50, 75, 150]
    found = latent.regimes(rows, "tempered")
    assert [len(mine) for mine in found.values()][:3] == [4, 3, 3]
    assert "p=0.1_N_t=30" in [row.changes for row in found["variants"]]


def test_points_are_means_over_the_seeds_with_both_numbers(study):
    folder, measured = study
    rows = [row for row in latent.gather(folder) if row.estimator == "tempered"]
    (lost,) = [row for row in rows if row.changes == LOST.split()[1]]
    means, spreads = latent.means([lost], VARIANCE)
    kept = np.array([one[VARIANCE] for one in measured[LOST][:-1]])
    assert means[0, 0] == pytest.approx(kept.mean())
    assert spreads[0, 0] == pytest.approx(kept.std(ddof=1))


def test_a_parabola_is_fitted_and_judged_by_left_out_points():
    x = np.arange(5.0)
    num, first, parabola, line, constant = latent.fit(x, 3.0 * x**2 - x)
    assert (num, first) == pytest.approx((5, 3.0))
    assert parabola == pytest.approx(0.0, abs=1e-18)
    assert parabola < line < constant
    # By hand: each point is foretold by the mean of the others.
    assert latent.fit(np.arange(3.0), np.array([0.0, 1.0, 5.0]))[4] == pytest.approx(
        np.mean(np.square([3.0 - 0.0, 2.5 - 1.0, 0.5 - 5.0]))
    )
    assert np.isnan(latent.fit(np.arange(3.0), x[:3])[2])


@pytest.mark.slow
def test_every_figure_is_drawn(study):
    folder, _ = study
    latent.draw(folder)
    drawn = {path.stem for path in (folder / "figures").glob("*.png")}
    assert drawn == {f"fig10_kid_rbf_{one}" for one in latent.ESTIMATORS}
    assert len((folder / "figures" / "quadratic_fits.md").read_text().splitlines()) == 4 + 2 * 4
