"""Energies of test images and of samples."""

from typing import Any

import numpy as np

from ebmjax.data import ImageData
from ebmjax.recipes.evaluators import Found
from ebmjax.types import Key


def energies(key: Key, model: Any, data: ImageData) -> Found:
    """Returns moments of finite energies, in nats, and the gap of long chains to test images.

    The samples are those that generation has drawn.
    """
    del key
    sets = {"test": model.energies(data.images, data.labels)}
    for name, chains in model.known_sets.items():
        sets[name] = model.energies(chains.ends, chains.labels)
    report: dict[str, Any] = {name: moments(found) for name, found in sets.items()}
    if "fresh" in sets:
        # A chain that left for an infinite energy has no place in a gap that looks small.
        ends, images = (np.mean(sets[name], dtype=np.float64) for name in ("fresh", "test"))
        report["gap"] = float(ends - images)
    return Found(
        {"energies": report},
        {"test_energy": float(np.mean(sets["test"]))},
        {f"{name}_energies": found for name, found in sets.items()},
    )


def moments(energies: np.ndarray) -> dict[str, float]:
    """Returns mean and standard deviation of the finite energies, and the number of others."""
    finite = energies[np.isfinite(energies)].astype(np.float64)
    return {
        "mean": float(np.mean(finite)) if finite.size else np.nan,
        "deviation": float(np.std(finite)) if finite.size > 1 else np.nan,
        "num_not_finite": len(energies) - len(finite),
    }
