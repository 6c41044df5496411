"""The reported acceptance probability against a ratio of densities by brute force, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ebmjax.samplers import mala, psgld, psgld_init, sgld

CONCENTRATION = np.array([0.6, 1.5, 3.0])
NUM_POINTS = 40
# Float64 sums of a dozen terms of size below 100: 1e-13; the exponential adds its argument.
TOLERANCE = 1e-10


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def log_density(x):
    """Works on numpy and on JAX arrays; skewed."""
    module = jnp if isinstance(x, jax.Array) else np
    return module.sum(module.asarray(CONCENTRATION) * x - module.exp(x))


def score(x):
    return CONCENTRATION - np.exp(x)


def by_brute_force(x, y, temperature, drift, scale):
    forward = stats.norm.logpdf(y, x + drift(x), scale).sum()
    backward = stats.norm.logpdf(x, y + drift(y), scale).sum()
    target = (log_density(y) - log_density(x)) / temperature
    return float(np.exp(min(0.0, target + backward - forward)))


def positions():
    generator = np.random.default_rng(0)
    return [generator.normal(size=3) for _ in range(NUM_POINTS)]


def assert_informative(probabilities):
    """The comparison saw moves that are neither certain nor hopeless."""
    assert sum(0.01 < p < 0.99 for p in probabilities) >= 5


settings = pytest.mark.parametrize(
    ("step_size", "noise_scale", "temperature"),
    [(0.3, None, 1.0), (0.5, None, 2.5), (0.5, 0.4, 1.0), (0.2, 1.1, 1.0), (0.4, 0.7, 0.6)],
)


@settings
def test_mala_and_sgld(step_size, noise_scale, temperature):
    """SGLD's free noise sets the temperature of what it reports; MALA's target has its own."""
    noise = {"temperature": temperature} if noise_scale is None else {"noise_scale": noise_scale}
    scale = noise_scale or np.sqrt(2 * step_size * temperature)
    implied = scale**2 / (2 * step_size)
    adjusted = mala(
        log_density, step_size=step_size, noise_scale=noise_scale, temperature=temperature
    )
    unadjusted = sgld(log_density, step_size=step_size, **noise)
    step, propose = jax.jit(adjusted.step), jax.jit(unadjusted.step)

    def of_move(x, y, temperature):
        return by_brute_force(x, y, temperature, lambda z: step_size * score(z), scale)

    expected = []
    for seed, x in enumerate(positions()):
        key = jax.random.key(seed)
        # SGLD makes the same move from the key that MALA gives to its noise, and never rejects.
        proposed, sgld_info = propose(jax.random.split(key)[0], unadjusted.init(x))
        after, mala_info = step(key, adjusted.init(x))
        y = np.asarray(proposed.position)
        expected.append(of_move(x, y, temperature))
        np.testing.assert_allclose(
            sgld_info.acceptance_prob, of_move(x, y, implied), rtol=TOLERANCE
        )
        np.testing.assert_allclose(mala_info.acceptance_prob, expected[-1], rtol=TOLERANCE)
        np.testing.assert_array_equal(after.position, y if mala_info.is_accepted else x)
    assert_informative(expected)


@pytest.mark.parametrize("noise_scale", [None, 0.5])
@pytest.mark.parametrize("curvature_drift", [False, True])
def test_psgld_with_its_metric_held(noise_scale, curvature_drift):
    step_size, decay, damping = 0.3, 0.7, 0.5
    # With the noise of 0.5 that it implies, 0.42.
    temperature = 1.4 if noise_scale is None else noise_scale**2 / (2 * step_size)
    second_moment = np.array([0.2, 1.0, 3.0])
    sampler = psgld(
        log_density,
        step_size=step_size,
        noise_scale=noise_scale,
        temperature=temperature if noise_scale is None else None,
        decay=decay,
        damping=damping,
        curvature_drift=curvature_drift,
    )
    step = jax.jit(sampler.step)
    expected = []
    for seed, x in enumerate(positions()):
        state = psgld_init(x, log_density)._replace(second_moment=jnp.asarray(second_moment))
        after, info = step(jax.random.key(seed), state)
        moment = decay * second_moment + (1 - decay) * score(x) ** 2
        metric = 1 / (damping + np.sqrt(moment))
        # dG/dx by hand, for a Hessian of diagonal -exp(x).
        slope = metric**2 * (1 - decay) * score(x) * np.exp(x) / np.sqrt(moment)
        correction = temperature * slope * curvature_drift
        scale = noise_scale or np.sqrt(2 * step_size * temperature * metric)
        expected.append(
            by_brute_force(
                x,
                np.asarray(after.position),
                temperature,
                lambda z, g=metric, c=correction: step_size * (g * score(z) + c),
                scale,
            )
        )
        np.testing.assert_allclose(info.acceptance_prob, expected[-1], rtol=TOLERANCE)
        np.testing.assert_allclose(after.second_moment, moment, rtol=TOLERANCE)
    assert_informative(expected)
