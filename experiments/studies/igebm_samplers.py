"""Table 4.1 of the sampling-approaches thesis on the packaged digits, with further rows.

Rows are variants of configs/igebm_digits.py: samplers of the negatives, then networks, objectives
and starts with SGLD. FID and KID use features of a digits classifier and compare only with each
other. training.png shows all rows over training, samples.png the buffers of seed 0.

Variants: cifar10 has the table's samplers on CIFAR-10 at 16x16 with IGEBM's constants; table is of
full size with the thesis's constants, on CIFAR-10, SVHN and MNIST (for a GPU). The thesis does not
identify the table's fourth data set, "Cats".
"""

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study, make_flags
from ebmjax.recipes.study.table import fid_columns, pick_columns

figures = project("figures.image")

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
    "KID, buffer": ("generation.buffer.kid", 1.0, 1),
    "KID, starts of fresh chains": ("generation.fresh.starts.kid", 1.0, 1),
    "T, 1e-6": ("temperature", 1e6, 3),
    "energy of fresh - of data, nats": ("generation.fresh.energy_gap", 1.0, 2),
    **pick_columns("acceptance, end of training", "distance travelled", "seconds of training"),
}


def small(config: str) -> dict[str, str | list[str]]:
    """The table's samplers in a small configuration of CIFAR-10."""
    return {
        label: [config, f"--config.sampler.name={name}"] if name else f"{config}_literal"
        for label, name in CIFAR_ROWS.items()
    }


STUDIES = {
    "": Study(
        {label: f"{CONFIG}:{name}" if name else CONFIG for label, name in ROWS.items()},
        COLUMNS,
        common=(
            "--config.evals.every_epochs=2",
            "--config.train.checkpoint_every_epochs=40",
            figures.ACCEPT_RATIOS,
        ),
        draw=(figures.acceptance, figures.samples),
    ),
    "cifar10": Study(
        small(CIFAR),
        COLUMNS,
        common=(figures.ACCEPT_RATIOS,),
        draw=(figures.runaway, figures.samples),
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
        draw=(figures.runaway,),
    ),
}
