"""Numbers: JAX's arrays, NumPy's or lists; float32 or float64; as large as float32 holds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import losses

FEW, PAIRS, LABELS = [0.1, -0.3, 0.4], [[0.1, 0.2], [0.3, -1.0]], [0, 1]
CALLS = {
    "contrastive divergence": lambda of: losses.contrastive_divergence_loss(of(FEW), of(FEW[:2])),
    "improved": lambda of: losses.improved_contrastive_divergence_loss(
        of(FEW), of(FEW[:2]), of(FEW[1:]), 0.2, entropy_weight=0.1
    ),
    "robust": lambda of: losses.beta_objective_loss(of(FEW), of(FEW[:2]), beta=0.1),
    "svgd": lambda of: losses.svgd_generative_loss(of(FEW), of(FEW[:2]), smoothing=0.5),
    "cross entropy": lambda of: losses.cross_entropy_loss(of(PAIRS), of(LABELS)),
    "entropy": lambda of: losses.nearest_neighbour_entropy(of(PAIRS), references=of([[0.0, 0.5]])),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_lists_and_numpy_are_as_good_as_jax(call):
    expected = call(jnp.asarray)
    for of in (list, np.asarray):
        jax.tree.map(np.testing.assert_array_equal, call(of), expected)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_loss_is_as_wide_as_its_numbers(call):
    """In float64 to its rounding: a loss made in float32 would differ from itself by 1e-8 more."""
    wide = lambda numbers: jnp.asarray(numbers, None if numbers is LABELS else jnp.float64)  # noqa: E731
    narrow = lambda numbers: jnp.asarray(numbers, None if numbers is LABELS else jnp.float32)  # noqa: E731
    with jax.enable_x64(True):
        in_64, in_32 = (jax.jit(call, static_argnums=0)(of) for of in (wide, narrow))
    for leaves, dtype in ((in_64, jnp.float64), (in_32, jnp.float32)):
        assert {leaf.dtype for leaf in jax.tree.leaves(leaves)} == {jnp.dtype(dtype)}
    gaps = [
        abs(float(a) - float(b)) for a, b in zip(*map(jax.tree.leaves, (in_64, in_32)), strict=True)
    ]
    assert 0 < max(gaps) < 1e-5  # more digits than float32 has, and the same number


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("bad", [np.zeros((2, 2, 0)), np.zeros(()), np.zeros(3, int)])
def test_arrays_of_another_shape_or_type_are_refused(call, bad):
    with pytest.raises((TypeError, ValueError), match="must"):
        call(lambda numbers: bad if numbers is not LABELS else numbers)


HUGE = jnp.array([1e20, -1e20, 3e20])
PENALISED = {
    "contrastive divergence": lambda e: losses.contrastive_divergence_loss(e, e[:2], energy_l2=0),
    "improved": lambda e: losses.improved_contrastive_divergence_loss(
        e, e[:2], e, 0.2, energy_l2=0.0, kl_weight=0.0, entropy_weight=0.0
    ),
    "traced": lambda e: jax.jit(
        lambda weight: losses.contrastive_divergence_loss(e, e[:2], energy_l2=weight)
    )(0.0),
    "robust": lambda e: losses.beta_objective_loss(e, e[:2], beta=0.0),
    "svgd": lambda e: losses.svgd_generative_loss(e, e[:2], smoothing=1.0),
    "latent": lambda e: (losses.energy_penalty(0.0, e, e[:2]), {}),
}


@pytest.mark.parametrize("call", PENALISED.values(), ids=PENALISED)
def test_a_penalty_of_weight_zero_is_zero_at_any_energy(call):
    """Squares of 1e20 are beyond float32."""
    (loss, metrics), gradient = jax.jit(jax.value_and_grad(call, has_aux=True))(HUGE)
    for leaf in (loss, gradient, *metrics.values()):
        assert np.all(np.isfinite(leaf))
