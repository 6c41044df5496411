"""Differences of SADA-JEM from JEM on the digits, as flags that a study's rows change."""

from collections.abc import Mapping, Sequence
from typing import Any

# Draws of the informative law score like real images, and so do chains that stay there. From
# uniform noise a score shows what chains do.
UNIFORM = "--config.sampler.buffer.law=uniform"

# Flags by which SADA-JEM differs from JEM: one's and the other's.
PARTS = {
    "informative start": (
        ["--config.sampler.buffer.law=informative"],
        [UNIFORM],
    ),
    "proximal step": (["--config.sampler.name=proximal_sgld"], ["--config.sampler.name=sgld"]),
    "box of the data": (
        ["--config.sampler.low=-1.0", "--config.sampler.high=1.0"],
        ["--config.sampler.low=-1.2", "--config.sampler.high=1.2"],
    ),
    "SAM": (["--config.optimizer.rho=0.05"], ["--config.optimizer.rho=None"]),
    "noiseless images": (["--config.data.noise_scale=0.0"], ["--config.data.noise_scale=0.03"]),
    "crops for the labels": (
        ["--config.data.crop_padding=1", "--config.data.augment_positives=False"],
        ["--config.data.crop_padding=0", "--config.data.augment_positives=True"],
    ),
}
NORMALISED = {
    "group normalisation": (["--config.model.norm=group"], ["--config.model.norm=none"]),
}


def by_parts(
    jem: Sequence[str], sadajem: Sequence[str], parts: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns rows that add each part to JEM, then rows that take each part from SADA-JEM."""
    given = {f"JEM, {part}": [*jem, *flags] for part, (flags, _) in parts.items()}
    taken = {f"SADA-JEM, without {part}": [*sadajem, *flags] for part, (_, flags) in parts.items()}
    return given | taken
