"""Tests crops and flips of images on their way to p(y | x) and to p(x)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import data
from ebmjax.recipes.models.energy import parts as joint_parts
from experiments.configs import jem_digits

NUM = 1024
# A pixel's level says where it is from: 8 times the row and the column.
PLACES = np.broadcast_to(np.arange(64, dtype=np.uint8).reshape(8, 8, 1), (NUM, 8, 8, 1))


def moves(view):
    """Returns the rows and columns that views moved images by, and which they mirrored."""
    levels = np.asarray(data.from_signed_unit(view(jax.random.key(0), jnp.asarray(PLACES))), int)
    rows, columns = np.divmod(levels[:, 4, 4, 0], 8)
    is_mirrored = levels[:, 4, 5, 0] < levels[:, 4, 4, 0]
    shifts = set(rows - 4) | set(columns - np.where(is_mirrored, 3, 4))
    return {int(shift) for shift in shifts}, set(is_mirrored.tolist())


def views(**fields):
    config = jem_digits.get_config()
    plain = {"noise_scale": 0.0, "crop_padding": 2, "flip": True}
    config.data.update(plain | fields)
    of_positives = joint_parts.make_view(config, is_augmented=config.data.augment_positives)
    return moves(joint_parts.make_view(config)), moves(of_positives)


AS_LABELS = ({-2, -1, 0, 1, 2}, {False, True})


@pytest.mark.parametrize(
    ("fields", "of_positives"),
    [
        ({}, AS_LABELS),
        ({"augment_positives": False}, ({0}, {False})),
    ],
)
def test_p_x_has_its_own_part_of_the_augmentation(fields, of_positives):
    """Sees every place and both sides among 1,024 images."""
    assert views(**fields) == (AS_LABELS, of_positives)
