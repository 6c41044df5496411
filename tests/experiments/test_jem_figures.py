"""The figures of a study of joint energy models."""

import numpy as np
from PIL import Image

from experiments.study import load

VIRIDIS_ENDS = ((68, 1, 84), (253, 231, 37))


def test_the_study_draws_the_landscapes_that_it_has(tmp_path):
    """Of its four rows: one is missing, one has none, two are drawn at their own scales."""
    study = load("studies/jem_digits.py")
    study.draw(tmp_path)
    assert not (tmp_path / "landscapes.png").exists()
    coordinates = np.linspace(-1.0, 1.0, 5)
    bowl = coordinates[:, None] ** 2 + coordinates**2
    for row, arrays in {
        "JEM,_SGLD": {"landscape_energies": bowl},
        "JEM,_SGLD,_SAM": {"landscape_energies": 100.0 * bowl},
        "JEM,_augmented": {},
    }.items():
        folder = tmp_path / row / "seed0"
        folder.mkdir(parents=True)
        np.savez(folder / "evaluation.npz", landscape_coordinates=coordinates, **arrays)
    study.draw(tmp_path)
    with Image.open(tmp_path / "landscapes.png") as image:
        found = np.asarray(image.convert("RGB"))
    height, width, _ = found.shape
    assert width > 2 * height
    # Dark in the middle of a bowl and bright in its corners, whatever its depth.
    dark, bright = (np.all(np.abs(found - np.array(c)) < 40, axis=2) for c in VIRIDIS_ENDS)
    for half in (slice(0, width // 2), slice(width // 2, None)):
        assert dark[:, half].sum() > 500
        assert bright[:, half].sum() > 500
