"""Table 4.1 of the sampling-approaches thesis on the packaged digits, with further rows.

Rows are variants of configs/igebm_digits.py: samplers of the negatives, then networks, objectives
and starts with SGLD. FID and KID use features of a digits classifier and compare only with each
other.

Chapter 6 hopes that samplers with a small step would work in a wide network. "proposals" has one
stage of 64 features; the base has two of 16 and 32. Its other proposals begin from a run of SGLD
(train.start_from), which a row cannot name.

Figures: training.png shows all rows over training, samples.png the buffers of seed 0.

Variants:
- "": all rows; proposals.
- cifar10: the table's samplers on CIFAR-10 at 16x16 with IGEBM's constants. TFDS_DATA_DIR names the
  folder of the prepared data.
- cifar10_thesis: the same with the thesis's constants, and FID within the first epoch (Fig. 4.6).
- table: full size with the thesis's constants, on CIFAR-10, SVHN and MNIST (for a GPU). The thesis
  does not identify the table's fourth data set, "Cats".
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ebmjax.recipes.config.files import beside, project
from ebmjax.recipes.study import Study, make_flags
from ebmjax.recipes.study.figures import Panel, over_training
from ebmjax.recipes.study.named_columns import fid_columns, pick_columns

figures = project("figures.image")
COMMON = beside(__file__, "igebm_mala.py").COMMON

CONFIG = "configs/igebm_digits.py"
ROWS = {
    "SGLD": "",
    "pSGLD, image form": "psgld",
    "pSGLD, exact noise": "psgld_exact",
    "MALA": "mala",
    "tempered MALA": "tempered_mala",
    "MALA, adapted": "mala_adapted",
    "HMC, adapted": "hmc",
    "SGLD + MALA + HMC": "mixed",
    "no spectral norm": "unbounded",
    "two scales": "multiscale",
    "conditional": "conditional",
    "improved CD": "improved",
    "augmented starts": "augmented",
    "short-run": "short_run",
    "beta, exponent 1": "beta",
    "beta, from 0 to exponent 1": "beta_schedule",
    "SGLD + MALA + HMC, beta, exponent 1": "mixed_beta",
    "beta, exponent -0.5": "beta_negative",
}
WIDE = {
    "SGLD": CONFIG,
    "MALA": f"{CONFIG}:mala",
    "MALA, adapted": f"{CONFIG}:mala_adapted",
    "pSGLD, exact noise": f"{CONFIG}:psgld_exact",
    "pSGLD, lambda 0.01": [f"{CONFIG}:psgld", "--config.sampler.psgld.damping=0.01"],
}
CIFAR = "configs/igebm_cifar10.py:cpu"
THESIS_CIFAR = {
    "SGLD": "thesis",
    "MALA": "mala",
    "MALA, literal": "mala_literal",
    "tempered MALA": "tempered_mala",
    "pSGLD, lambda 1": "psgld",
}
CIFAR_ROWS = THESIS_CIFAR | {"SGLD": "sgld", "MALA, literal": ""}
# Where a data set differs from CIFAR-10; a flipped digit is none.
DATA = {
    "CIFAR-10": {},
    "SVHN": {"data.name": "svhn_cropped", "data.max_train": 73257, "data.max_test": 26032},
    "MNIST": {
        "data.name": "mnist",
        "data.image_size": 28,
        "data.max_train": 60000,
        "sampler.augmentation.is_flipped": False,
    },
}
COLUMNS = {
    **fid_columns("buffer", "fresh", "short"),
    **pick_columns("KID, buffer"),
    "KID, starts of fresh chains": ("generation.fresh.starts.kid", 1.0, 1),
    **pick_columns("implied T, 1e-6", "acceptance, end of training", "distance travelled"),
    **pick_columns("energy of fresh - of data, nats", "R-hat of energies", "seconds of training"),
}


def draw(panels: Sequence[Panel], rows: Sequence[str], folder: Path) -> None:
    """The figures of a study's folder."""
    over_training(panels, "training", folder)
    figures.samples(rows, folder)


def small(config: str) -> dict[str, str | list[str]]:
    """The table's samplers in a small configuration of CIFAR-10."""
    return {
        label: [config, f"--config.sampler.names=('{name}',)"] if name else f"{config}_literal"
        for label, name in CIFAR_ROWS.items()
    }


STUDIES = {
    "": Study(
        {label: f"{CONFIG}:{name}" if name else CONFIG for label, name in ROWS.items()},
        COLUMNS,
        common=COMMON,
        draw=partial(draw, figures.ACCEPTANCE, list(ROWS)),
    ),
    "proposals": Study(
        WIDE,
        COLUMNS,
        num_seeds=3,
        common=(*COMMON, "--config.model.features=(64,)"),
        draw=partial(draw, figures.ACCEPTANCE, list(WIDE)),
    ),
    "cifar10": Study(
        small(CIFAR),
        COLUMNS,
        common=(figures.ACCEPT_RATIOS,),
        draw=partial(draw, figures.RUNAWAY, list(CIFAR_ROWS)),
    ),
    "cifar10_thesis": Study(
        small(f"{CIFAR}_thesis"),
        COLUMNS,
        num_seeds=3,
        common=(
            "--config.sampler.tempered_mala.acceptance_decay=0.0",
            "--config.eval.every_epochs=0.5",
            figures.ACCEPT_RATIOS,
        ),
        draw=partial(draw, figures.RUNAWAY, list(CIFAR_ROWS)),
    ),
    "table": Study(
        rows={
            f"{data}, {label}": [f"configs/igebm_cifar10.py:{variant}", *make_flags(changes)]
            for data, changes in DATA.items()
            for label, variant in THESIS_CIFAR.items()
        },
        columns=COLUMNS,
        num_seeds=1,
        common=(figures.ACCEPT_RATIOS,),
        draw=partial(over_training, figures.RUNAWAY, "training"),
    ),
}
