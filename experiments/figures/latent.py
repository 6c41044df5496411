"""Draws the figures of the thermodynamic-integration thesis from a study's folder.

  python experiments/latent_figures.py --folder=runs/studies/thermo_digits

FOLDER/figures/ gets figNN_*.png, NN the thesis's number, and quadratic_fits.md. The thesis has some
figures twice, for CelebA and CIFAR-10 (3 and 16, 4 and 17, 5 and 18, 10 and 19, 12 and 13, 7 and
8). A study has them once, under the lower number. Each swept estimator has a set. Figures with
missing rows are named and left out."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.config.errors import stop
from ebmjax.recipes.study.reader import row_names
from ebmjax.recipes.study.reader import runs as runs_of

from . import latent_runs as runs
from . import latent_sweeps as sweeps
from .latent_data import Absent, Row, gather
from .latent_fits import table


def figures(rows: Sequence[Row]) -> dict[str, Callable[[Path], None]]:
    """Returns functions that draw to a path, by the name of the file."""
    made: dict[str, Callable[[Path], None]] = {
        "equal_time": partial(sweeps.against_time, rows),
        "fig03_variance_against_batch_size": partial(sweeps.boxes, rows, "vanilla"),
        "fig07_samples_by_kid": partial(runs.samples_by_score, rows),
        "fig09_loss_vanilla": partial(runs.losses, rows, "vanilla"),
        "fig14_training_seconds": partial(runs.costs, rows, "train_seconds"),
        "fig15_flops": partial(runs.costs, rows, "flops_per_step"),
        "fig20_samples_vanilla": partial(runs.sweep_samples, rows, "vanilla"),
    }
    for estimator in sweeps.ESTIMATORS:
        one = {
            "fig01_schedules": runs.schedules,
            "fig02_trapezia": runs.trapezia,
            "fig04_variance_against_exponent": sweeps.boxes,
            "fig09_loss": runs.losses,
            "fig11_samples_of_variants": runs.variant_samples,
            "fig20_samples": runs.sweep_samples,
        }
        for score in sweeps.SCORES:
            first, second = (12, 12) if score == "fid" else (5, 10)
            one[f"fig06_variants_{score}"] = partial(sweeps.overlaid, score=score)
            against = partial(sweeps.against_variance, score=score)
            one[f"fig{first:02}_{score}_against_variance"] = against
            one[f"fig{second:02}_{score}_collated"] = partial(against, is_collated=True)
        made |= {
            f"{name}_{estimator}": partial(make, rows, estimator) for name, make in one.items()
        }
    return made


def draw(folder: Path) -> None:
    """Writes the figures of the study in ``folder``, and the parabolas as a table."""
    rows = gather(folder)
    target = folder / "figures"
    target.mkdir(exist_ok=True)
    for run in (run for row in row_names(folder) for run in runs_of(folder, row)):
        if run.status != "done":
            reason = "it diverged" if run.status == "diverged" else "it has no evaluation"
            print(f"left out, for {reason}: {run.folder}.")
    num_drawn = 0
    for name, make in sorted(figures(rows).items()):
        try:
            make(target / f"{name}.png")
            num_drawn += 1
        except Absent as reason:
            print(f"no {name}: {reason}.")
    (target / "quadratic_fits.md").write_text(table(rows, list(sweeps.ESTIMATORS)))
    print(f"{num_drawn} figures in {target}")


def main() -> None:
    """Reads the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--folder", required=True, type=Path, help="folder of a study")
    folder = parser.parse_args().folder
    if not folder.is_dir() or not gather(folder):
        stop(f"--folder={folder} holds no finished run of a latent EBM's study (ebmjax study).")
    draw(folder)
