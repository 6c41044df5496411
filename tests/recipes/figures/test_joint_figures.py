"""The figures of a study of joint energy models."""

import numpy as np

from experiments.figures import joint


def test_landscapes_start_at_the_energy_of_the_parameters(tmp_path, figures):
    coordinates = np.linspace(-1.0, 1.0, 3)
    energies = np.array([[7.0, 5.0, np.nan], [4.0, 3.0, 9.0], [np.inf, 2.0, 1.0]])
    broken = np.full((3, 3), np.nan)
    for row, array in {"one": energies, "flat": np.full((3, 3), 8.0), "broken": broken}.items():
        (tmp_path / row / "seed0").mkdir(parents=True)
        arrays = {"landscape_coordinates": coordinates, "landscape_energies": array}
        np.savez(tmp_path / row / "seed0" / "evaluation.npz", **arrays)
    joint.landscapes(tmp_path)
    (figure,) = figures.values()
    titled = [axis for axis in figure.axes if axis.get_title()]
    assert [axis.get_title() for axis in titled] == ["flat\nrange 0 nats", "one\nrange 8 nats"]
    (filled,) = titled[1].collections
    np.testing.assert_allclose(filled.levels, np.linspace(-2.0, 6.0, 25))
    assert not titled[0].collections  # a plain has no contours
