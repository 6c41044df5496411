"""Energy discrepancy of Gaussian energies, where it has a closed form."""

import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.losses import energy_discrepancy_loss

SCALE = 0.7


def loss_at(a, t, num=20_000, copies=256):
    """Estimate and five standard errors for data N(0, SCALE^2) and E = a x^2 / 2."""
    rng = np.random.default_rng(0)
    x = SCALE * rng.normal(size=(num, 1))
    moved = x + np.sqrt(t) * rng.normal(size=(num, 1))
    copied = moved + np.sqrt(t) * rng.normal(size=(num, copies))
    energies = 0.5 * a * x[:, 0] ** 2, 0.5 * a * copied**2
    each = [
        np.asarray(energy_discrepancy_loss(*rows, stabiliser=0.0)[0])
        for rows in zip(*(np.array_split(e.astype(np.float32), 100) for e in energies), strict=True)
    ]
    return np.mean(each), 5 * np.std(each, ddof=1) / np.sqrt(len(each))


def exact(a, t):
    """E[E(x)] - E[E_t(y)], E_t the energy of exp(-E) blurred by N(0, t)."""
    blurred = a * (SCALE**2 + t) / (2 * (1 + a * t)) + 0.5 * np.log(1 + a * t)
    return a * SCALE**2 / 2 - blurred


@pytest.mark.parametrize(("a", "t"), [(1.0, 0.5), (3.0, 0.5), (2.0, 4.0)])
def test_the_loss_is_the_closed_form(a, t):
    """The logarithm of a mean of 256 copies is too low by about half their relative variance.

    That is added to the bound: Var(e^-E) / (2 M mean^2) at a y, averaged, below 0.02 here.
    """
    found, bound = loss_at(a, t)
    assert abs(found - exact(a, t)) < bound + 0.02


def test_value_by_hand_with_a_stabiliser():
    loss, metrics = energy_discrepancy_loss(
        jnp.array([1.0]), jnp.array([[0.0, 3.0]]), stabiliser=0.5
    )
    expected = np.log((0.5 + np.exp(1.0) + np.exp(-2.0)) / 2)
    assert float(loss) == pytest.approx(expected, rel=1e-6)
    assert float(metrics["energy_gap"]) == 0.5
