"""Kernels of SVGD other than the Gaussian, and annealing: by differentiation, by known laws."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean

from ebmjax import samplers
from ebmjax.samplers._kernel_noise import kernel_noise
from ebmjax.samplers._svgd import stein_terms

WEIGHT = 0.2


def log_density(x):
    """Skewed, and coupled between coordinates."""
    return jnp.sum(1.5 * x - jnp.exp(x)) - 0.2 * jnp.sum(x) ** 2


def cauchy(u):
    return 1.0 / (1.0 + u)


FUNCTIONS = {"rbf": lambda u: jnp.exp(-0.5 * u), "imq": lambda u: (1.0 + u) ** -0.5}


def particles_of(shape):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape))


@pytest.mark.parametrize("kernel", ["imq", cauchy, FUNCTIONS["rbf"]], ids=["imq", "own", "rbf"])
def test_direction_is_its_definition(kernel):
    """Every term by differentiation of k(x, y)."""
    with jax.enable_x64(True):
        x = particles_of((6, 3))

        def k(x, y):
            return FUNCTIONS.get(kernel, kernel)(jnp.sum((x - y) ** 2) / 0.7**2)

        def term(x_i, x_j):
            gradient = jax.grad(k)(x_j, x_i)
            return k(x_j, x_i) * jax.grad(log_density)(x_j) + gradient

        terms = jax.vmap(lambda x_i: jax.vmap(partial(term, x_i))(x))(x)
        found = samplers.svgd_direction(x, log_density, bandwidth=0.7, kernel=kernel)
        np.testing.assert_allclose(found, jnp.mean(terms, axis=1), atol=1e-12)
        if kernel is FUNCTIONS["rbf"]:
            named = samplers.svgd_direction(x, log_density, bandwidth=0.7)
            np.testing.assert_allclose(found, named, atol=1e-12)


def test_every_sampler_of_particles_takes_a_kernel():
    x = particles_of((4, 2)).astype(jnp.float32)
    direction = samplers.svgd_direction(x, log_density, kernel=cauchy)
    plain = samplers.svgd(log_density, step_size=0.5, kernel=cauchy)
    state, _ = plain.step(jax.random.key(0), plain.init(x))
    np.testing.assert_allclose(state.particles, x + 0.5 * direction, rtol=1e-5)
    adaptive = samplers.adaptive_svgd(log_density, step_size=0.5, kernel=cauchy)
    state, _ = adaptive.step(jax.random.key(0), adaptive.init(x))
    np.testing.assert_allclose(state.particles, x + 0.5 * jnp.sign(direction), rtol=1e-4)


def test_a_kernel_without_a_slope_at_zero_leaves_coincident_particles_finite():
    x = jnp.array([[0.0], [0.0], [1.0]])
    found = samplers.svgd_direction(
        x, log_density, bandwidth=1.0, kernel=lambda u: jnp.exp(-jnp.sqrt(u))
    )
    scores = jax.vmap(jax.grad(log_density))(x)
    far = np.exp(-1.0)
    np.testing.assert_allclose(found[2], (2 * far * scores[0] + scores[2] + 2 * far) / 3, rtol=1e-5)
    assert np.all(np.isfinite(found))


@pytest.mark.parametrize("rule", [0.9, None], ids=["given", "median"])
def test_the_drift_of_stochastic_svgd_is_the_mobilitys(rule):
    """D grad log pi + T div D, as in its own tests, for the inverse multiquadric."""
    with jax.enable_x64(True):
        x = particles_of((4, 2))
        shape, n = x.shape, len(x)

        def mobility(flat):
            x = flat.reshape(shape)
            squared = jnp.sum((x[:, None] - x[None]) ** 2, axis=-1)
            distances = jnp.sqrt(squared[jnp.triu_indices(n, 1)])
            median = jnp.median(distances) / jnp.sqrt(2 * jnp.log(n))
            kernel = FUNCTIONS["imq"](squared / (rule or median) ** 2)
            return jnp.kron(kernel + WEIGHT * jnp.eye(n), jnp.eye(shape[1])) / n

        scores = jax.vmap(jax.grad(log_density))(x).ravel()
        divergence = jnp.einsum("abb->a", jax.jacfwd(mobility)(x.ravel()))
        expected = (mobility(x.ravel()) @ scores + 1.3 * divergence).reshape(shape)

        @jax.jit
        def moved(step_size):
            sampler = samplers.stochastic_svgd(
                log_density,
                step_size=step_size,
                bandwidth=rule,
                kernel="imq",
                temperature=1.3,
                langevin_weight=WEIGHT,
            )
            return sampler.step(jax.random.key(1), sampler.init(x))[0].particles - x

        drift = (moved(4.0) - 2 * moved(1.0)) / 2  # the noise grows with the root of the step
        np.testing.assert_allclose(drift, expected, rtol=1e-10, atol=1e-10)


def test_the_noise_has_the_covariance_of_the_kernel():
    x = particles_of((3, 2)).astype(jnp.float32)
    terms = stein_terms(x, log_density, 0.8, None, "imq")
    draw = jax.jit(jax.vmap(lambda key: kernel_noise(key, terms, WEIGHT, "imq")))
    rows = np.asarray(draw(jax.random.split(jax.random.key(2), 20_000)), np.float64)
    covariance = np.asarray(terms.kernel) + WEIGHT * np.eye(3)
    for coordinate in range(2):
        noise = rows[:, :, coordinate]
        assert_mean(noise[:, :, None] * noise[:, None, :], covariance)
    assert_mean(rows[:, :, None, 0] * rows[:, None, :, 1], 0.0)


def test_a_drive_weighs_the_scores_alone():
    x = particles_of((5, 2)).astype(jnp.float32)
    for make in (samplers.svgd, samplers.adaptive_svgd):
        driven = make(log_density, step_size=0.3, drive=0.25)
        tempered = make(lambda x: 0.25 * log_density(x), step_size=0.3)
        (state, _), (other, _) = (s.step(jax.random.key(0), s.init(x)) for s in (driven, tempered))
        np.testing.assert_allclose(state.particles, other.particles, rtol=1e-5)


@pytest.mark.slow
def test_annealed_particles_reach_a_mode_that_plain_ones_never_see():
    def two_modes(x):
        return jnp.logaddexp(-0.5 * jnp.sum((x - 3) ** 2), -0.5 * jnp.sum((x + 3) ** 2))

    num_steps = 600
    start = -3 + 0.5 * jax.random.normal(jax.random.key(0), (50, 2))

    def share_of_the_far_mode(drive):
        sampler = samplers.schedule(samplers.svgd)(two_modes, step_size=3.0, drive=drive)
        state, _, _ = samplers.run_chain(
            jax.random.key(1), sampler.init(start), sampler.step, num_steps
        )
        return float(jnp.mean(jnp.sum(state.position, axis=1) > 0))

    assert share_of_the_far_mode(1.0) == 0.0
    # Half of them would be right. The schedule is the paper's, with p = 5.
    assert 0.3 < share_of_the_far_mode(lambda t: jnp.tanh((1.3 * t / num_steps) ** 5)) < 0.7


@pytest.mark.parametrize(
    ("kernel", "message"),
    [("gauss", "must be 'rbf', 'imq' or a function"), (lambda u: jnp.stack([u, u]), "scalar u")],
)
def test_refusals(kernel, message):
    x = jnp.ones((2, 1))
    with pytest.raises(ValueError, match=message):
        samplers.svgd_direction(x, log_density, kernel=kernel)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (samplers.stochastic_svgd, {"kernel": cauchy}, "random waves"),
        (samplers.schedule(samplers.svgd), {"kernel": cauchy}, r"Under schedule.*partial"),
        (samplers.svgd, {"drive": -1.0}, "drive must be zero or more"),
    ],
)
def test_refusals_of_functions_and_drives(make, options, message):
    sampler = make(log_density, step_size=0.1, **options)
    state = sampler.init(jnp.ones((2, 1)))
    with pytest.raises(ValueError, match=message):
        sampler.step(jax.random.key(0), state)
