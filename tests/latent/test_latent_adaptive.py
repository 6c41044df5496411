"""The adaptive schedule: the identity it rests on, and how equal its divergences become."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latent_problems import SQUARE

from ebmjax import evidence, latent

MODEL = latent.LinearGaussian(likelihood_scale=0.05)


def make_problem():
    """A sharp likelihood (the posterior's scale is a twentieth of the prior's), an off-centre x."""
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), SQUARE)
    return params, jnp.array([1.0, -0.5])


def energies_along(powers):
    params, x = make_problem()
    return jax.jit(MODEL.terms)(params, x, powers)["mean_log_likelihoods"]


def divergences_along(powers):
    params, x = make_problem()
    terms = jax.jit(MODEL.terms)(params, x, powers)
    return np.asarray(terms["kl_forward"] + terms["kl_backward"])


def test_divergences_of_neighbours_sum_to_the_step_in_power_times_that_in_energy():
    with jax.enable_x64(True):
        powers = latent.power_schedule(6, 3.0)
        expected = np.diff(powers) * np.diff(energies_along(powers))
        # Energies of up to 1e3 nats, of which a difference keeps the absolute error.
        np.testing.assert_allclose(divergences_along(powers), expected, rtol=1e-9, atol=1e-10)


STEPS = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=12)


@settings(deadline=None)
@given(STEPS, st.floats(-9, 9), st.floats(-9, 9), st.integers(1, 20), st.data())
def test_any_ladder_has_an_exact_rule_and_a_next_ladder(steps, offset, slope, num, data):
    """The rule is exact for lines; the next ladder rises from 0 to 1, wherever energies fall."""
    powers = np.cumsum([0.0, *steps]) / np.sum(steps)
    powers[-1] = 1.0
    rises = data.draw(st.lists(st.floats(-5, 5), min_size=len(steps), max_size=len(steps)))
    with jax.enable_x64(True):
        found = evidence.trapezium_weights(powers) @ (offset + slope * powers)
        # 14 terms of at most 18, each rounded.
        np.testing.assert_allclose(found, offset + slope / 2, rtol=0, atol=14 * 18 * 2.3e-16)
        if max(rises) < 1e-3:
            return
        ladder = np.asarray(latent.adaptive_schedule(powers, np.cumsum([0.0, *rises]), num))
    assert ladder.shape == (num + 1,)
    assert (ladder[0], ladder[-1]) == (0.0, 1.0)
    assert np.all(np.diff(ladder) > 0)


def test_equal_divergences_are_left_as_they_are():
    """With J = 1 on every interval the same count gives the same powers, half of it every other."""
    powers = jnp.array([0.0, 0.01, 0.1, 0.35, 1.0])
    energies = jnp.concatenate([jnp.zeros(1), jnp.cumsum(1.0 / jnp.diff(powers))]) - 200.0
    rounding = {
        "rtol": 0,
        "atol": 1e-4,
    }  # float32 of 111 nats, over a first step of 100: 1e-7 * 1e2
    np.testing.assert_allclose(latent.adaptive_schedule(powers, energies, 4), powers, **rounding)
    np.testing.assert_allclose(
        latent.adaptive_schedule(powers, energies, 2), powers[::2], **rounding
    )


def test_length_is_the_root_of_the_divergence():
    """J = 1 and 9: lengths 1 and 3, so of four intervals one goes below and three above."""
    powers = jnp.array([0.0, 0.25, 1.0])
    energies = jnp.array([0.0, 4.0, 16.0])
    np.testing.assert_allclose(
        jax.jit(latent.adaptive_schedule, static_argnums=2)(powers, energies, 4),
        [0.0, 0.25, 0.5, 0.75, 1.0],
        atol=1e-6,
    )


def speed_and_bend(power):
    """f = sqrt(dE/dt), the length of a unit of power, and d log f / d length = f' / f^2."""
    params, x = make_problem()

    def speed(t):
        energy = jax.grad(lambda t: MODEL.mean_log_likelihood(params, x, t))
        return jnp.sqrt(energy(t))

    value, slope = jax.value_and_grad(speed)(power)
    return value, slope / value**2


@pytest.mark.parametrize("num_intervals", [40, 80])
def test_shares_of_a_fine_pilot_have_equal_divergences(num_intervals):
    """J = dt integral f^2 exceeds the squared length (integral f)^2 by its variance over dt.

    To leading order that is ``(f'/f^2)^2 length^2 / 12`` of it; twice the largest is allowed, for
    the next order. The pilot's own error is that squared over a finer length, and not seen here.
    """
    with jax.enable_x64(True):
        pilot = latent.power_schedule(2000, 4.0)
        powers = latent.adaptive_schedule(pilot, energies_along(pilot), num_intervals)
        lengths, bends = jax.jit(jax.vmap(speed_and_bend))(pilot)
        share = np.trapezoid(np.asarray(lengths), np.asarray(pilot)) / num_intervals
        bound = 2 * float(jnp.max(bends**2)) * share**2 / 12
        assert bound < 0.15  # or the expansion would not be one
        divergences = divergences_along(powers) / share**2
        pilots_own = 1e-3  # the trapezium rule for the length, and J of the 2000 intervals
        assert np.all(divergences > 1 - pilots_own)
        assert np.all(divergences < 1 + bound + pilots_own)


@pytest.mark.parametrize("num_intervals", [1, 2, 10, 33])
def test_noisy_energies_still_give_a_ladder(num_intervals):
    """An interval where noise makes E fall counts as empty; powers still increase strictly."""
    pilot = latent.power_schedule(20, 4.0)
    energies = energies_along(pilot)
    assert np.all(np.diff(energies)[-6:] < 1.0)
    noisy = energies[None] + jax.random.normal(jax.random.key(0), (200, 21))
    assert float(jnp.mean(jnp.any(jnp.diff(noisy) < 0, axis=1))) > 0.9
    powers = jax.jit(jax.vmap(lambda e: latent.adaptive_schedule(pilot, e, num_intervals)))(noisy)
    assert powers.shape == (200, num_intervals + 1)
    assert np.all(np.diff(powers) > 0)
    assert np.all(powers[:, 0] == 0.0)
    assert np.all(powers[:, -1] == 1.0)


def test_empty_intervals_at_either_end():
    powers = jnp.array([0.0, 0.25, 0.5, 0.75, 1.0])
    energies = jnp.array([2.0, 1.0, 3.0, 3.0, 0.0])
    np.testing.assert_allclose(
        latent.adaptive_schedule(powers, energies, 4), [0.0, 0.3125, 0.375, 0.4375, 1.0], atol=1e-6
    )


PILOT = jnp.array([0.0, 0.5, 1.0])


@pytest.mark.parametrize(
    ("powers", "energies", "num_intervals", "message"),
    [
        (PILOT, jnp.zeros(2), 4, r"one entry per power, shape \(3,\), got \(2,\)"),
        (PILOT, jnp.zeros((3, 2)), 4, r"got \(3, 2\)"),
        (PILOT, jnp.array([3.0, 2.0, 2.0]), 4, "finite and increase somewhere.*more chains"),
        (PILOT, jnp.array([-jnp.inf, 2.0, 3.0]), 4, "must be finite and increase"),
        (PILOT, jnp.arange(3.0), 0, "num_intervals.*at least 1"),
        (jnp.array([0.1, 0.5, 1.0]), jnp.arange(3.0), 4, "run from 0"),
    ],
)
def test_bad_input_is_refused(powers, energies, num_intervals, message):
    with pytest.raises(ValueError, match=message):
        latent.adaptive_schedule(powers, energies, num_intervals)
