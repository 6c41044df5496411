"""Contract of every short-run chain: acceptance, gradients a step, keys, retraces, bad input."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from latent_problems import MODEL
from latent_problems import PAIR as OBSERVATIONS
from latent_problems import SQUARE as PARAMS

from ebmjax import latent
from ebmjax.samplers import LangevinInfo, Sampler, gradient_descent, sgld

POWERS = jnp.array([0.1, 0.25, 1.0])
ULA = functools.partial(sgld, step_size=0.1)
posteriors = jax.jit(
    latent.sample_power_posteriors,
    static_argnums=(2, 5),
    static_argnames=("sampler", "num_steps", "warm_start"),
)


class CountedState(tuple):
    """(position, steps so far) with the one attribute that drivers read."""

    @property
    def position(self):
        return self[0]


jax.tree_util.register_pytree_node(
    CountedState, lambda state: (tuple(state), None), lambda _, leaves: CountedState(leaves)
)


def test_acceptance_is_averaged_over_steps_and_chains_and_kept_by_power():
    """A sampler whose k-th step (k = 0, 1, ...) reports k times its log density at a fixed place.

    At z = 0 the log joint is t * log likelihood + log prior; four steps average k to 1.5.
    """

    def reporting(log_density_fn):
        def step(key, state):
            value = state[1] * log_density_fn(jnp.zeros(2))
            return CountedState((state[0], state[1] + 1.0)), LangevinInfo(value, value, value)

        return Sampler(lambda z: CountedState((z, 0.0)), step)

    key = jax.random.key(5)
    zero = jnp.zeros(2)
    likelihood = np.mean([latent.log_likelihood(PARAMS, MODEL, zero, x) for x in OBSERVATIONS])
    prior = float(latent.log_prior(PARAMS, MODEL, zero))
    for warm_start in (False, True):
        _, metrics = latent.sample_power_posteriors(
            key,
            PARAMS,
            MODEL,
            OBSERVATIONS,
            POWERS,
            2,
            sampler=reporting,
            num_steps=4,
            warm_start=warm_start,
        )
        expected = 1.5 * (np.asarray(POWERS) * likelihood + prior)
        np.testing.assert_allclose(metrics["acceptance_prob"], expected, rtol=1e-5)
    _, metrics = latent.sample_prior(key, PARAMS, MODEL, 3, 2, sampler=reporting, num_steps=4)
    np.testing.assert_allclose(metrics["acceptance_prob"], 1.5 * prior, rtol=1e-5)


def test_a_sampler_without_acceptance_reports_nothing():
    sampler = functools.partial(gradient_descent, step_size=0.1)
    key = jax.random.key(6)
    assert latent.sample_prior(key, PARAMS, MODEL, 2, 2, sampler=sampler, num_steps=2)[1] == {}


@pytest.mark.parametrize("warm_start", [False, True])
def test_one_gradient_a_step(warm_start):
    """Energy and generator are each differentiated once a step and once at each start."""
    counts = {"energy": 0, "generator": 0}

    def counted(name):
        @jax.custom_vjp
        def identity(z):
            return z

        def increment():
            counts[name] += 1

        def backward(_, cotangent):
            jax.debug.callback(lambda _: increment(), cotangent)
            return (cotangent,)

        identity.defvjp(lambda z: (z, None), backward)
        return identity

    in_energy, in_generator = counted("energy"), counted("generator")
    model = latent.LatentModel(
        lambda _, z: 0.1 * jnp.sum(in_energy(z) ** 4), lambda _, z: 2.0 * in_generator(z)
    )
    params, key = latent.LatentParams(None, None), jax.random.key(8)
    posteriors(
        key, params, model, OBSERVATIONS, POWERS, 2, sampler=ULA, num_steps=5, warm_start=warm_start
    )[0].block_until_ready()
    jax.effects_barrier()
    chains = len(POWERS) * len(OBSERVATIONS)
    assert counts == {"energy": chains * 6, "generator": chains * 6}


def test_same_key_same_draw_and_no_retrace_when_numbers_change():
    traces = []

    @jax.jit
    def run(key, params, observations, powers, step_size):
        traces.append(None)
        sampler = functools.partial(sgld, step_size=step_size)
        return latent.sample_power_posteriors(
            key, params, MODEL, observations, powers, 2, sampler=sampler, num_steps=2
        )[0]

    key = jax.random.key(9)
    first = run(key, PARAMS, OBSERVATIONS, POWERS, 0.1)
    np.testing.assert_array_equal(first, run(key, PARAMS, OBSERVATIONS, POWERS, 0.1))
    assert not np.array_equal(first, run(key, PARAMS, OBSERVATIONS, POWERS, 0.2))
    run(jax.random.key(1), PARAMS, -OBSERVATIONS, jnp.array([0.2, 0.6, 1.0]), 0.1)
    assert len(traces) == 1


@pytest.mark.slow
def test_keys_are_used_once():
    with jax.debug_key_reuse(True):
        for warm_start in (False, True):
            latent.sample_power_posteriors(
                jax.random.key(10),
                PARAMS,
                MODEL,
                OBSERVATIONS,
                POWERS,
                2,
                sampler=ULA,
                num_steps=2,
                warm_start=warm_start,
            )
        latent.sample_prior(jax.random.key(11), PARAMS, MODEL, 2, 2, sampler=ULA, num_steps=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"powers": jnp.array([0.5, 0.2])}, "powers must increase strictly"),
        ({"powers": jnp.array([0.5, 1.2])}, r"within \[0, 1\]"),
        ({"num_steps": 0}, "num_steps.*at least 1"),
        ({"observations": jnp.zeros((0, 2))}, "the number of observations must be .* at least 1"),
        ({"observations": jnp.zeros((2, 5))}, r"generator_fn returned shape \(2,\).*\(5,\)"),
    ],
)
def test_bad_input_is_refused(changes, message):
    arguments = {
        "observations": OBSERVATIONS,
        "powers": POWERS,
        "latent_dim": 2,
        "sampler": ULA,
        "num_steps": 1,
    }
    with pytest.raises(ValueError, match=message):
        latent.sample_power_posteriors(jax.random.key(0), PARAMS, MODEL, **{**arguments, **changes})


@pytest.mark.parametrize("name", ["num_chains", "latent_dim", "num_steps"])
def test_chains_of_the_prior_are_at_least_one_of_each(name):
    sizes = {"num_chains": 1, "latent_dim": 2, "num_steps": 1, name: 0}
    with pytest.raises(ValueError, match=f"{name}.*at least 1"):
        latent.sample_prior(jax.random.key(0), PARAMS, MODEL, sampler=ULA, **sizes)
