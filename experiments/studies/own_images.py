"""Exam of the configurations for anyone's images: sets that nobody tuned for, beside baselines.

experiments/image_sets.py makes the sets in runs/sets first. --rows='* mnist' runs one set. exam.md
has, for each finished run of seed 0:
- the accuracy of PCA of 50 components with a support vector machine (C = 10), less the run's;
- copies: the share of samples that are nearer to a training image than 99 % of the test images are,
  and so in relation to its next 50 neighbours, too: blurs are no copies. By chance it is 1 %.
"""

from pathlib import Path

import numpy as np

from ebmjax.data import ImageData, load_images
from ebmjax.recipes.config.files import project
from ebmjax.recipes.evaluators.samples import draw_sheet
from ebmjax.recipes.folder.run_folder import read_arrays, read_json
from ebmjax.recipes.study import Study, make_flags
from ebmjax.recipes.study.cells import Cell, find_runs
from ebmjax.recipes.study.table import fid_columns, markdown_table, pick_columns

image_sets = project("image_sets")


def make_rows() -> dict[str, list[str]]:
    """Returns the runs of every set, by "CONFIG SET"."""
    found = {}
    for name in ("digits16", "mnist", "cifar16", "shapes", "large64"):
        for config in ("joint", "image", "latent"):
            fields = {"data.name": "npz", "data.path": f"runs/sets/{name}.npz"}
            found[f"{config} {name}"] = [f"configs/{config}.py", *make_flags(fields)]
    return found


def measure_svc(train: ImageData, test: ImageData) -> float:
    """Returns the accuracy of a support vector machine on principal components."""
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    x, x_test = (one.images.reshape(len(one.images), -1) / 255 for one in (train, test))
    components = PCA(min(50, *x.shape), random_state=0)
    fitted = make_pipeline(components, SVC(C=10)).fit(x, train.labels)
    return float(fitted.score(x_test, test.labels))


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


def share_of_copies(samples: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    """Returns the share of samples whose distances are both below the test images' 1 % quantile."""
    (_, of_samples), (_, of_test) = (find_nearest(one, train) for one in (samples, test))
    bounds = np.quantile(of_test, 0.01, axis=1, method="higher")
    return float((of_samples < bounds[:, None]).all(axis=0).mean())


def judge(folder: Path) -> None:
    """Writes exam.md of the study's folder, and samples beside their nearest training images."""
    lines = []
    for row in find_runs(folder):
        run = Cell(folder / row / "seed0")
        if run.status == "done":
            config, report = read_json(run.folder / "config.json"), run.numbers()
            path = Path(config["data"]["path"])
            train, test = (load_images("npz", split, path=path).data for split in ("train", "test"))
            off, copies = "-", "-"
            if "classification" in report:
                svc = measure_svc(train, test)
                off = f"{100 * (svc - report['classification']['accuracy']):.1f}"
            kept = read_arrays(run.folder / "evaluation.npz")
            if "fresh_images" in kept:
                ends = kept["fresh_images"]
                copies = f"{100 * share_of_copies(ends, train.images, test.images):.1f}"
                nearest = train.images[find_nearest(ends[:36], train.images)[0]]
                sets = {"samples": ends[:36], "nearest training images": nearest}
                draw_sheet(folder / f"{row}.png", sets, columns=6)
            lines.append([row, off, copies])
    lines = markdown_table(["run", "SVC - accuracy, %", "copies, %"], lines)
    (folder / "exam.md").write_text("\n".join(lines) + "\n")


STUDY = Study(
    rows=make_rows(),
    columns={
        **pick_columns("accuracy, %", "ECE, %"),
        **fid_columns("fresh"),
        **pick_columns("seconds of training"),
        "seconds of evaluation": ("evaluation_seconds", 1.0, 0),
    },
    num_seeds=3,
    draw=(judge,),
)
