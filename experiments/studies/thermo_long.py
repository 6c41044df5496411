"""Thermodynamic integration on the digits for longer: stability, and quality at equal time.

Unless their name says otherwise, all rows train for 40 epochs at batch 75, p = 6, N_t = 10 and K =
20. Vanilla learning also trains for 200 epochs, which take 1.2 times the time of 40 with ten
powers, and 0.8 of their operations. The covariance estimator costs four times as much; rows that
say so train it for 20.
"""

from ebmjax.recipes.config.files import beside
from ebmjax.recipes.study import Study

thermo_digits = beside(__file__, "thermo_digits.py")
CONFIG = "configs/thermo_digits.py"
L2 = "--config.loss.energy_l2=0.01"
WARM = "--config.sampler.warm_start=True"
MALA = "--config.sampler.posterior.name=mala"
SHORT = "--config.train.num_epochs=20"
PERSISTENT = "--config.sampler.persistent=True"
ADAPTIVE = "--config.loss.schedule=adaptive"
EQUAL_TIME = "--config.train.num_epochs=200"

STUDY = Study(
    rows={
        "vanilla": f"{CONFIG}:vanilla",
        "vanilla, 200 epochs": [f"{CONFIG}:vanilla", EQUAL_TIME],
        "vanilla, 200 epochs, energy L2": [f"{CONFIG}:vanilla", EQUAL_TIME, L2],
        "vanilla, 200 epochs, persistent": [f"{CONFIG}:vanilla", EQUAL_TIME, PERSISTENT],
        "tempered": CONFIG,
        "tempered, p = 1": [CONFIG, "--config.loss.exponent=1.0"],
        "tempered, warm": [CONFIG, WARM],
        "telescoped": f"{CONFIG}:telescoped",
        "telescoped, warm": [f"{CONFIG}:telescoped", WARM],
        "telescoped, warm, energy L2": [f"{CONFIG}:telescoped", WARM, L2],
        "telescoped, warm, adaptive, MALA, energy L2": [
            f"{CONFIG}:telescoped",
            *(WARM, ADAPTIVE, MALA, L2),
        ],
        "covariance, 20 epochs": [f"{CONFIG}:covariance", SHORT],
        "covariance, 20 epochs, energy L2": [f"{CONFIG}:covariance", SHORT, L2],
        "covariance, 20 epochs, warm, MALA": [f"{CONFIG}:covariance", SHORT, WARM, MALA],
        "covariance, 20 epochs, warm, energy L2": [f"{CONFIG}:covariance", SHORT, WARM, L2],
        "covariance, 20 epochs, MALA, energy L2": [f"{CONFIG}:covariance", SHORT, MALA, L2],
        "covariance, 20 epochs, warm, MALA, energy L2": [
            f"{CONFIG}:covariance",
            *(SHORT, WARM, MALA, L2),
        ],
        "covariance, warm, MALA, energy L2": [f"{CONFIG}:covariance", WARM, MALA, L2],
        "through chain": f"{CONFIG}:through_chain",
    },
    columns=thermo_digits.COLUMNS | thermo_digits.ENERGIES,
    num_seeds=1,
    # Beside training for so long, twice the images of importance sampling take little time.
    common=(
        *thermo_digits.common(num_repeats=2, num_epochs=40),
        "--config.eval.evidence.num_images=16",
    ),
)
