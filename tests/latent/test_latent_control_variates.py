"""Stein's control variates: what they leave of a Gaussian, and that they bias no covariance."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from covariance_problems import NUM_PRIOR_PARAMS, exact_covariances, learning_gradients
from jax.flatten_util import ravel_pytree
from latent_problems import MODEL, assert_means, exact_draws, make_params

from ebmjax import evidence, latent
from ebmjax.latent._control_variates import stein_control


def quadratic_problem(key, num_groups, half):
    """Draws of a correlated Gaussian in 3 dimensions and a quadratic with its own curvature."""
    covariance = jnp.array([[1.0, 0.6, 0.0], [0.6, 0.8, -0.2], [0.0, -0.2, 0.5]])
    curvature = jnp.array([[-1.0, 0.3, 0.2], [0.3, -2.0, 0.0], [0.2, 0.0, 0.5]])
    slope = jnp.array([2.0, -1.0, 0.5])
    noise = jax.random.normal(key, (num_groups, 2, half, 3))
    latents = noise @ jnp.linalg.cholesky(covariance).T
    slopes = slope.reshape(1, 1, 1, 3) + latents @ curvature
    values = jnp.sum(latents * (0.5 * (slopes + slope.reshape(1, 1, 1, 3))), axis=-1)
    scores = -latents @ jnp.linalg.inv(covariance)
    return values, slopes, scores, latents, -covariance @ slope, -0.5 * covariance @ curvature


def test_nothing_is_left_of_a_quadratic_under_a_gaussian():
    """With n draws a half the field's moments are off by some 1 / sqrt(n), so the share of the
    standard deviation that is left is of that order: 5 of them."""
    half = 40_000
    values, slopes, scores, latents, linear, matrix = quadratic_problem(jax.random.key(0), 2, half)
    control = jax.jit(stein_control)(values, slopes, scores, latents)
    share = jnp.std(control.residuals, axis=2) / jnp.std(values, axis=2)
    assert jnp.max(share) < 5 / half**0.5 + 1e-3  # the ridge's thousandth
    exact = linear.reshape(1, 1, 1, 3) + latents @ matrix.T
    error = jnp.sqrt(jnp.mean(jnp.square(control.fields - exact)))
    assert error < (5 / half**0.5 + 1e-3) * jnp.sqrt(jnp.mean(jnp.square(exact)))


def test_a_half_has_no_part_in_its_own_field():
    """Other log likelihoods, slopes and scores at the same latents: the field stays, up to the
    rounding of sums from which the group's own part is taken."""
    problem = quadratic_problem(jax.random.key(1), 5, 3)[:4]

    def field(moved):
        return stein_control(*(a.at[2, 0].set(b) for a, b in zip(problem, moved, strict=True)))

    own = [a[2, 0] for a in problem]
    before = field(own).fields[2, 0]
    after = field([own[0][::-1], own[1][::-1], own[2][::-1], own[3]]).fields[2, 0]
    np.testing.assert_allclose(after, before, rtol=1e-4)


def test_one_group_has_no_field():
    """There is nothing to fit the multipliers to, so the log likelihoods stay what they are."""
    values, slopes, scores, latents = quadratic_problem(jax.random.key(2), 1, 4)[:4]
    control = stein_control(values, slopes, scores, latents)
    np.testing.assert_array_equal(control.fields, 0.0)
    np.testing.assert_array_equal(control.residuals, values)


@pytest.mark.parametrize("where", ["coincident", "flat"])
def test_degenerate_chains_give_finite_numbers(where):
    """Chains that coincide explain nothing; a flat likelihood leaves nothing to explain."""
    problem = list(quadratic_problem(jax.random.key(3), 4, 2)[:4])
    if where == "coincident":
        problem = [jnp.broadcast_to(a[:, :, :1], a.shape) for a in problem]
    else:
        problem[:2] = [jnp.zeros_like(a) for a in problem[:2]]
    control = stein_control(*problem)
    np.testing.assert_array_equal(control.fields, 0.0)
    np.testing.assert_array_equal(control.residuals, problem[0])


@pytest.mark.slow
def test_matches_exact_covariances():
    """Within 5 standard errors of 4000 draws, with two observations only."""
    with jax.enable_x64(True):
        params, powers = make_params(), latent.power_schedule(3, 1.0)
        draws = exact_draws(jax.random.key(4), params, powers, num_draws=4000, num_chains=8)
        controlled = learning_gradients(params, *draws, powers, 8, control_variates=True)
        defined = exact_covariances(params, powers)
    assert_means(controlled, defined)


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [1.0, 6.0])
def test_lowers_the_variance_below_that_of_the_ends(exponent):
    """32 observations of 8 chains: a quarter of the plain variance of the prior's gradient, half of
    the generator's, and less than ``telescoped_loss`` has of as many chains at power 1.

    A variance over 600 draws is known to some 6 %; the ratios came out below 0.16, 0.42 and 0.59.
    """
    with jax.enable_x64(True):
        x = 1.3 * jax.random.normal(jax.random.key(6), (32, 3))
        params, powers = make_params(), latent.power_schedule(5, exponent)
        draws = exact_draws(
            jax.random.key(7), params, powers, num_draws=600, num_chains=8, observations=x
        )
        gradients = functools.partial(learning_gradients, params, *draws, powers, 8, observations=x)
        plain, controlled = gradients(), gradients(control_variates=True)

        def ends(params, along, powers, num_chains):
            repeated = jnp.repeat(x, num_chains, axis=0)
            return latent.telescoped_loss(params, MODEL, repeated, along, along[0], powers)[0]

        telescoped = gradients(loss_fn=ends)
    for part, share in ((slice(NUM_PRIOR_PARAMS), 0.25), (slice(NUM_PRIOR_PARAMS, None), 0.5)):
        variance = controlled[:, part].var(0).sum()
        assert variance < share * plain[:, part].var(0).sum()
        assert variance < 0.8 * telescoped[:, part].var(0).sum()


CURVED = latent.LatentModel(
    energy_fn=lambda a, z: jnp.sum(a * jnp.cos(2.0 * z)),
    generator_fn=lambda w, z: jnp.tanh(w * z),
    base_scale=1.2,
    likelihood_scale=0.5,
)
CURVED_PARAMS = latent.LatentParams(jnp.array(0.8), jnp.array([1.5, -0.7]))
CURVED_X = jnp.array([[0.9, 0.1], [-0.3, 0.6], [0.2, -0.8]])


@jax.jit
def curved_grid(powers):
    """A fine grid (n, 1) of latents and the law on it, shape (num_powers, 3, n)."""
    grid = jnp.linspace(-8.0, 8.0, 8001)[:, None]

    def log_law(t, x):
        def one(z):
            prior = latent.log_prior(CURVED_PARAMS, CURVED, z)
            return prior + t * latent.log_likelihood(CURVED_PARAMS, CURVED, z, x)

        return jax.nn.softmax(jax.vmap(one)(grid))

    return grid, jax.vmap(jax.vmap(log_law, (None, 0)), (0, None))(powers, CURVED_X)


def curved_covariances(powers):
    """The estimator's definition by quadrature on the grid."""
    grid, law = curved_grid(powers)

    def means(params, frozen_law):
        values = jax.vmap(
            lambda x: jax.vmap(lambda z: latent.log_likelihood(params, CURVED, z, x))(grid)
        )
        return jnp.sum(frozen_law * values(CURVED_X)[None], axis=(1, 2)) / len(CURVED_X)

    def moving_law(params):
        def one(t, x, reference):
            def exponent(z):
                joint = latent.log_joint(params, CURVED, z, x)
                return joint - (1.0 - t) * latent.log_likelihood(params, CURVED, z, x)

            # By the grid's own quadrature: the weights follow the exponent.
            change = jax.vmap(exponent)(grid)
            return jax.nn.softmax(jnp.log(reference) + change - jax.lax.stop_gradient(change))

        reference = jnp.maximum(law, 1e-300)
        return jax.vmap(jax.vmap(one, (None, 0, 0)), (0, None, 0))(powers, CURVED_X, reference)

    def trapezium(params):
        return jnp.sum(evidence.trapezium_weights(powers) * means(params, moving_law(params)))

    return ravel_pytree(jax.jit(jax.grad(trapezium))(CURVED_PARAMS))[0]


@pytest.mark.slow
def test_unbiased_for_a_model_that_is_not_gaussian():
    """A rippled prior under a curved generator, by exact draws from a grid: 5 standard errors."""
    num_draws, num_chains = 8000, 4
    with jax.enable_x64(True):
        powers = latent.power_schedule(2, 1.0)
        grid, law = curved_grid(powers)
        law = jnp.repeat(law, num_chains, axis=1)
        uniforms = jax.random.uniform(jax.random.key(5), (num_draws, *law.shape[:2]))
        cumulated = jnp.cumsum(law, axis=-1)
        find = jax.vmap(jax.vmap(jnp.searchsorted, (0, 1), 1), (0, 1), 1)
        cells = jax.jit(find)(cumulated, uniforms)
        latents = grid[jnp.minimum(cells, len(grid) - 1)]
        x = jnp.repeat(CURVED_X, num_chains, axis=0)

        def gradient(latents):
            def loss(params):
                return latent.covariance_loss(
                    params, CURVED, x, latents, jnp.zeros((1, 1)), powers,
                    num_chains=num_chains, control_variates=True,
                )[0]  # fmt: skip

            return -ravel_pytree(jax.grad(loss)(CURVED_PARAMS))[0]

        controlled = jax.jit(jax.vmap(gradient))(latents)
        defined = curved_covariances(powers)
    assert_means(controlled, defined)
    errors = np.std(controlled, axis=0) / num_draws**0.5
    assert np.linalg.norm(errors) < 0.1 * np.linalg.norm(defined)


@pytest.mark.parametrize(
    ("num_chains", "message"),
    [(2, "num_chains must be an integer of at least 4"), (5, "num_chains must be even with contr")],
)
def test_bad_input_is_refused(num_chains, message):
    x = jnp.repeat(CURVED_X, num_chains, axis=0)
    with pytest.raises(ValueError, match=message):
        latent.covariance_loss(
            CURVED_PARAMS, CURVED, x, jnp.zeros((3, len(x), 1)), jnp.zeros((1, 1)),
            latent.power_schedule(2, 1.0), num_chains=num_chains, control_variates=True,
        )  # fmt: skip
