"""The same image sets and minutes for our defaults, simple baselines and other libraries.

  python benchmarks/league.py --torch-python=PATH
  python benchmarks/league.py --sets digits automata --methods joint mixture --minutes=1 --seeds=1

A row is a method on a set of experiments/image_sets.py with a seed. It is appended to
FOLDER/rows.jsonl, and is not run again for the same minutes; samples lie in FOLDER/SET. Methods:

- joint, image, latent: our configurations' defaults. Where they need more than the minutes, they
  train once more with fewer epochs in proportion, which the row says;
- gaussians, one with a full covariance a class; mixture, components, their shape and regularisation
  by held-out nats;
- ddpm, flow_matching, torchebm, ebmkit: see _league_torch.py. They need --torch-python, a Python
  with pip install torch==2.13.0 torchebm ebmkit numpy, and an idle machine: their threads wait
  actively, and beside other work are 10 times slower unless OMP_WAIT_POLICY=PASSIVE is set;
- svc: a support vector machine on 50 principal components, for its accuracy;
- real: training images in place of samples, the reference of every score.

Samples, as many as the test images, are judged against the test images:

- FID in features of evaluate.characters (grey), and of evaluate.random_features (with colours);
- C2ST: cross-validated accuracy of a classifier of both features that tells them from test images;
- copies: the share of samples nearer to a training image than 99 % of the test images are.

± is over seeds; of one seed, over images. Seconds are of training, for PyTorch with drawing.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ebmjax.recipes.run.machine import num_processors, use_compilation_cache, variables

os.environ.update(variables())

import _harness as harness
import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import evaluate, metrics, recipes
from ebmjax.data import ImageData
from ebmjax.recipes.config.files import project
from ebmjax.recipes.evaluators.nats import nats
from ebmjax.recipes.study.table import markdown_table

image_sets = project("image_sets")
Set = image_sets.ImageSet
Row = dict[str, Any]
OURS, TORCH = ("joint", "image", "latent"), ("ddpm", "flow_matching", "torchebm", "ebmkit")
COMPONENTS, FLOORS = (1, 2, 5, 10, 20, 50), (1e-5, 3e-4, 3e-3, 3e-2)
"""Components and regularisation of mixtures, in squared units of pixels in [-1, 1]."""


def train_ours(name: str, found: Set, seed: int, options: Any) -> tuple[np.ndarray, Row]:
    """Trains a default configuration; returns samples, and accuracy, ECE, AUROCs and nats.

    The configurations cut images to squares. Here they are padded, and samples cut back.
    """
    height, width = found.images.shape[1:3]
    edges = (0, 0), (0, max(0, width - height)), (0, max(0, height - width)), (0, 0)
    pad = lambda images: np.pad(images, edges)  # noqa: E731
    found = found._replace(images=pad(found.images), test_images=pad(found.test_images))
    fields = {"seed": seed, "evals.every_epochs": 0, "evals.samples.every": "never"}
    if name == "latent":  # whose evaluations are of no use here, and take time
        fields |= {f"evals.{one}.every": "never" for one in ("evidence", "gradient_variance")}
    labels = {} if name == "image" else {"labels": found.labels, "test_labels": found.test_labels}
    test, row = {"test_images": found.test_images}, {}
    for attempt in ("whole", "shortened"):
        folder, begun = options.place / f"{name}-{seed}-{attempt}", time.monotonic()
        run = recipes.train(
            f"configs/{name}.py", found.images, folder=folder, fields=fields, **test, **labels
        )
        row["seconds"], epochs = time.monotonic() - begun, run.config.train.num_epochs
        if row["seconds"] <= 60 * options.minutes or epochs == 1:
            break
        fields["train.num_epochs"] = max(1, int(epochs * 60 * options.minutes / row["seconds"]))
        row["epochs"] = f"{fields['train.num_epochs']} of {epochs}"
    key = jax.random.key(seed)
    drawn = run.sample(key, len(found.test_images))
    samples, row["starts"] = (drawn[k][:, :height, :width] for k in ("images", "start_images"))
    scores, data = run.score(found.test_images), ImageData(found.test_images, found.test_labels)
    if "log_density" in scores and height == width:  # padded pixels would be worth nats
        row["auroc"] = rank(lambda x: run.score(x)["log_density"], found)
        if options.nats:
            report = nats(key, run.model, data, flow_minutes=0.0).report["nats"]
            row |= {k: number for k, number in report.items() if isinstance(number, float)}
    if "class_probability" in scores:
        chances = scores["class_probability"]
        row["accuracy"] = float(np.mean(chances.argmax(axis=1) == found.test_labels))
        row["ece"] = float(
            metrics.expected_calibration_error(jnp.asarray(chances), found.test_labels)
        )
    return samples, row


def rank(log_density: Callable[[np.ndarray], np.ndarray], found: Set) -> dict[str, float]:
    """Returns the AUROC of log p(x) of test images against each set of ``evaluate.ood_sets``."""
    if found.images.shape[1] != found.images.shape[2]:
        return {}  # they are square
    sets, known = evaluate.ood_sets(found.test_images), log_density(found.test_images)
    return {name: float(metrics.auroc(known, log_density(one))) for name, one in sets.items()}


def train_mixture(name: str, found: Set, seed: int, options: Any) -> tuple[np.ndarray, Row]:
    """Fits a mixture of Gaussians to dequantised images, chosen on a fifth of them."""
    from sklearn.mixture import GaussianMixture

    begun, rng, shape = time.monotonic(), np.random.default_rng(seed), found.images.shape[1:]
    dequantise = lambda x: (x.reshape(len(x), -1) + rng.random((len(x), np.prod(shape)))) / 128 - 1  # noqa: E731
    x, labels = dequantise(found.images), found.labels
    order = rng.permutation(len(x))
    held, kept = np.split(order, [len(x) // 5])

    def fit(count: int, kind: str, floor: float, rows: np.ndarray) -> Any:
        made: Any = GaussianMixture(count, covariance_type=kind, reg_covar=floor, random_state=seed)
        if name == "mixture":
            return made.fit(x[rows])
        groups = [x[rows][labels[rows] == label] for label in np.unique(labels[rows])]
        every = [GaussianMixture(1, covariance_type=kind, reg_covar=floor).fit(g) for g in groups]
        made.weights_ = np.array([len(group) / len(rows) for group in groups])
        for part in ("means_", "covariances_", "precisions_cholesky_"):
            setattr(made, part, np.concatenate([getattr(one, part) for one in every]))
        return made

    sizes = [(len(np.unique(labels)), "full")]
    if name == "mixture":
        sizes = [(count, "diag") for count in COMPONENTS if count <= len(kept)]
        sizes += [(c, "full") for c in COMPONENTS if c * x.shape[1] <= len(kept)]
    best = -np.inf, *sizes[0], FLOORS[-1]
    for count, kind, floor in ((*size, floor) for size in sizes for floor in FLOORS):
        best = max(best, (float(fit(count, kind, floor, kept).score(x[held])), count, kind, floor))
        if time.monotonic() - begun > 30 * options.minutes:
            break  # half of the time, since the last fit is of more images
    chosen = fit(*best[1:], order)
    row: Row = {"seconds": time.monotonic() - begun, "chosen": list(best[1:])}
    row["nats"] = float(chosen.score(dequantise(found.test_images)))
    row["auroc"] = rank(lambda one: chosen.score_samples(dequantise(one)), found)
    drawn = chosen.sample(len(found.test_images))[0].reshape(-1, *shape)
    return np.floor(128 * (drawn + 1)).clip(0, 255).astype(np.uint8), row


def train_torch(name: str, found: Set, seed: int, options: Any) -> tuple[np.ndarray, Row]:
    """Trains in PyTorch, in a process of its own."""
    if not options.torch_python:
        raise FileNotFoundError("no --torch-python")
    source, out = options.place / "images.npz", options.place / f"{name}-{seed}-drawn.npz"
    np.savez(source, images=found.images)
    script, begun = Path(__file__).with_name("_league_torch.py"), time.monotonic()
    sizes = [options.minutes, len(found.test_images), seed]
    threads = {"OMP_NUM_THREADS": str(num_processors())}
    subprocess.run(
        [options.torch_python, script, name, source, out, *map(str, sizes)],
        check=True,
        env={**os.environ, **threads},
    )
    with np.load(out) as drawn:
        return drawn["images"], {"seconds": time.monotonic() - begun}


def classify(name: str, found: Set, seed: int, options: Any) -> tuple[None, Row]:
    """Returns the accuracy of a support vector machine on principal components, and no samples."""
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    begun = time.monotonic()
    x, x_test = (one.reshape(len(one), -1) / 255 for one in (found.images, found.test_images))
    fitted = make_pipeline(PCA(min(50, *x.shape), random_state=0), SVC(C=10)).fit(x, found.labels)
    accuracy = float(fitted.score(x_test, found.test_labels))
    return None, {"accuracy": accuracy, "seconds": time.monotonic() - begun}


def find_distances(images: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Returns (2, n): root mean squares from the nearest of ``train``; ratios to the next 50's."""
    x, y = (one.reshape(len(one), -1) / 255 for one in (images, train))
    squares = (x**2).sum(axis=1)[:, None] - 2 * x @ y.T + (y**2).sum(axis=1)
    distances = np.sqrt(squares.clip(0) / x.shape[1])
    near = np.sort(distances, axis=1)[:, :51]
    return np.stack([near[:, 0], near[:, 0] / near[:, 1:].mean(axis=1)])


def share_of_copies(samples: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    """Returns the share of samples whose distances are both below the test images' 1 % quantile."""
    of_samples, of_test = (find_distances(one, train) for one in (samples, test))
    bounds = np.quantile(of_test, 0.01, axis=1, method="higher")
    return float((of_samples < bounds[:, None]).all(axis=0).mean())


def draw_real(name: str, found: Set, seed: int, options: Any) -> tuple[np.ndarray, Row]:
    """Returns training images, at random and none twice."""
    order = np.random.default_rng(seed).permutation(len(found.images))
    return found.images[order[: len(found.test_images)]], {"seconds": 0.0}


METHODS: dict[str, Callable[..., tuple[Any, Row]]] = {
    **dict.fromkeys(OURS, train_ours),
    **dict.fromkeys(("gaussians", "mixture"), train_mixture),
    **dict.fromkeys(TORCH, train_torch),
    "svc": classify,
    "real": draw_real,
}

COLUMNS = {
    "FID": ("characters_fid",),
    "of starts": ("starts_fid",),
    "FID, random": ("random_features_fid",),
    "C2ST": ("c2st",),
    "copies, %": ("copies", 100),
    "accuracy, %": ("accuracy", 100),
    "ECE, %": ("ece", 100),
    "nats": ("nats",),
    "lowest AUROC": ("lowest_auroc",),
    "seconds": ("seconds",),
}
"""Heading to the number of a row, and its factor."""


class Judge:
    """Scores of samples against the test images of a set."""

    def __init__(self, found: Set):
        self.found, test = found, ImageData(found.test_images, found.test_labels)
        every = evaluate.own_extractor(evaluate.characters), evaluate.random_features()
        self.features = {one.name: evaluate.Distances(test, one) for one in every}

    def __call__(self, samples: np.ndarray) -> Row:
        """Returns FIDs with errors over images, C2ST and copies of uint8 images."""
        row: Row = {}
        for name, distances in self.features.items():
            scores = distances.scores(samples).numbers
            row |= {f"{name}_fid": scores["fid"], f"{name}_fid_error": scores["fid_error"]}
        every = np.concatenate([self.found.test_images, samples])
        outputs = [one.outputs(every)[0] for one in self.features.values()]
        row["c2st"] = two_sample_accuracy(np.concatenate(outputs, axis=1), len(samples))
        train, test = self.found.images, self.found.test_images
        return row | {"copies": share_of_copies(samples, train, test)}


def two_sample_accuracy(features: np.ndarray, num_last: int) -> float:
    """Returns the balanced accuracy of telling the last rows from those before, in five folds.

    Source: Lopez-Paz & Oquab 2017, with a support vector machine.
    """
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    is_sample = np.arange(len(features)) >= len(features) - num_last
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    model = make_pipeline(StandardScaler(), SVC(class_weight="balanced"))
    scores = cross_val_score(model, features, is_sample, cv=folds, scoring="balanced_accuracy")
    return float(scores.mean())


def read_rows(file: Path) -> list[Row]:
    """Returns the rows of a JSON-lines file, none where there is no file."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def play(options: Any) -> list[Row]:
    """Runs the rows that the file lacks, one after the other; returns those that were asked for."""
    file, rows = options.out / "rows.jsonl", []
    for name in options.sets:
        judge = None
        for seed in range(options.seeds):
            for method in options.methods:
                asked = {"set": name, "method": method, "seed": seed, "minutes": options.minutes}
                known = [one for one in read_rows(file) if asked.items() <= one.items()]
                if known:
                    rows.append(known[-1])
                    continue
                if judge is None:
                    if (path := image_sets.write_set(name, options.out / "sets")) is None:
                        return rows
                    with np.load(path) as arrays:
                        judge = Judge(Set(*(arrays[field] for field in Set._fields)))
                options.place = options.out / name
                options.place.mkdir(parents=True, exist_ok=True)
                print(f"{name}, {method}, seed {seed}", flush=True)
                try:
                    samples, row = METHODS[method](method, judge.found, seed, options)
                except (FileNotFoundError, subprocess.CalledProcessError) as error:
                    print(f"{method}: left out, {error}")
                    continue
                if samples is not None:
                    np.savez(options.place / f"{method}-{seed}.npz", images=samples)
                    row |= judge(samples)
                if (starts := row.pop("starts", None)) is not None:
                    row["starts_fid"] = judge(starts)["characters_fid"]
                rows.append(asked | row)
                with file.open("a") as opened:
                    opened.write(json.dumps(rows[-1]) + "\n")
    return rows


def summarise(rows: Iterable[Row], key: str, factor: float = 1.0) -> tuple[float, float]:
    """Returns the mean of a score over seeds and its error; of one seed, its error over images."""
    values = [factor * row[key] for row in rows if row.get(key) is not None]
    if len(values) > 1:
        return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))
    error = [row.get(f"{key}_error", np.nan) for row in rows]
    return (values[0], error[0]) if values else (np.nan, np.nan)


def show(mean: float, error: float) -> str:
    """Returns a number with its error, where there are any."""
    spread = "" if np.isnan(error) else f" ± {error:.2g}"
    return "-" if np.isnan(mean) else f"{mean:.4g}{spread}"


def make_tables(rows: list[Row]) -> list[str]:
    """Returns a table of every set, and how often a method is first or within an error of it."""
    lines, wins = [], dict[str, int]()
    lowest = [{"lowest_auroc": min(r["auroc"].values())} if r.get("auroc") else {} for r in rows]
    rows = [row | one for row, one in zip(rows, lowest, strict=True)]
    for name in dict.fromkeys(row["set"] for row in rows):
        of_set = [row for row in rows if row["set"] == name]
        groups: Mapping[str, list[Row]] = {
            method: [row for row in of_set if row["method"] == method]
            for method in dict.fromkeys(row["method"] for row in of_set)
        }
        fids = {m: summarise(g, "characters_fid") for m, g in groups.items() if m != "real"}
        fids = {m: fid for m, fid in fids.items() if not np.isnan(fid[0])}
        first = min(fids.values(), default=(np.nan, np.nan))
        for method, (fid, error) in fids.items():
            wins[method] = wins.get(method, 0) + (fid - first[0] <= np.hypot(error, first[1]))
        cells = []
        for method, group in groups.items():
            epochs = {row["epochs"] for row in group if "epochs" in row}
            label = f"{method} (epochs: {', '.join(sorted(epochs))})" if epochs else method
            cells.append([label, *(show(*summarise(group, *one)) for one in COLUMNS.values())])
        header = ["method", *COLUMNS]
        lines += [f"## {name}", "", *markdown_table(header, cells), ""]
    ranked = sorted(wins, key=lambda method: -wins[method])
    counts = ", ".join(f"{method} {wins[method]}" for method in ranked)
    total = len({row["set"] for row in rows})
    return [*lines, f"First, or within an error of the first, by FID on {total} sets: {counts}."]


def main() -> None:
    """Runs what is missing of the league, and prints its tables."""
    parser = harness.make_parser(__doc__)
    add, sets = parser.add_argument, image_sets.LEAGUE
    add("--out", type=Path, default=Path("runs/league"), help="folder (runs/league)")
    add("--sets", nargs="+", choices=image_sets.SETS, default=sets, help="(16)")
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="their names (all)")
    add("--minutes", type=float, default=10, help="of training (10)")
    add("--seeds", type=int, default=3, help="number of seeds (3)")
    add("--torch-python", help="a Python that has PyTorch, torchebm and ebmkit")
    add("--nats", action="store_true", help="nats of joint and image, too: minutes a row")
    options = parser.parse_args()
    use_compilation_cache()
    print("\n".join(make_tables(play(options))))


if __name__ == "__main__":
    main()
