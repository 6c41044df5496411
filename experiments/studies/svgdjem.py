"""The SVGD thesis's comparison (Table 5.5): SGLD and SVGD as the sampler of a joint energy model.

Each sampler runs with and without SAM, and from uniform noise. All rows share network, optimiser
and box, and all but the last four the informative start. "literal" is the thesis's loss with its
smoothing of 50. It has no guard that ends a run whose loss exceeds 1e5 in magnitude: the loss runs
to minus infinity, and the thesis trained on. "smoothing" has factors of 1, 5 and 50 of both losses;
cpu 5,000 CIFAR-10 images of 16x16; cifar10 the thesis's size, for a GPU.
"""

from functools import partial

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study

figures = project("figures.joint")
UNIFORM = project("settings.joint_rows").UNIFORM

jem_cifar10 = project("studies.jem_cifar10")
jem_digits = project("studies.jem_digits")
DIGITS = "configs/svgdjem_digits.py"
CIFAR = "configs/svgdjem_cifar10.py"
UNGUARDED = "--config.train.max_abs_loss=1e30"
SAM = "--config.optimizer.rho="
BEST = {
    "best accuracy of training, %": ("over_training.best_test_accuracy.test_accuracy", 100.0, 1),
    "the last loss": ("loss", 1.0, 1),
}


def rows(sgld: str, literal: str, corrected: str, robust: str, rho: float) -> dict[str, list[str]]:
    """The four losses, each without and with SAM of radius ``rho``, and from a uniform start.

    All others start from the informative law, whose draws score as real images do.
    """
    configs = {
        "SGLD": [sgld],
        "SVGD, literal": [literal, UNGUARDED],
        "SVGD, corrected": [corrected],
        "SVGD, beta 0.1": [robust],
    }
    informed = {
        f"{label}{', SAM' if is_sharp else ''}": [*config, f"{SAM}{rho if is_sharp else None}"]
        for label, config in configs.items()
        for is_sharp in (False, True)
    }
    uniform = {
        f"{label}, uniform start": [*config, f"{SAM}None", UNIFORM]
        for label, config in configs.items()
    }
    return informed | uniform


SMOOTHING = {
    f"{variant}, smoothing {factor}": [
        f"{DIGITS}:{variant}",
        *([UNGUARDED] if variant == "literal" else []),
        f"--config.loss.smoothing={factor}.0",
    ]
    for variant in ("literal", "corrected")
    for factor in (1, 5, 50)
}


COMMON = (
    *(flag for flag in jem_digits.COMMON if "every_epochs" not in flag),
    "--config.evals.every_epochs=4",
)
ON_DIGITS = rows(f"{DIGITS}:sgld", f"{DIGITS}:literal_50", f"{DIGITS}:corrected", DIGITS, rho=0.05)
SMALL = rows(*(f"{CIFAR}:cpu{end}" for end in ("_sgld", "_literal", "_corrected", "")), rho=0.05)
FULL = rows(f"{CIFAR}:sgld", f"{CIFAR}:literal", f"{CIFAR}:corrected", CIFAR, rho=0.2)
on_digits = partial(Study, columns=jem_digits.COLUMNS | BEST, common=COMMON)
on_cifar = partial(Study, columns=jem_cifar10.COLUMNS | BEST, num_seeds=1)
STUDIES = {
    "": on_digits(ON_DIGITS, draw=(figures.learning,)),
    "smoothing": on_digits(SMOOTHING, draw=(figures.learning,)),
    "cpu": on_cifar(SMALL, draw=(figures.learning,)),
    "cifar10": on_cifar(FULL, draw=(figures.learning,)),
}
