"""Thermodynamic integration on the packaged digits: the thesis's sweeps, and further rows.

Every row is a variant of configs/thermo_digits.py with the fields that it names. All rows have
batches of 75, N_t = 10, K = 20 posterior steps and p = 6, unless they say otherwise. "frozen_prior"
is the thesis's method as in its code; "tempered" trains the prior too.

Variants:
- "": the whole study.
- regimes: enough points in each of the thesis's regimes to tell a parabola from a line.
"""

from functools import partial
from typing import Any

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study, make_flags
from ebmjax.recipes.study.table import fid_columns

figures = project("figures.latent")

# The thesis's values of p.
EXPONENTS = (0.1, 0.3, 1.0, 3.0, 6.0, 10.0)
FIELDS = {
    "batch": "train.batch_size",
    "p": "loss.exponent",
    "N_t": "loss.num_intervals",
    "K": "sampler.posterior.num_steps",
    "eta": "loss.kl_weight",
    "covariance": "loss.kl_covariance",
    "epochs": "train.num_epochs",
    "chains": "loss.chains_per_observation",
}

NUM_EPOCHS = 10
# N_t = 10 costs 4.0 steps of vanilla learning in time on two cores, and 6.7 in operations.
EQUAL_TIME = 5
BATCH_SIZE = 75


def row_of(config: str, estimator: str, **changes: Any) -> tuple[str, list[str]]:
    """A row's label and run: the configuration, then the fields that differ."""
    label = " ".join([estimator, *(f"{name}={value}" for name, value in changes.items())])
    return label, [config, *make_flags({FIELDS[name]: v for name, v in changes.items()})]


def row(estimator: str, **changes: Any) -> tuple[str, list[str]]:
    """``row_of`` the estimator's variant."""
    config = "configs/thermo_digits.py" + ("" if estimator == "tempered" else f":{estimator}")
    return row_of(config, estimator, **changes)


def sweeps(estimator: str) -> list[tuple[str, list[str]]]:
    """The thesis's rows of thermodynamic integration."""
    return [
        *(row(estimator, p=p) for p in EXPONENTS),
        row(estimator, p=0.1, N_t=30),
        row(estimator, p=0.1, K=40),
        row(estimator, p=6.0, N_t=30),
    ]


# The thesis's batch sizes.
BATCHES = (25, 50, 75, 150)

# Seven points in each of the thesis's regimes.
FINER_EXPONENTS = (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
FINER_BATCHES = (15, 25, 40, 50, 75, 100, 150)


OTHERS = [
    row("telescoped", p=6.0),
    row("covariance", p=6.0),
    row("through_chain", p=6.0),
    row("vanilla", batch=75, epochs=EQUAL_TIME * NUM_EPOCHS),
]

FRESH = "generation.fresh"
# The chains' starts are the base Gaussian through the same generator.
PLACES = {"": FRESH, ", starts": f"{FRESH}.starts", ", test images": "generation.test_images"}
COLUMNS = {
    **{
        f"{score}{words}": (f"{place}.at_sizes.{name}", factor, decimals)
        for words, place in PLACES.items()
        for score, name, factor, decimals in (
            ("KID_inf (RBF) x 1000", "kid_rbf", 1000.0, 2),
            ("FID_inf", "fid", 1.0, 1),
        )
    },
    **fid_columns("fresh"),
    "log evidence by AIS, nats": ("evidence.ais.mean", 1.0, 1),
    "squared error a pixel": ("test_reconstruction_error", 1.0, 3),
    "variance over coordinates": ("coordinate_gradient_variance", 1.0, 4),
    "variance over batches": ("gradient_variance", 1.0, 5),
    "signal to noise": ("gradient_signal_to_noise", 1.0, 2),
    "seconds of training": ("cost.train_seconds", 1.0, 0),
    "GFLOP a gradient": ("cost.flops_per_step", 1e-9, 3),
}
ENERGIES = {f"{one} energy": (f"{one}_energy", 1.0, 1) for one in ("prior", "posterior")}
# Of the networks apart: under "frozen_prior" the prior's coordinates are exactly 0 and thin the
# variance of all. The rows measured first lack them.
GRADIENT_VARIANCES = {
    "over the generator's coordinates": ("generator_coordinate_gradient_variance", 1.0, 4),
    "over the prior's coordinates": ("prior_coordinate_gradient_variance", 1.0, 4),
    "generator's over batches": ("generator_gradient_variance", 1.0, 5),
    "prior's over batches": ("prior_gradient_variance", 1.0, 5),
}


# Arguments of every run; those of a row come later and win.
COMMON = make_flags(
    {
        # The epochs divide the steps of every row, so that each compiles its training once.
        **dict.fromkeys(
            (
                "train.num_epochs",
                "train.steps_per_dispatch",
                "train.checkpoint_every_epochs",
                "evals.every_epochs",
            ),
            NUM_EPOCHS,
        ),
        "train.batch_size": BATCH_SIZE,
        "evals.evidence.num_images": 8,
        # Enough for importance sampling, too few for divergences.
        "evals.evidence.num_chains": 32,
        "evals.evidence.methods": ("ais",),
        "evals.evidence.num_steps": 20,
        "mesh.num_shards": 1,
    }
)


study = partial(Study, common=COMMON, draw=(figures.draw,))
STUDIES = {
    "": study(
        dict(
            [
                *(row("vanilla", batch=batch) for batch in BATCHES),
                *sweeps("tempered"),
                *sweeps("frozen_prior"),
                *OTHERS,
            ]
        ),
        COLUMNS,
    ),
    "regimes": study(
        dict(
            [
                *(row("vanilla", batch=batch) for batch in FINER_BATCHES),
                *(row(name, p=p) for name in ("frozen_prior", "tempered") for p in FINER_EXPONENTS),
            ]
        ),
        COLUMNS | GRADIENT_VARIANCES,
    ),
}
