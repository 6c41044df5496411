"""The prior that is drawn exactly: its integral, its draws, its gradient, its use in the model."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ebmjax import evaluate, latent
from ebmjax.latent import LatentModel, LatentParams
from ebmjax.networks import UnivariateEnergy
from ebmjax.samplers import sgld

SCALE = 1.5
GRID = np.linspace(-9.0, 9.0, 6001) * SCALE


def rough(num_components, dim, num_knots=7):
    """Returns a prior and parameters that are far from the base; one cell is almost level."""
    network = UnivariateEnergy(num_components, num_knots, SCALE)
    params = network.init(jax.random.key(0), jnp.zeros(dim))
    draws = np.random.default_rng(0).normal(0.0, 2.0, (num_components, dim, num_knots))
    draws[..., 1] = draws[..., 0] + 1e-4
    shares = jnp.linspace(0.0, 1.0, num_components)
    return network, {"params": {"log_weights": shares, "heights": jnp.asarray(draws)}}, params


@pytest.mark.parametrize("num_components", [1, 3])
def test_it_integrates_to_one(num_components):
    with jax.enable_x64(True):
        network, params, first = rough(num_components, 1)
        for one in (params, first):
            energies = np.asarray(network.apply(one, jnp.asarray(GRID)[:, None]))
            density = np.exp(-energies) * stats.norm.pdf(GRID, scale=SCALE)
            # The trapezium's error is h^2 / 12 times the jumps of the slope: below 1e-6 here.
            assert abs(np.trapezoid(density, GRID) - 1.0) < 1e-5
        if num_components == 1:  # starts as the base
            start = np.asarray(network.apply(first, jnp.ones((1, 1))))
            np.testing.assert_allclose(start, 0.0, atol=1e-6)


def test_draws_have_its_distribution_function():
    network, params, _ = rough(2, 2)
    draw = jax.jit(network.sample, static_argnums=2)
    heights = np.asarray(params["params"]["heights"], np.float64)
    u = np.linspace(0.0, 1.0, 6001)
    shares = np.exp([0.0, 1.0]) / np.exp([0.0, 1.0]).sum()
    for i in range(2):
        densities = np.exp([np.interp(u, np.linspace(0, 1, 7), heights[k, i]) for k in range(2)])
        sums = np.cumsum(densities, axis=1) - 0.5 * densities - 0.5 * densities[:, :1]
        cdf = shares @ (sums / sums[:, -1:])
        values = []
        for seed in range(20):
            z = np.asarray(draw(params, jax.random.key(seed), 2000)[:, i])
            own = np.interp(stats.norm.cdf(z, scale=SCALE), u, cdf)
            values.append(stats.kstest(own, "uniform").pvalue)
        # The least of 20 p-values is below 5e-5 once in a thousand times.
        assert min(values) > 5e-5
        assert stats.kstest(values, "uniform").pvalue > 1e-3


def test_gradients_are_differences():
    with jax.enable_x64(True):
        network, params, _ = rough(3, 2)
        z = jnp.asarray([[0.3, -1.1], [2.0, 0.4]])
        heights = params["params"]["heights"]

        def total(heights):
            one = {"params": {**params["params"], "heights": heights}}
            return jnp.sum(jnp.asarray(network.apply(one, z)))

        for at in [(0, 0, 3), (2, 1, 1), (1, 0, 6)]:
            step = jnp.zeros_like(heights).at[at].set(1e-5)
            difference = (total(heights + step) - total(heights - step)) / 2e-5
            np.testing.assert_allclose(jax.grad(total)(heights)[at], difference, atol=1e-8)
        draws = network.sample(params, jax.random.key(1), 4000)
        each = jax.vmap(jax.grad(lambda p, z: network.apply(p, z)), (None, 0))(params, draws)
        each = each["params"]["heights"].reshape(4000, -1)
        errors = each.std(axis=0) / np.sqrt(4000)
        assert np.all(np.abs(each.mean(axis=0)) < 5 * errors + 1e-12)


def test_a_model_with_it_needs_no_chain_and_knows_its_evidence():
    network, prior, _ = rough(2, 1)
    model = LatentModel(network.apply, lambda w, z: w * z, SCALE, 0.5, draw_prior_fn=network.sample)
    params = LatentParams(prior, jnp.asarray([0.8, -0.6]))
    x = jnp.asarray([0.9, -0.2])
    z, metrics = latent.sample_prior(
        jax.random.key(0), params, model, 5, 1, sampler=partial(sgld, step_size=0.1), num_steps=1
    )
    assert z.shape == (5, 1)
    assert metrics == {}
    with jax.enable_x64(True):
        grid = jnp.asarray(GRID)[:, None]
        joint = jax.vmap(
            lambda z: (
                latent.log_prior(params, model, z) + latent.log_likelihood(params, model, z, x)
            )
        )(grid)
        exact = np.log(np.trapezoid(np.exp(joint), GRID))
    found = evaluate.evidence(
        jax.random.key(3),
        params,
        model,
        np.asarray(x)[None],
        latent_dim=1,
        methods=("ais", "smc"),
        num_chains=512,
        num_intervals=10,
        num_steps=2,
    )
    for one in found.values():
        assert abs(one["log_evidence"][0] - exact) < 5 * one["standard_error"][0]

    def loss(prior_latents):
        given = x[None], jnp.zeros((1, 1)), prior_latents
        return jax.grad(lambda p: latent.vanilla_loss(p, model, *given)[0])(params)

    for a, b in zip(*(jax.tree.leaves(loss(jnp.full((2, 1), v))) for v in (0.1, 2.0)), strict=True):
        np.testing.assert_array_equal(a, b)
