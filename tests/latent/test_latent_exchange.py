"""Exchange along the powers against the linear-Gaussian model's exact laws."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from latent_problems import MODEL, OBSERVATIONS, assert_means, exact_moments, make_params

from ebmjax import latent
from ebmjax.latent import _exchange
from ebmjax.samplers import mala, psgld

POWERS = jnp.array([0.05, 0.2, 0.5, 1.0])
X = jnp.asarray(OBSERVATIONS[:1], jnp.float32)
NUM = 20_000


def exact_starts(params, powers, num):
    mean, covariance = exact_moments(params, powers, X)
    noise = jax.random.normal(jax.random.key(5), (len(powers), num, 2))
    return mean + jnp.einsum("pij,pnj->pni", jnp.linalg.cholesky(covariance[:, 0]), noise)


@functools.cache
def run(every, temperature=1.0):
    params, observations = make_params(), jnp.repeat(X, NUM, axis=0)
    sampler = functools.partial(mala, step_size=0.05, temperature=temperature)
    mean = exact_moments(params, POWERS, X)[0]
    start = mean + (exact_starts(params, POWERS, NUM) - mean) * temperature**0.5
    options = {"sampler": sampler, "num_steps": 7, "start": start, "exchange_every": every}
    arguments = params, MODEL, observations, POWERS, 2
    draw = jax.jit(lambda key: latent.sample_power_posteriors(key, *arguments, **options))
    return draw(jax.random.key(1))


def check_laws(latents, temperature=1.0):
    """Means and second moments about the exact mean, of independent chains."""
    mean, covariance = exact_moments(make_params(), POWERS, X)
    offsets = np.moveaxis(np.asarray(latents - mean, np.float64), 0, 1)
    assert_means(offsets, 0.0)
    squares = offsets[..., :, None] * offsets[..., None, :]
    assert_means(squares, temperature * np.asarray(covariance[:, 0]))


@pytest.mark.parametrize(("every", "temperature"), [(1, 1.0), (2, 1.0), (3, 1.0), (1, 0.3)])
def test_swaps_keep_every_law(every, temperature):
    latents, metrics = run(every, temperature)
    check_laws(latents, temperature)
    assert np.all((metrics["swap_acceptance"] > 0.3) & (metrics["swap_acceptance"] < 0.95))


def test_swapped_states_are_those_of_a_fresh_start():
    """On the thesis's powers, within the rounding of at most 16 operations in a row."""
    params, powers = make_params(jnp.float32), latent.power_schedule(10, 6.0)[1:]
    start = exact_starts(params, powers, 500)

    def log_prior(z):
        return latent.log_prior(params, MODEL, z)

    def fresh(power, z):
        def log_density(z):
            return log_prior(z) + power * latent.log_likelihood(params, MODEL, z, X[0])

        return mala(log_density, step_size=0.1).init(z)

    states_at = jax.jit(jax.vmap(jax.vmap(fresh, (None, 0))))
    step = _exchange.exchanging(lambda key, states: (states, None), 1, log_prior, powers, 1.0)
    now = _exchange.start_exchange(states_at(powers, start), None)
    for turn in (0, 1):
        end, _ = jax.jit(step)(jax.random.key(turn), now._replace(states=states_at(powers, start)))
        moved = np.any(np.asarray(end.states.position != start), axis=-1)
        assert moved[turn : 10 - turn].any(1).all()
        now = end
        expected = states_at(powers, end.states.position)
        (A, c), (W, b) = jax.tree.map(lambda leaf: np.abs(np.asarray(leaf)), tuple(params))
        z, A = np.abs(np.asarray(end.states.position)), (A + A.T) / 2
        reach = np.abs(X[0]) + b + z @ W.T
        prior = np.sum(z**2, -1) / 2 / 1.3**2 + 3 + np.einsum("pbi,ij,pbj->pb", z, A, z) / 2 + z @ c
        likelihood = np.sum(reach**2, -1) / 2 / 0.6**2 + 5
        of_score = z / 1.3**2 + z @ A + c, reach @ W / 0.6**2
        power = np.asarray(powers)[:, None]
        ratio = np.pad(power[1:] / power[:-1], ((1, 0), (0, 0)), constant_values=1.0)
        pairs = [(end.states.log_density, expected.log_density, prior, likelihood)]
        pairs += [
            (end.states.score[..., i], expected.score[..., i], *(s[..., i] for s in of_score))
            for i in (0, 1)
        ]
        for found, exact, of_prior, of_likelihood in pairs:
            bound = 32 * 2**-24 * ((ratio + 1) * of_prior + power * of_likelihood)
            np.testing.assert_array_less(np.abs(found - exact), bound)
        assert np.all(np.asarray(end.states.log_density == expected.log_density)[~moved])


def flat_chains(num_steps, **options):
    """Chains of three powers on a likelihood that no latent moves: every swap is taken."""
    params = make_params()
    params = params._replace(generator=jax.tree.map(jnp.zeros_like, params.generator))
    options = {"sampler": functools.partial(mala, step_size=0.1), "exchange_every": 2} | options
    arguments = params, MODEL, X, POWERS[1:], 2
    key = jax.random.key(0)
    return latent.sample_power_posteriors(key, *arguments, num_steps=num_steps, **options)[1]


def test_round_trips_are_counted_also_over_a_pause():
    """By hand: the replicas end their trips at the swaps 5, 7 and 9."""
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
    with pytest.raises(ValueError, match="exchange_every must be from 1 to num_steps"):
        flat_chains(1)
    with pytest.raises(ValueError, match="excludes warm_start"):
        flat_chains(2, warm_start=True)
    sampler = functools.partial(mala, step_size=0.1)
    chains = latent.LatentChains(2, sampler, 2, sampler, 2, exchange_every=1)
    ladder = jnp.array([0.0, 0.5, 1.0])
    with pytest.raises(ValueError, match=r"through_chain_loss needs chains\.exchange_every=0"):
        latent.through_chain_loss(jax.random.key(0), make_params(), MODEL, X, ladder, chains)
