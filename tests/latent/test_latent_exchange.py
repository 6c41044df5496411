"""Exchange along the powers against the linear-Gaussian model's exact laws."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from latent_problems import MODEL, OBSERVATIONS, assert_means, exact_moments, make_params

from ebmjax import latent
from ebmjax.densities import power_posterior
from ebmjax.latent import _exchange
from ebmjax.samplers import mala, psgld

POWERS = jnp.array([0.05, 0.2, 0.5, 1.0])
X = jnp.asarray(OBSERVATIONS[:1], jnp.float32)
NUM = 20_000


def exact_starts(params, powers, num):
    mean, covariance = exact_moments(params, powers, X)
    noise = jax.random.normal(jax.random.key(5), (len(powers), num, 2))
    return mean + jnp.einsum("pij,pnj->pni", jnp.linalg.cholesky(covariance[:, 0]), noise)


@pytest.mark.parametrize(("every", "temperature"), [(1, 1.0), (2, 1.0), (3, 1.0), (1, 0.3)])
def test_swaps_keep_every_law(every, temperature):
    """From exact draws: means, and second moments about the exact mean, of independent chains."""
    params, observations = make_params(), jnp.repeat(X, NUM, axis=0)
    mean, covariance = exact_moments(params, POWERS, X)
    start = mean + (exact_starts(params, POWERS, NUM) - mean) * temperature**0.5
    sampler = functools.partial(mala, step_size=0.05, temperature=temperature)
    options = {"sampler": sampler, "num_steps": 7, "start": start, "exchange_every": every}
    arguments = params, MODEL, observations, POWERS, 2
    draw = jax.jit(lambda key: latent.sample_power_posteriors(key, *arguments, **options))
    latents, metrics = draw(jax.random.key(1))
    offsets = np.moveaxis(np.asarray(latents - mean, np.float64), 0, 1)
    assert_means(offsets, 0.0)
    squares = offsets[..., :, None] * offsets[..., None, :]
    assert_means(squares, temperature * np.asarray(covariance[:, 0]))
    assert np.all((metrics["swap_acceptance"] > 0.3) & (metrics["swap_acceptance"] < 0.95))


def test_swapped_states_are_those_of_a_fresh_start():
    """On the thesis's powers, within the rounding of at most 16 operations in a row."""
    params, powers = make_params(jnp.float32), latent.power_schedule(10, 6.0)[1:]
    start = exact_starts(params, powers, 500)
    log_prior = functools.partial(latent.log_prior, params, MODEL)

    def fresh(power, z):
        likelihood = functools.partial(latent.log_likelihood, params, MODEL, x=X[0])
        return mala(power_posterior(log_prior, likelihood, power), step_size=0.1).init(z)

    states_at = jax.jit(jax.vmap(jax.vmap(fresh, (None, 0))))
    step = _exchange.exchanging(lambda key, states: (states, None), 1, log_prior, powers, 1.0)
    (A, c), (W, b) = jax.tree.map(lambda leaf: np.abs(np.asarray(leaf)), tuple(params))
    power = np.asarray(powers)[:, None, None]
    ratio = np.pad(power[1:] / power[:-1], ((1, 0), (0, 0), (0, 0)), constant_values=1.0)
    now = _exchange.start_exchange(states_at(powers, start), None)
    for turn in (0, 1):
        now, _ = jax.jit(step)(jax.random.key(turn), now._replace(states=states_at(powers, start)))
        found, expected = now.states, states_at(powers, now.states.position)
        moved = np.any(np.asarray(found.position != start), axis=-1)
        assert moved[turn : 10 - turn].any(1).all()
        assert np.all(np.asarray(found.log_density == expected.log_density)[~moved])
        # Magnitudes of what the log density and the score add up, of the prior and the likelihood.
        z, A = np.abs(np.asarray(found.position)), (A + A.T) / 2
        slope, reach = z / 1.3**2 + z @ A + c, np.abs(X[0]) + b + z @ W.T
        prior = np.sum(slope * z, -1, keepdims=True) + 3, slope
        likelihood = np.sum(reach**2, -1, keepdims=True) / 0.6**2 + 5, reach @ W / 0.6**2
        prior, likelihood = (np.concatenate(parts, axis=-1) for parts in (prior, likelihood))
        off = jax.tree.map(jnp.subtract, found, expected)
        gap = np.concatenate([off.log_density[..., None], off.score], axis=-1)
        bound = 32 * 2**-24 * ((ratio + 1) * prior + power * likelihood)
        np.testing.assert_array_less(np.abs(gap), bound)


def flat_chains(num_steps, **options):
    """Chains of three powers on a likelihood that no latent moves: every swap is taken."""
    params = make_params()
    params = params._replace(generator=jax.tree.map(jnp.zeros_like, params.generator))
    options = {"sampler": functools.partial(mala, step_size=0.1), "exchange_every": 2} | options
    arguments = params, MODEL, X, POWERS[1:], 2
    key = jax.random.key(0)
    return latent.sample_power_posteriors(key, *arguments, num_steps=num_steps, **options)[1]


def test_round_trips_are_counted_also_over_a_pause():
    """Counts by hand: the replicas end their trips at the swaps 5, 7 and 9."""
    first = flat_chains(11)
    np.testing.assert_allclose(first["round_trips"], 1 / 3, rtol=1e-6)
    np.testing.assert_allclose(first["swap_acceptance"], 1.0, rtol=1e-6)
    np.testing.assert_array_equal(first["replicas"][:, 0], [1, 1, 2, 1])
    after = flat_chains(8, replicas=first["replicas"])
    np.testing.assert_allclose(after["round_trips"], 2 / 3, rtol=1e-6)
    assert flat_chains(8)["round_trips"] == 0


def test_powers_are_placed_where_pairs_reject_equally():
    powers = jnp.array([0.0, 0.01, 0.1, 1.0])
    same = latent.place_powers(powers, jnp.array([0.4, 0.4]))
    np.testing.assert_allclose(same, powers, rtol=1e-6)
    # Half of the rejections 0.2 + 0.6 is a third of the way along the second pair.
    moved = latent.place_powers(powers, jnp.array([0.8, 0.4]))
    np.testing.assert_allclose(moved, [0.0, 0.01, 10 ** (-2 / 3), 1.0], rtol=1e-5)
    with pytest.raises(ValueError, match=r"swap_acceptance must .* shape \(2,\), got \(3,\)"):
        latent.place_powers(powers, jnp.ones(3))


def test_what_cannot_exchange_is_refused():
    with pytest.raises(ValueError, match="exchange_every needs a posterior sampler whose state"):
        flat_chains(2, sampler=functools.partial(psgld, step_size=0.1))
    for wrong in ({"num_steps": 1}, {"num_steps": 2, "warm_start": True}):
        with pytest.raises(ValueError, match=r"from 1 to num_steps.*excludes warm_start"):
            flat_chains(**wrong)
    chains = latent.LatentChains(2, mala, 2, mala, 2, exchange_every=1)
    arguments = make_params(), MODEL, X, jnp.array([0.0, 0.5, 1.0]), chains
    with pytest.raises(ValueError, match=r"through_chain_loss needs chains\.exchange_every=0"):
        latent.through_chain_loss(jax.random.key(0), *arguments)
