"""Thermodynamic integration on the thesis's images: its sweeps of p and of the batch size.

The thesis has its figures for CelebA (3, 4, 5, 10) and again for CIFAR-10 (16, 17, 18, 19). Every
row is configs/thermo_celeba.py or configs/thermo_cifar10.py with the fields that it names.
"frozen_prior" has the learning gradient of the thesis's code, "tempered" trains the prior too. On
CelebA the thesis also changes N_t, K and eta at p = 0.1 (Figures 6 and 11). "through_chain" is the
gradient that its text describes, the only one in which eta acts.

--config.evals.inception_weights=FILE names Inception's weights. Without them, CIFAR-10 is compared
in features of a classifier of its images, and CelebA, which has no labels, is not compared. Batches
are multiples of eight, so that 8 devices share them. celeba and cifar10 have the thesis's size and
are not yet run; cpu has a small model on 2,000 images of CIFAR-10.
"""

from collections.abc import Sequence
from typing import Any

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study, make_flags

figures = project("figures.latent")

thermo_digits = project("studies.thermo_digits")

EXPONENTS = thermo_digits.EXPONENTS
BATCHES = (24, 48, 72, 152)


def row(config: str, estimator: str, **changes: Any) -> tuple[str, list[str]]:
    """A label and run of a configuration that is the same for every estimator."""
    label, run = thermo_digits.row_of(config, estimator, **changes)
    return label, [*run, f"--config.loss.name={estimator}"]


def list_changes(config: str) -> list[tuple[str, list[str]]]:
    """The thesis's changes of N_t and K at p = 0.1, and the gradient through the chains there."""
    return [
        *(row(config, "frozen_prior", p=0.1, **one) for one in ({"N_t": 30}, {"K": 40})),
        row(config, "through_chain", p=0.1, eta=0.0),
        # The fewest chains an image that its divergences can be estimated from.
        row(config, "through_chain", p=0.1, chains=4, covariance="diagonal", eta=2.0),
    ]


def study(
    config: str,
    exponents: Sequence[float],
    batches: Sequence[int],
    num_seeds: int,
    further: Sequence[tuple[str, list[str]]] = (),
) -> Study:
    """Vanilla learning by batch size, the thesis's method and ``tempered`` by p; further rows."""
    fields = {
        "evals.evidence.methods": ("ais",),
    }
    return Study(
        rows=dict(
            [
                *(row(config, "vanilla", batch=batch) for batch in batches),
                *(row(config, "frozen_prior", p=p) for p in exponents),
                *(row(config, "tempered", p=p) for p in exponents),
                *further,
            ]
        ),
        columns={**thermo_digits.COLUMNS, **thermo_digits.GRADIENT_VARIANCES},
        num_seeds=num_seeds,
        common=make_flags(fields),
        draw=(figures.draw,),
    )


CELEBA, CIFAR = "configs/thermo_celeba.py", "configs/thermo_cifar10.py"
CPU = f"{CIFAR}:cpu"
STUDIES = {
    "celeba": study(CELEBA, EXPONENTS, BATCHES, num_seeds=5, further=list_changes(CELEBA)),
    "cifar10": study(CIFAR, EXPONENTS, BATCHES, num_seeds=5),
    "cpu": study(CPU, (0.1, 1.0, 6.0), (20, 40, 80), num_seeds=2, further=list_changes(CPU)),
}
