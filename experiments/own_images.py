"""Exam of the configurations for anyone's images: sets that nobody tuned for, beside baselines.

python experiments/own_images.py --out FOLDER --sets glyphs shapes --configs joint image --seeds 1

It makes the sets of image_sets.py, which says what to install. Then it runs configs/joint.py,
image.py and latent.py on them with --mode=all, as a user would. `joint` also trains as a classifier
alone, and needs labels. FOLDER/exam.md is the table, exam.json holds every run, and CONFIG_SET.png
shows training images, starts, samples and the samples' nearest training images. The same command
continues, and does not repeat a finished run. --config.FIELD=VALUE changes a field of all runs, in
another folder. --quick runs the smoke variants.

Every run is judged by these demands. A number that is missing does not meet its demand.
- It starts, and ends without a divergence that recoveries did not cure.
- Accuracy is at most 0.5 points below PCA of 50 components with a support vector machine (C = 10),
  and at most 1 point below the same network trained as a classifier. ECE is at most 5 %.
- FID of fresh samples is lower than that of their starts by two errors in pairs, which is half of
  its 95 % interval. It is lower than that of a Gaussian for each class. On grey images of up to 32
  pixels it is at most 3 times that of test images.
- Copies are at most as many as chance allows. A copy is nearer to a training image than 99 % of
  the test images are, and so in relation to its next 50 neighbours, too: blurs are no copies.
- Training and evaluation take at most 10 minutes, on the cores that the run had.
- The last FID along training is at most two errors above the best, unless the best state is kept.
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from image_sets import WITHOUT_LABELS, make_set_parser, write_set

from ebmjax import recipes
from ebmjax.data import ImageData, load_images
from ebmjax.evaluate import finite_images
from ebmjax.recipes.config.errors import ConfigError, WorkdirError, stop
from ebmjax.recipes.study import Study, make_flags
from ebmjax.recipes.study.cells import Cell, cells
from ebmjax.recipes.study.checks import check_argument
from ebmjax.recipes.study.figures import draw_tiles
from ebmjax.recipes.study.jobs import run_each
from ebmjax.recipes.study.reader import StudyRun, folder_name
from ebmjax.recipes.study.table import descend

CONFIGS = ("joint", "image", "latent")
ALONE = "classifier"
OF_ALONE = {
    "loss.generative_weight": 0,
    "eval.ood.every": "never",
    "train.keep_best": "",  # which may be a number of samples
    "eval.checkpoint": "newest",
}
"""Fields of a joint model that is a classifier alone."""
Facts = dict[str, Any]

DEMANDS = {
    "refused": 0.0,
    "diverged": 0.0,
    "SVC - accuracy": 0.5,
    "classifier - accuracy": 1.0,
    "ECE, %": 5.0,
    "FID - starts, errors": -2.0,
    "FID / Gaussian": 1.0,
    "FID / test": 3.0,
    "copies / chance": 1.0,
    "minutes": 10.0,
    "last - best FID, errors": 2.0,
}
"""Most that a number of a run may be. Demands that a run's facts lack are not demanded of it."""
FIDS = {"FID": "fresh", "starts": "fresh.starts", "Gaussian": "gaussian", "test": "test_images"}
"""Place in the generation's report of a set of images, by its name in the table."""
SHOWN = ("recoveries", "accuracy, %", *FIDS, "copies, %")
"""Facts that the table shows beside these; the errors of FID follow a ±."""


@cache
def read_images(path: Path) -> tuple[ImageData, ImageData]:
    """Returns the training and the test images of a set, as a run reads them."""
    train, test = (load_images("npz", split, path=path).data for split in ("train", "test"))
    return train, test


@cache
def measure_svc(path: Path) -> float:
    """Returns the accuracy in % of a support vector machine on principal components."""
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    train, test = read_images(path)
    x, x_test = (found.images.reshape(len(found.images), -1) / 255 for found in (train, test))
    components = PCA(min(50, *x.shape), random_state=0)
    found = make_pipeline(components, SVC(C=10, gamma="scale")).fit(x, train.labels)
    return 100 * float(found.score(x_test, test.labels))


def find_nearest(images: np.ndarray, train: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the index of the nearest training image of each uint8 image, and its distances.

    Distances (2, n) are the root mean square difference from it, and the ratio of this to the mean
    over the next 50 neighbours.
    """
    x, y = (one.reshape(len(one), -1) / 255 for one in (images, train))
    squares = (x**2).sum(axis=1)[:, None] - 2 * x @ y.T + (y**2).sum(axis=1)
    distances = np.sqrt(squares.clip(0) / x.shape[1])
    near = np.sort(distances, axis=1)[:, :51]
    return distances.argmin(axis=1), np.stack([near[:, 0], near[:, 0] / near[:, 1:].mean(axis=1)])


def measure_copies(samples: np.ndarray, train: np.ndarray, test: np.ndarray) -> Facts:
    """Returns the share of samples that are copies, and its ratio to the most that chance allows.

    By chance 1 % of the samples, or one in as many as there are test images, are below the test
    images' quantile. Chance allows 5 standard errors more.
    """
    (_, of_samples), (_, of_test) = (find_nearest(one, train) for one in (samples, test))
    bounds = np.quantile(of_test, 0.01, axis=1, method="higher")
    share = float((of_samples < bounds[:, None]).all(axis=0).mean())
    q = max(0.01, 1 / len(test))
    allowed = q + 5 * math.sqrt(q * (1 - q) * (1 / len(test) + 1 / len(samples)))
    return {"copies, %": 100 * share, "copies / chance": share / allowed}


def read_samples(folder: Path) -> list[np.ndarray]:
    """Returns starts and ends of fresh chains, uint8: of the evaluation, or else of the model.

    The latter are kept beside the run's folder, which stays as it is.
    """
    path, names = folder / "evaluation.npz", ["fresh_start_images", "fresh_images"]
    if "fresh_images" not in np.load(path):
        path = folder.with_suffix(".npz")
        if not path.exists():
            chains = recipes.load(folder).model.draw_sets(jax.random.key(0), 1000)["fresh"]
            starts, ends = map(finite_images, (chains.starts, chains.ends))
            np.savez_compressed(path, fresh_start_images=starts, fresh_images=ends)
    return [np.load(path)[name] for name in names]


@cache
def judge_samples(folder: Path, path: Path) -> Facts:
    """Returns ``measure_copies`` of the samples in OUT/runs/ROW/seed<k>; draws OUT/ROW.png once."""
    (train, _), (test, _) = read_images(path)
    starts, ends = read_samples(folder)
    if folder.name == "seed0":
        nearest = train[find_nearest(ends[:36], train)[0]]
        sets = {"training images": train[:36], "starts": starts[:36], "samples": ends[:36]}
        sets |= {"nearest training images": nearest}
        figure = folder.parents[2] / f"{folder.parent.name}.png"
        draw_tiles(figure, sets, 6, most=4, size=(3, 3.2))
    return measure_copies(ends, train, test)


def measure_decay(rows: Sequence[Mapping[str, Any]], checkpoint: str | None) -> float:
    """Returns the last FID of samples less the best along training, in standard errors."""
    scored = [row for row in rows if row["step"] > 0 and row.get("sample_fid") is not None]
    if not scored:
        return math.nan
    best, last = min(scored, key=lambda row: row["sample_fid"]), scored[-1]
    if checkpoint == "best" or best is last:
        return 0.0
    error = math.hypot(best["sample_fid_error"], last["sample_fid_error"])
    return (last["sample_fid"] - best["sample_fid"]) / error


def read_facts(label: str, run: StudyRun, path: Path) -> Facts:
    """Returns the numbers of a run of a row, and of its baselines; NaN for what it does not have.

    ``path`` is the file of the row's set.
    """
    numbers, shape = run.numbers(), read_images(path)[0].images.shape

    def number(place: str, of: Mapping[str, Any] = numbers) -> float:
        value = descend(of, place)
        return math.nan if value is None else float(value)

    low, middle, high = (
        number(f"generation.fresh.minus_starts.{end}") for end in ("low", "difference", "high")
    )
    facts: Facts = {
        "run": label,
        "recoveries": len(numbers.get("recoveries", ())),
        **{name: number(f"generation.{place}.fid") for name, place in FIDS.items()},
        **{f"{name} ±": number(f"generation.{place}.fid_error") for name, place in FIDS.items()},
        "refused": float(run.status == "missing"),
        "diverged": float(run.status == "diverged"),
        "FID - starts, errors": 4 * middle / (high - low) if high > low else math.nan,
        "FID / Gaussian": number("generation.fresh.fid") / number("generation.gaussian.fid"),
        "copies / chance": math.nan,
        "minutes": (number("wall_seconds") + number("evaluation_seconds")) / 60,
        "last - best FID, errors": measure_decay(
            run.read_metrics(), descend(numbers, "eval.checkpoint")
        ),
    }
    if shape[3] == 1 and max(shape[1:3]) <= 32:
        facts["FID / test"] = facts["FID"] / facts["test"]
    if label.startswith("joint"):
        alone = StudyRun(run.folder.parents[1] / folder_name(f"{label} {ALONE}") / run.folder.name)
        accuracy, svc = 100 * number("classification.accuracy"), measure_svc(path)
        of_alone = 100 * number("classification.accuracy", alone.numbers())
        facts |= {"accuracy, %": accuracy, "SVC - accuracy": svc - accuracy}
        facts |= {"classifier - accuracy": of_alone - accuracy}
        facts |= {"ECE, %": 100 * number("classification.ece")}
    if run.status == "done":
        facts |= judge_samples(run.folder, path)
    return facts


def format_table(every: Sequence[Facts]) -> str:
    """Returns a Markdown table: a row a configuration and set, means over its seeds."""
    lines = [["run", *SHOWN, *DEMANDS], ["---"] * (1 + len(SHOWN) + len(DEMANDS))]
    for label in dict.fromkeys(facts["run"] for facts in every):
        seeds = [facts for facts in every if facts["run"] == label]
        line = [label]
        for name in (*SHOWN, *DEMANDS):
            values = [facts[name] for facts in seeds if name in facts]
            finite = [value for value in values if math.isfinite(value)]
            cell = f"{np.mean(finite):.3g}" if finite else "-" * bool(values)
            if f"{name} ±" in seeds[0] and finite:
                cell += f" ± {np.mean([facts[f'{name} ±'] for facts in seeds]):.2g}"
            if values and name in DEMANDS:
                unmet = sum(not value <= DEMANDS[name] for value in values)
                cell += f" FAIL {unmet}/{len(values)}" if unmet else " ok"
            line.append(cell)
        lines.append(line)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def make_rows(
    configs: Sequence[str], paths: Mapping[str, Path], is_quick: bool
) -> Iterator[tuple[str, list[str]]]:
    """Yields the label of every row, CONFIG SET, and its configuration with arguments."""
    for name, path in paths.items():
        for config in configs:
            if config == "joint" and name in WITHOUT_LABELS:
                continue
            fields = {"data.name": "npz", "data.path": path.absolute()}
            row = [f"configs/{config}.py{':smoke' * is_quick}", *make_flags(fields)]
            yield f"{config} {name}", row
            if config == "joint":
                yield f"{config} {name} {ALONE}", [*row, *make_flags(OF_ALONE)]


def main() -> None:
    """Runs what is missing, and writes the table after each run."""
    parser = make_set_parser(__doc__, Path("runs/own_images"))
    parser.add_argument("--seeds", type=int, default=3, help="runs of every row")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--configs", nargs="+", choices=CONFIGS, default=CONFIGS, help="on these")
    parser.add_argument("--quick", action="store_true", help="run smoke variants")
    options, overrides = parser.parse_known_args()
    if min(options.seeds, options.jobs) < 1:
        parser.error("--seeds and --jobs must be at least 1.")
    paths = {name: options.out / "sets" / f"{name}.npz" for name in options.sets}
    try:
        for argument in overrides:
            check_argument(argument, f"unexpected argument {argument!r}:")
        rows = dict(make_rows(options.configs, paths, options.quick))
        runs = cells(Study(rows, {}), options.out / "runs", options.seeds, overrides)
        for cell in runs:
            cell.check()
    except (ConfigError, WorkdirError) as error:
        stop(error)
    made = {name for name, path in paths.items() if write_set(name, path.parent)}
    runs = [cell for cell in runs if cell.label.split()[1] in made]
    failed: dict[Path, str] = {}

    def write() -> str:
        ended = [
            (label, cell.folder)
            for label in rows
            for cell in runs
            if cell.label == label
            and not label.endswith(ALONE)
            and (cell.status != "missing" or cell.folder in failed)
        ]
        facts = [read_facts(label, StudyRun(run), paths[label.split()[1]]) for label, run in ended]
        text = format_table(facts) + "".join(f"\n{run}: {why}\n" for run, why in failed.items())
        (options.out / "exam.md").write_text(text)
        known = [{k: None if v != v else v for k, v in of_run.items()} for of_run in facts]
        (options.out / "exam.json").write_text(json.dumps(known, indent=1) + "\n")
        return text

    def tell(cell: Cell, status: str) -> None:
        print(f"{cell.label}, seed {cell.seed}: {status}", file=sys.stderr, flush=True)
        if status.startswith("failed"):
            failed[cell.folder] = status
        write()

    run_each(runs, options.jobs, tell)
    print(write())


if __name__ == "__main__":
    main()
