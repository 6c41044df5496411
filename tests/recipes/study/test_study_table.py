"""The table of a study: means, spreads, errors, differences, divergences and what is missing."""

import numpy as np
import pytest
from experiment_runs import strict_json
from study_problem import STUDY as SMALL
from study_problem import fake_runs, run

from ebmjax import metrics
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.folder.run_folder import write_json
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.cells import cells
from ebmjax.recipes.study.table import as_markdown, interval, table, write

COLUMNS = {
    "accuracy | %": ("classification.accuracy", 100.0, 1),
    "-NLL": ("classification.nll", -1.0, 3),
    "FID": ("fid", 1.0, 0),
}
ROWS = {
    "lost": "configs/jem_digits.py:mala",
    "first": "configs/jem_digits.py:softmax",
    "same": "configs/jem_digits.py",
    "better": "configs/jem_digits.py:sam",
    "other images": "configs/jem_digits.py:psgld",
}
STUDY = Study(rows=ROWS, columns=COLUMNS, num_seeds=3)
WRONG = {"first": 40, "same": 38, "better": 4, "other images": 4}
NUM_IMAGES = 357


def answers(label, seed):
    """(images,): right or wrong, and the log likelihoods. Seeds have other images wrong."""
    is_right = np.roll(np.arange(NUM_IMAGES) >= WRONG[label] + seed, 3 * seed)
    return is_right, np.where(is_right, 0.01, 2.0).astype(np.float32)


def finish(cell):
    """The folder of a run as its evaluation leaves it; the last run of "better" is of before."""
    cell.folder.mkdir(parents=True)
    if cell.label == "lost":
        (cell.folder / "diverged.txt").write_text("Training diverged")
        return
    is_right, nll = answers(cell.label, cell.seed)
    report = {"accuracy": is_right.mean(), "nll": float(nll.mean())}
    write_json(
        cell.folder / "evaluation.json",
        {"classification": report, "fid": 3.0, "images_sha256": "ab"[cell.label[0] == "o"]},
    )
    if (cell.label, cell.seed) != ("better", 2):
        found = {"classification.accuracy": is_right, "classification.nll": nll}
        run_folder.write_per_image(
            cell.folder, {name: {"test": array} for name, array in found.items()}
        )


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    made = cells(STUDY, folder, 3)
    for cell in made:
        finish(cell)
    write(STUDY, made, folder)
    return folder, table(STUDY, made)


def rights(label, seeds=3):
    return np.stack([answers(label, seed)[0] for seed in range(seeds)])


def test_every_number_has_its_spread_and_its_interval(study):
    folder, found = study
    lines = (folder / "table.md").read_text().splitlines()
    by_seed = 100 * rights("first").mean(axis=1)
    row = next(line for line in lines if line.startswith("| first"))
    low, high = found["first"]["interval"]["accuracy | %"]
    entry = f"{by_seed.mean():.1f} ± {by_seed.std(ddof=1):.1f} [{low:.1f}, {high:.1f}]"
    assert row.split(" | ")[1] == entry
    assert row.split(" | ")[3] == "3 ± 0"
    assert strict_json((folder / "table.json").read_text()) == found


def test_a_mean_has_an_interval_over_seeds_and_images(study):
    folder, found = study
    low, high = found["first"]["interval"]["-NLL"]
    assert low < np.mean(found["first"]["-NLL"]) < high < 0
    # Its last run keeps no numbers image by image: the interval is of the seeds alone.
    values = found["better"]["accuracy | %"]
    ends = np.mean(values) + np.array([-1, 1]) * 4.302653 * np.std(values, ddof=1) / 3**0.5
    np.testing.assert_allclose(found["better"]["interval"]["accuracy | %"], ends, rtol=1e-6)
    assert "FID" not in found["first"]["interval"]  # equal at all seeds
    assert found["lost"]["interval"] == {}
    assert "[low, high] a 95 % interval of the mean." in (folder / "table.md").read_text()


@pytest.mark.parametrize("num_seeds", [1, 3, 5])
@pytest.mark.parametrize(("level", "by_image"), [(0.0, 1.0), (4.5, 0.0), (7.0, 2.0)])
def test_95_of_100_intervals_hold_the_share_of_right_answers(num_seeds, level, by_image):
    """The log odds of an answer are a level, a part of the image and one of the seed.

    With one seed the interval is of that model. The plain t interval holds it in 45 of 100 at
    level 7 and one seed, where most test sets of 100 have no wrong answer.
    """
    rng, num_studies, by_seed = np.random.default_rng(0), 400, 0.3
    images, seeds = (rng.normal(size=(size, 1)) for size in (4000, 1000))
    odds = level + by_image * images
    everywhere = (1 / (1 + np.exp(-odds - by_seed * seeds.T))).mean()
    num_held = 0
    for _ in range(num_studies):
        of_seeds = by_seed * rng.normal(size=(num_seeds, 1))
        own = level + by_image * rng.normal(size=100) + of_seeds
        is_right = rng.uniform(size=own.shape) < 1 / (1 + np.exp(-own))
        share = everywhere if num_seeds > 1 else (1 / (1 + np.exp(-odds - of_seeds[0]))).mean()
        low, high = interval(is_right.mean(axis=1).tolist(), (is_right,))
        num_held += low <= share <= high
    assert num_held / num_studies > 0.95 - 5 * (0.95 * 0.05 / num_studies) ** 0.5


def test_an_interval_of_what_is_always_right():
    """No spread is left, and Wilson's rule has 1 / (1 + z^2 / N) as its lower end."""
    low, high = interval([1.0, 1.0], (np.ones((2, 100), bool),))
    assert (low, high) == pytest.approx((1 / (1 + 1.959964**2 / 100), 1.0))
    assert interval([3.0]) is interval([3.0, 3.0]) is None


def test_rows_are_compared_with_the_first_that_has_runs_on_the_same_images(study):
    folder, found = study
    for label, seeds in (("same", 3), ("better", 2)):
        pair = found[label]["difference"]["accuracy | %"]
        expected = metrics.paired_difference(rights(label, seeds), rights("first", seeds))
        assert (pair["from"], pair["seeds"]) == ("first", seeds)
        got = [pair[name] / 100 for name in ("difference", "low", "high")]
        np.testing.assert_allclose(got, expected, rtol=1e-9)
        assert "FID" not in found[label]["difference"]
        nll = found[label]["difference"]["-NLL"]
        assert nll["low"] < nll["difference"] < nll["high"]
    compared = {label for label, row in found.items() if "difference" in row}
    assert compared == {"same", "better"}
    text = (folder / "table.md").read_text()
    _, below = text.split("Difference from first on the same images, 95 % interval:\n\n")
    head, _, same, better = below.splitlines()
    assert head == "|  | accuracy \\| % | -NLL | FID |"
    pair = found["same"]["difference"]["accuracy | %"]
    assert same.startswith("| same | +0.56 (")
    assert ("not told apart" in same.split(" | ")[1]) == (pair["low"] <= 0)
    assert better.split(" | ")[1].startswith("+10.")
    assert "told" not in better.split(" | ")[1]


def test_the_table_has_mean_spread_and_divergences(tmp_path, monkeypatch):
    fake_runs(monkeypatch)
    made = cells(SMALL, tmp_path, 2)
    run(made)
    found = table(SMALL, made)
    assert found["plain, a"]["accuracy | %"] == [50.0, 75.0]
    assert found["plain, a"]["seconds"] == [10.0, 11.0]
    assert (found["other/b"]["finished"], found["other/b"]["diverged"]) == (1, 1)
    lines = as_markdown(SMALL, found).splitlines()
    heads = "accuracy \\| % | seconds | absent | finished | diverged | recovered"
    assert lines[0] == f"|  | {heads} |"
    assert lines[2] == "| plain, a | 62.5 ± 17.7 [-96.3, 221.3] | 10 ± 1 [4, 17] | - | 2 | 0 | 0 |"
    assert lines[3] == "| other/b | 50.0 (1 of 2) | 10 (1 of 2) | - | 1 | 1 | 0 |"
    renamed = {label.replace(",", "|"): row for label, row in found.items()}
    assert as_markdown(SMALL, renamed).splitlines()[2].startswith("| plain\\| a | 62.5 ")
    write(SMALL, made, tmp_path)
    assert (tmp_path / "table.md").read_text().splitlines() == lines
    assert strict_json((tmp_path / "table.json").read_text()) == found


def test_a_mean_over_fewer_seeds_says_over_how_many(tmp_path):
    """Five seeds: one is null, one lacks the number, one diverged, and one is not run yet."""
    columns = {"R-hat": ("mixing.rhat", 1.0, 1), "FID": ("fid", 1.0, 0)}
    study = Study(rows={"row": "configs/jem_digits.py"}, columns=columns)
    made = cells(study, tmp_path, 5)
    evaluations = ({"rhat": 29.6}, {"rhat": None}, {})
    for cell in made[:4]:
        cell.folder.mkdir(parents=True)
    for cell, mixing in zip(made, evaluations, strict=False):
        write_json(cell.folder / "evaluation.json", {"mixing": mixing, "fid": 7.0 + cell.seed})
    (made[3].folder / "diverged.txt").write_text("Training diverged")
    found = table(study, made)
    assert found["row"]["R-hat"] == [29.6, None, None, None]
    lines = as_markdown(study, found).splitlines()
    assert lines[2] == "| row | 29.6 (1 of 4) | 8 ± 1 [6, 10] (3 of 4) | 3 | 1 | 0 |"


def test_a_run_that_recovered_is_counted(tmp_path):
    """It finished, but under other settings than its row's."""
    study = Study(rows={"row": "configs/jem_digits.py"}, columns={})
    made = cells(study, tmp_path, 2)
    for cell in made:
        cell.folder.mkdir(parents=True)
        write_json(cell.folder / "evaluation.json", {})
        write_json(cell.folder / "summary.json", {"recoveries": [{"number": 1}] * cell.seed})
    head, _, row, *_ = as_markdown(study, table(study, made)).splitlines()
    assert (head, row) == ("|  | finished | diverged | recovered |", "| row | 2 | 0 | 1 |")


def test_what_cannot_have_an_error_is_not_kept(tmp_path):
    """One image alone, and a number that is not finite."""
    found = {"one": np.ones(1), "lost": np.array([1.0, np.nan]), "kept": np.array([1.0, 3.0])}
    errors = run_folder.write_per_image(
        tmp_path, {name: {"test": array} for name, array in found.items()}
    )
    assert errors == {"kept": 1.0}
    assert (
        run_folder.read_per_image(tmp_path, "one")
        is run_folder.read_per_image(tmp_path, "lost")
        is None
    )
    kept = run_folder.read_per_image(tmp_path, "kept")
    np.testing.assert_array_equal(kept["test"], [1.0, 3.0])
    assert run_folder.read_per_image(tmp_path / "no folder", "kept") is None
