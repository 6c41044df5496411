"""Models of the digits on one scale: nats of test images, by log Z in an interval.

Every row is scored on the same dequantised test images, and under the noise of training, beside the
best baseline on held-out training images. Energies that chains with decoupled noise train have no
scale: their temperature is fitted to the training images. The others have temperature 1, or that of
their chains ("tilted"). nan: log Z did not close.
"""

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study, make_flags
from ebmjax.recipes.study.table import pick_columns

skip = project("settings.joint_rows").skip

IGEBM = "configs/igebm_digits.py"
FITTED = "--config.evals.nats.temperature=fitted"
LITTLE = make_flags({"evals.generation.every": "never", "evals.samples.every": "never"})
JOINT = (FITTED, *skip(), "--config.evals.samples.every=never")


def chainless(name: str, **section: object) -> list[str]:
    """Returns a row of an objective without chains, at temperature 1."""
    fields = {f"loss.{name}.{field}": value for field, value in section.items()}
    # Scores need second derivatives; at temperature 1 a density has steep slopes.
    fields |= {"loss.name": name, "model.activation": "swish", "model.spectral_norm": None}
    return [IGEBM, *make_flags(fields), *LITTLE]


ROWS = {
    "JEM": ["configs/jem_digits.py", *JOINT],
    "SADA-JEM": ["configs/sadajem_digits.py", *JOINT],
    "SVGD, beta 0.1": ["configs/svgdjem_digits.py", *JOINT],
    "IGEBM": [IGEBM, FITTED, *LITTLE],
    "IGEBM, robust": [f"{IGEBM}:beta", FITTED, *LITTLE],
    "tilted": ["configs/image.py", *LITTLE],
    "score matching": chainless("score_matching", num_slices=2),
    "denoising, noise 0.1": chainless("denoising", noise_scale=0.1),
}
COLUMNS = {
    "nats": ("nats.nats", 1.0, 1),
    "at least": ("nats.nats_low", 1.0, 1),
    "at most": ("nats.nats_high", 1.0, 1),
    "error over images": ("nats.error", 1.0, 1),
    "best baseline": ("nats.best.nats", 1.0, 1),
    "minus it": ("nats.best.difference", 1.0, 1),
    "error of that": ("nats.best.error", 1.0, 1),
    "base": ("nats.baselines.base.nats", 1.0, 1),
    "minus its base": ("nats.baselines.base.difference", 1.0, 1),
    "noisy nats": ("nats.noisy.nats", 1.0, 1),
    "best baseline, noisy": ("nats.noisy.best.nats", 1.0, 1),
    "minus it, noisy": ("nats.noisy.best.difference", 1.0, 1),
    "error of that, noisy": ("nats.noisy.best.error", 1.0, 1),
    "bits per dimension, at least": ("nats.bits_low", 1.0, 3),
    "at most, bits": ("nats.bits_high", 1.0, 3),
    "temperature": ("nats.temperature", 1.0, 5),
    **pick_columns("seconds of training"),
}
STUDY = Study(
    rows=ROWS, columns=COLUMNS, num_seeds=1, common=make_flags({"evals.nats.every": "end"})
)
