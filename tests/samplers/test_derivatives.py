"""A step can be differentiated where its score vanishes, as losses through chains do.

The curvature drift of preconditioned SGLD has the sign of a first score, so it jumps there.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import samplers
from ebmjax.losses import nearest_neighbour_entropy
from ebmjax.metrics import ood_scores
from ebmjax.metrics._attacks import BALLS
from ebmjax.optim import sam_gradients
from ebmjax.samplers import clamp, clip_drift, reflect, schedule

PARTICLES = ("svgd", "adaptive_svgd", "stochastic_svgd")
FORMS = {
    "gradient_descent": partial(samplers.gradient_descent, step_size=0.1),
    "sgld": partial(samplers.sgld, step_size=0.1),
    "sgld without noise": partial(samplers.sgld, step_size=0.1, noise_scale=0.0),
    "sgld, still in one coordinate": partial(
        samplers.sgld, step_size=0.1, noise_scale=jnp.array([0.2, 0.0, 0.1])
    ),
    "psgld": partial(samplers.psgld, step_size=0.1, damping=0.5),
    "psgld image form": partial(samplers.psgld, step_size=0.1, damping=0.5, noise_scale=0.1),
    "mala": partial(samplers.mala, step_size=0.1),
    "hmc": partial(samplers.hmc, step_size=0.1, num_integration_steps=2),
    "tempered_mala": partial(samplers.tempered_mala, step_size=0.1),
    "pyld": partial(
        samplers.pyld, jnp.sinh, step_size=0.1, num_inner=2, noise_scale=0.1, max_score=0.5
    ),
    "underdamped_langevin": partial(samplers.underdamped_langevin, step_size=0.1),
    "parallel_tempering": partial(
        samplers.parallel_tempering, step_size=0.1, powers=(0.5, 1.0), num_steps=2
    ),
    "svgd": partial(samplers.svgd, step_size=0.1, bandwidth=0.7),
    "adaptive_svgd": partial(samplers.adaptive_svgd, step_size=0.1, damping=0.5, bandwidth=0.7),
    "stochastic_svgd": partial(samplers.stochastic_svgd, step_size=0.1, bandwidth=0.7),
    "reflect": partial(reflect(samplers.mala, -1.0, 1.0), step_size=0.1),
    "clamp": partial(clamp(samplers.sgld, -1.0, 1.0), step_size=0.1),
    "clip_drift": partial(clip_drift(samplers.sgld, 0.05), step_size=0.1),
    "schedule": partial(
        schedule(samplers.psgld), step_size=0.1, damping=0.5, decay=lambda t: 1 - 1 / (t + 2)
    ),
}


def log_density(x):
    """Skewed in two coordinates with the mode at 0, flat in the third: masked."""
    return jnp.sum(x[:2] - jnp.exp(x[:2]))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_the_derivative_of_a_step_at_the_mode(form):
    """Derivatives of state and info in the start equal central differences in float64.

    The differences err by h^2 times a third derivative. Where a preconditioner has the kink of
    |score|, they err by h = 1e-6 times a second one, of a few units.
    """
    with jax.enable_x64(True):
        sampler = FORMS[form](log_density)
        mode = jnp.array([0.0, 0.0, 0.3])
        start = jnp.stack([mode] * 3) if form in PARTICLES else mode

        def after(x):
            state = samplers.start_chain(jax.random.key(1), sampler, x.reshape(start.shape))
            leaves = jax.tree.leaves(sampler.step(jax.random.key(0), state))
            floats = [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]
            return jnp.concatenate([jnp.ravel(leaf) for leaf in floats])

        @jax.jit
        def both(x):
            h = 1e-6
            ends = jax.vmap(lambda e: after(x + h * e) - after(x - h * e))(jnp.eye(x.size))
            return jax.jacrev(after)(x), ends.T / (2 * h)

        derivative, differences = both(start.ravel())
        assert np.any(derivative != 0)
        np.testing.assert_allclose(derivative, differences, atol=1e-5)


@pytest.mark.parametrize("name", PARTICLES)
@pytest.mark.parametrize("rule", [None, "median"])
def test_coincident_particles_under_a_median_rule(name, rule):
    """No derivative exists, since any displacement sets the bandwidth; what comes is finite."""
    sampler = getattr(samplers, name)(log_density, step_size=0.1, bandwidth=rule)

    def after(x):
        state, info = sampler.step(jax.random.key(0), sampler.init(x))
        return jnp.sum(state.particles**3) + info.direction_norm + info.bandwidth

    assert np.all(np.isfinite(jax.jit(jax.grad(after))(jnp.zeros((3, 3)))))


@pytest.mark.parametrize("adaptive", [False, True])
def test_sam_where_the_gradient_is_zero(adaptive):
    """The direction of a zero gradient jumps; derivatives through it stay finite."""

    def slope(x):
        loss_fn = lambda p: (jnp.sum(jnp.exp(p) - p), {})  # noqa: E731
        return jnp.sum(sam_gradients(loss_fn, x, rho=0.1, adaptive=adaptive)[1])

    assert np.all(np.isfinite(jax.jit(jax.grad(slope))(jnp.zeros(2))))


@pytest.mark.parametrize("references", [None, jnp.zeros((2, 3))])
def test_the_entropy_of_coincident_particles(references):
    entropy = partial(nearest_neighbour_entropy, references=references)
    assert np.all(np.isfinite(jax.jit(jax.grad(entropy))(jnp.zeros((3, 3)))))


def test_the_score_norm_of_images_on_a_plateau():
    """Logits that do not depend on the image: its score is 0, and so is the norm's derivative."""

    def total(images):
        scores = ood_scores(lambda x: jnp.stack([0.0 * x[:, 0], 0.0 * x[:, 1]], axis=1), images)
        return jnp.sum(scores["negative_score_norm"])

    np.testing.assert_array_equal(jax.jit(jax.grad(total))(jnp.ones((2, 2))), 0.0)


def test_the_l2_direction_of_an_image_without_a_gradient():
    """Attacks step along gradient / norm, which is 0 where the gradient is."""
    towards = lambda x: jnp.sum(BALLS["l2"].direction(x) ** 2)  # noqa: E731
    assert np.all(np.isfinite(jax.jit(jax.grad(towards))(jnp.zeros((2, 3)))))
