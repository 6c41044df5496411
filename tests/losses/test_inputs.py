"""Numbers may come as JAX's arrays, as NumPy's or as lists."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.losses import (
    beta_objective_loss,
    contrastive_divergence_loss,
    cross_entropy_loss,
    improved_contrastive_divergence_loss,
    nearest_neighbour_entropy,
    svgd_generative_loss,
)

FEW, PAIRS, LABELS = [0.1, -0.3, 0.4], [[0.1, 0.2], [0.3, -1.0]], [0, 1]
CALLS = {
    "contrastive divergence": lambda of: contrastive_divergence_loss(of(FEW), of(FEW[:2])),
    "improved": lambda of: improved_contrastive_divergence_loss(
        of(FEW), of(FEW[:2]), of(FEW[1:]), 0.2, entropy_weight=0.1
    ),
    "robust": lambda of: beta_objective_loss(of(FEW), of(FEW[:2]), beta=0.1),
    "svgd": lambda of: svgd_generative_loss(of(FEW), of(FEW[:2]), smoothing=0.5),
    "cross entropy": lambda of: cross_entropy_loss(of(PAIRS), of(LABELS)),
    "entropy": lambda of: nearest_neighbour_entropy(of(PAIRS), references=of(PAIRS[::-1])),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_lists_and_numpy_are_as_good_as_jax(call):
    expected = call(jnp.asarray)
    for of in (list, np.asarray):
        jax.tree.map(np.testing.assert_array_equal, call(of), expected)
