"""Energies of test images."""

from typing import Any

import numpy as np

from ebmjax.data import ImageData
from ebmjax.recipes.evaluators import Found
from ebmjax.types import Key


def energies(key: Key, model: Any, data: ImageData) -> Found:
    """Returns the mean in nats, and all as an array. Those of samples: see ``generation``."""
    del key
    found = model.energies(data.images, data.labels)
    report = {"energies": {"mean": float(np.mean(found, dtype=np.float64))}}
    return Found(report, {"test_energy": float(np.mean(found))}, {"test_energies": found})
