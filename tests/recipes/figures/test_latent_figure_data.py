"""Figures of thermodynamic integration against numpy on the numbers of the runs."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from latent_study_folder import LOST, REPEATS, labels, make, write_run

from ebmjax.recipes.study.cells import cells
from ebmjax.recipes.study.study_file import load
from experiments.figures import latent_runs as runs
from experiments.figures import latent_sweeps as sweeps
from experiments.figures.latent_data import (
    BATCH_SIZE,
    EPOCHS,
    Absent,
    at_infinity,
    equal_updates,
    gather,
    points,
    quadratic,
    regimes,
    series,
    variants,
)
from experiments.studies.thermo_digits import FINER_BATCHES, UPDATES


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """(folder of the whole study, what its runs measured)."""
    folder = tmp_path_factory.mktemp("study")
    return folder, make("", folder)


@pytest.fixture(scope="module")
def rows(study):
    return gather(study[0])


def test_a_sweep_is_what_differs_in_the_swept_field_alone(rows):
    assert labels(series(rows, "vanilla")) == [f"batch = {n}" for n in (25, 50, 75, 150)]
    for estimator in ("tempered", "frozen_prior"):
        powers = [f"p = {p:g}" for p in (0.1, 0.3, 1, 3, 6, 10)]
        assert labels(series(rows, estimator)) == powers
        vanilla, low, high = regimes(rows, estimator).values()
        assert labels(vanilla)[0] == "batch = 25"
        assert (labels(low), labels(high)) == (powers[:3], powers[3:])
    assert {row.estimator for row in series(rows, "frozen_prior")} == {"frozen_prior"}
    with pytest.raises(Absent, match=r"two rows of covariance that differ in loss\.exponent"):
        series(rows, "covariance")


def test_equal_updates_of_vanilla_learning_are_a_regime_of_their_own(tmp_path):
    make(":regimes", tmp_path)
    found = gather(tmp_path)
    assert labels(equal_updates(found)) == [
        "batch = 15, epochs = 2",
        "batch = 25, epochs = 3",
        "batch = 40, epochs = 5",
        "batch = 50, epochs = 7",
        "batch = 75",
        "batch = 100, epochs = 14",
        "batch = 150, epochs = 21",
    ]
    assert labels(series(found, "vanilla")) == [f"batch = {n}" for n in FINER_BATCHES]
    for estimator in ("frozen_prior", "tempered"):
        by_name = regimes(found, estimator)
        assert [len(mine) for mine in by_name.values()] == [7, 7, 7, 7]
        assert by_name["vanilla, equal updates"] == equal_updates(found)
    for row in equal_updates(found):
        assert abs(row.updates - UPDATES) <= UPDATES / 8
    assert series(found, "vanilla")[0].updates == 960


def test_updates_are_equal_within_an_eighth():
    found = [
        SimpleNamespace(
            estimator="vanilla", changes=changes, updates=updates, config={BATCH_SIZE: updates}
        )
        for updates, changes in [(800, {}), *((n, {EPOCHS: n}) for n in (699, 700, 900, 901))]
    ]
    assert [row.updates for row in equal_updates(found)] == [700, 800, 900]


def test_variants_say_what_they_change(rows):
    assert labels(variants(rows, "frozen_prior")) == [
        "p = 0.1, $N_t$ = 30",
        "p = 0.1, K = 40",
        "p = 6, $N_t$ = 30",
    ]
    more = {"p = 6, schedule = adaptive", "p = 6, warm_start = True", "p = 6, posterior = mala"}
    assert more <= set(labels(variants(rows, "tempered")))
    assert labels(variants(rows, "vanilla")) == ["batch = 75, epochs = 50"]


def test_boxes_hold_the_repeats_that_did_not_diverge(study, rows):
    _, measured = study
    for name in sweeps.VARIANCES:
        names, boxed = sweeps.box_values(series(rows, "vanilla"), name)
        assert names == ["25", "50", "75", "150"]
        for batch, values in zip(names, boxed, strict=True):
            np.testing.assert_array_equal(values, measured[f"vanilla batch={batch}"][name])
        names, boxed = sweeps.box_values(series(rows, "tempered"), name)
        assert names == ["0.1", "0.3", "1", "3", "6", "10\n(1 lost)"]
        np.testing.assert_array_equal(boxed[0], measured["tempered p=0.1"][name])
        np.testing.assert_array_equal(boxed[-1], measured[LOST][name][:-1])


def test_points_are_means_and_standard_deviations_over_repeats(study, rows):
    _, measured = study
    high = regimes(rows, "tempered")["p > 1"]
    found = points(high, "gradient_variance", at_infinity("fid"))
    for i, label in enumerate(("tempered p=3.0", "tempered p=6.0", LOST)):
        kept = slice(None, -1) if label == LOST else slice(None)
        x = measured[label]["gradient_variance"][kept]
        y = measured[label]["generation"]["fresh"]["at_sizes"]["fid"]["infinity"][kept]
        expected = (np.mean(x), np.mean(y), np.std(x, ddof=1), np.std(y, ddof=1))
        np.testing.assert_allclose([column[i] for column in found[1:]], expected, rtol=1e-12)


def test_a_parabola_is_found_again(rows):
    found = points(series(rows, "vanilla"), "gradient_variance", at_infinity("fid"))
    found = found._replace(y=3 * found.x**2 - 0.1 * found.x + 2)
    curve = quadratic(found)
    # Equations of degree 2 in numbers scaled to [-1, 1]: a few hundred float64 roundings, the
    # leading coefficient blown up by the square of the range of x, 1e-2.
    np.testing.assert_allclose(curve.convert().coef, [2, -0.1, 3], rtol=1e-8)
    np.testing.assert_allclose(curve(found.x), found.y, rtol=1e-13)
    assert quadratic(found._replace(x=found.x[:2], y=found.y[:2])) is None
    assert quadratic(found._replace(x=np.ones(4))) is None


def test_curves_of_a_row(study, rows):
    _, measured = study
    row = series(rows, "tempered")[-1]
    steps, losses = row.loss()
    assert steps.tolist() == [0, 5, 10, 15]
    expected = np.array(measured[LOST]["losses"], float)
    np.testing.assert_array_equal(losses, expected)
    assert np.isnan(losses[-1, -1])
    powers, values = row.mean_log_likelihoods()
    np.testing.assert_array_equal(powers, measured[LOST]["powers"])
    kept = np.array(measured[LOST]["test_mean_log_likelihoods"][:-1])
    np.testing.assert_allclose(values, kept.mean(axis=0), rtol=1e-12)


def test_samples_are_the_last_of_the_first_sound_repeat(study, rows):
    folder, measured = study
    row = series(rows, "tempered")[0]
    images, repeat = row.samples(at_infinity("fid"))
    assert repeat == 0
    np.testing.assert_array_equal(images, measured["tempered p=0.1"]["samples"][0])
    path = folder / "tempered_p=0.1" / "seed0" / "evaluation.json"
    text = path.read_text()
    report = json.loads(text)
    report["generation"]["fresh"]["at_sizes"]["kid_rbf"]["infinity"][0] = None
    path.write_text(json.dumps(report))
    row = series(gather(folder), "tempered")[0]
    path.write_text(text)
    images, repeat = row.samples(at_infinity("kid_rbf"))
    assert repeat == 1
    np.testing.assert_array_equal(images, measured["tempered p=0.1"]["samples"][1])
    expected = tuple(
        measured["tempered p=0.1"]["generation"]["fresh"]["at_sizes"][one]["infinity"][1]
        for one in ("kid_rbf", "fid")
    )
    assert runs.find_shown_scores(row) == expected


def test_costs_have_every_row_and_leave_out_what_has_none(study, rows):
    _, measured = study
    found = runs.cost_values(rows, "train_seconds")
    assert len(found) == len(measured)
    # The mean of three equal numbers is that number but for its last bits.
    for shown, label in (
        ("vanilla, batch = 25", "vanilla batch=25"),
        ("frozen_prior, p = 0.1, $N_t$ = 30", "frozen_prior p=0.1 N_t=30"),
    ):
        seconds = measured[label]["cost"]["train_seconds"]
        assert found[shown] == pytest.approx(seconds, rel=1e-15)
    found = points(series(rows, "vanilla"), "cost.train_seconds", at_infinity("fid"))
    seconds = [measured[f"vanilla batch={n}"]["cost"]["train_seconds"] for n in (25, 50, 75, 150)]
    np.testing.assert_allclose(found.x, seconds, rtol=1e-15)
    with pytest.raises(Absent, match=r"no row has cost\.nothing"):
        runs.cost_values(rows, "nothing")


def test_a_single_repeat_without_an_axis_is_one(tmp_path):
    make(":quick", tmp_path)
    folder = tmp_path / "vanilla_batch=25" / "seed0"
    report = json.loads((folder / "evaluation.json").read_text())
    sized = {"fid": {"infinity": 7.0}, "kid_rbf": {"infinity": 0.1}}
    report |= {"gradient_variance": 0.5, "generation": {"fresh": {"at_sizes": sized}}}
    report["test_mean_log_likelihoods"] = report["test_mean_log_likelihoods"][0]
    (folder / "evaluation.json").write_text(json.dumps(report))
    (folder / "metrics.jsonl").write_text('{"step": 5, "loss": 2.0}\n{"step": 10, "loss": null}\n')
    samples = np.full((4, 8, 8, 1), 3, np.uint8)
    np.savez(folder / "monitor" / "000020.npz", samples=samples)
    row = series(gather(tmp_path), "vanilla")[0]
    found = points([row], "gradient_variance", at_infinity("fid"))
    assert [column.tolist() for column in found[1:]] == [[0.5], [7.0], [0.0], [0.0]]
    np.testing.assert_array_equal(row.loss()[1], [[2.0], [np.nan]])
    np.testing.assert_array_equal(row.samples(at_infinity("kid_rbf"))[0], samples)
    np.testing.assert_array_equal(
        row.mean_log_likelihoods()[1], report["test_mean_log_likelihoods"]
    )


def test_seeds_of_a_row_are_further_repeats(tmp_path):
    rng = np.random.default_rng(1)
    made = cells(load("studies/thermo_digits.py:quick"), tmp_path, 2)
    measured = [write_run(cell, rng) for cell in made if cell.label == "tempered p=1.0"]
    (row,) = gather(tmp_path)
    both = measured[0]["gradient_variance"] + measured[1]["gradient_variance"]
    assert row.values("gradient_variance").tolist() == both
    assert row.loss()[1].shape == (4, 2 * REPEATS)
    path = row.runs[0].folder / "evaluation.json"
    report = json.loads(path.read_text())
    report["generation"]["fresh"]["at_sizes"]["fid"]["infinity"] = [None] * REPEATS
    path.write_text(json.dumps(report))
    images, repeat = gather(tmp_path)[0].samples(at_infinity("fid"))
    assert repeat == REPEATS
    np.testing.assert_array_equal(images, measured[1]["samples"][0])


def test_rows_of_which_nothing_is_left_are_no_panel(tmp_path, figures):
    make(":quick", tmp_path)
    for label, null in (("tempered_p=0.1", [None] * REPEATS), ("tempered_p=6.0", None)):
        path = tmp_path / label / "seed0" / "evaluation.json"
        report = json.loads(path.read_text())
        report["generation"]["fresh"]["at_sizes"]["kid_rbf"]["infinity"] = null
        path.write_text(json.dumps(report))
    found = gather(tmp_path)
    assert labels(
        points(series(found, "tempered"), "gradient_variance", at_infinity("kid_rbf")).rows
    ) == ["p = 1"]
    runs.sweep_samples(found, "tempered", tmp_path / "samples.png")
    (axes,) = figures["samples.png"].axes
    assert axes.get_title().splitlines()[0] == "p = 1"
