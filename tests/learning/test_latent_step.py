"""The latent EBM trains under fit, with every estimator and with persistent chains."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from training_problems import ListWriter, settled

from ebmjax import latent
from ebmjax.learning import (
    init_latent_carry,
    make_latent_gradient_fn,
    make_through_chain_gradient_fn,
)
from ebmjax.samplers import gradient_descent, mala, sgld
from ebmjax.training import Plan, fit, init_state, make_train_step

ESTIMATORS = {
    "vanilla": {},
    "tempered": {"powers": latent.power_schedule(3, 2.0), "loss_fn": latent.tempered_loss},
    "telescoped": {"powers": latent.power_schedule(3, 2.0), "loss_fn": latent.telescoped_loss},
    "covariance": {
        "powers": latent.power_schedule(3, 2.0),
        "loss_fn": functools.partial(latent.covariance_loss, num_chains=16),
        "num_chains": 16,
    },
    "through_chain": {"powers": latent.power_schedule(3, 2.0)},
}


def linear_data():
    """A plane in six dimensions, off the origin, with noise of 0.3."""
    rng = np.random.default_rng(3)
    weight, bias = rng.normal(size=(6, 2)), rng.normal(size=6)
    z = rng.normal(size=(128, 2))
    return (z @ weight.T + bias + 0.3 * rng.normal(size=(128, 6))).astype(np.float32)


def linear_params():
    weight = 0.3 * jax.random.normal(jax.random.key(8), (6, 2))
    return latent.LinearGaussian.params(jnp.zeros((2, 2)), jnp.zeros(2), weight, jnp.zeros(6))


def linear_gradient_fn(name):
    options = {
        "chains": latent.LatentChains(
            2,
            functools.partial(sgld, step_size=0.2),
            10,
            functools.partial(sgld, step_size=0.02),
            20,
            warm_start=name == "telescoped",
        ),
        "observe": lambda batch: batch,
        **ESTIMATORS[name],
    }
    if name == "through_chain":
        return make_through_chain_gradient_fn(latent.LinearGaussian(), **options)
    return make_latent_gradient_fn(latent.LinearGaussian(), **options)


def train_linear(name):
    gradient_fn = linear_gradient_fn(name)
    # Adam moves an entry by about its rate at most: in 150 steps of 0.002 the quadratic tilt stays
    # above -2 * 0.3 of the base's 1, so the prior stays one.
    rates = {"prior": optax.adam(0.002), "generator": optax.adam(0.02)}
    optimizer = optax.multi_transform(rates, latent.LatentParams("prior", "generator"))
    state, writer = init_state(linear_params(), optimizer), ListWriter()
    train_step = make_train_step(gradient_fn, optimizer)
    plan = Plan(total_steps=150, batch_size=32, steps_per_dispatch=50)
    result = fit(jax.random.key(0), state, train_step, linear_data(), plan, writers=[writer])
    return state, result, writer


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("covariance", "through_chain")))
        for name in ESTIMATORS
    ],
)
def test_every_estimator_raises_the_exact_evidence(name):
    state, result, writer = train_linear(name)

    def evidence(params):
        of_one = functools.partial(latent.LinearGaussian().log_evidence, params)
        return float(jnp.mean(jax.vmap(of_one)(linear_data())))

    # No Gaussian does better on average than that of the data's own moments.
    covariance = np.cov(linear_data().astype(float).T, ddof=0)
    best = -0.5 * (6 * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1] + 6)
    before, after = evidence(state.params), evidence(result.state.params)
    assert before < best - 10
    assert before + 0.9 * (best - before) < after < best

    errors = [row["reconstruction_error"] for _, row in writer.rows]
    assert np.mean(errors[-10:]) < 0.25 * errors[0]
    moved = jax.tree.map(lambda a, b: bool(jnp.any(a != b)), state.params, result.state.params)
    assert all(jax.tree.leaves(moved))
    assert int(result.state.skipped) == 0

    num_powers = 1 if name == "vanilla" else 4
    assert len(result.row["mean_log_likelihoods"]) == num_powers
    assert len(result.row["posterior_acceptance"]) == max(num_powers - 1, 1)
    assert 0 < result.row["prior_acceptance"] <= 1


MODEL = latent.LinearGaussian(likelihood_scale=0.7)
PARAMS = MODEL.params(
    jnp.array([[0.5, 0.1], [0.1, 0.8]]),
    jnp.array([0.3, -0.2]),
    jnp.array([[1.0, -0.5], [0.3, 0.9]]),
    jnp.zeros(2),
)
OBSERVATIONS = jnp.array([[1.5, -0.8], [-2.0, 0.6], [0.2, 0.1], [1.0, 1.0]])
POWERS = latent.power_schedule(2, 2.0)
NUM_CHAINS = 3


def gradient_fn_of(sampler, *, num_chains=NUM_CHAINS, identify=lambda batch: batch[1], every=0):
    return make_latent_gradient_fn(
        MODEL,
        latent.LatentChains(2, sampler, 2, sampler, 2, exchange_every=every),
        observe=lambda batch: batch[0],
        powers=POWERS,
        loss_fn=latent.telescoped_loss,
        num_chains=num_chains,
        identify=identify,
    )


def shards(**changes):
    sizes = {"num_shards": 1, "batch_size": 2, "num_examples": 4, "num_powers": 3, "latent_dim": 2}
    return init_latent_carry(jax.random.key(0), **(sizes | {"num_chains": NUM_CHAINS} | changes))


def first(shards):
    return jax.tree.map(lambda leaf: leaf[0], shards)


def test_only_the_chains_of_the_batch_move_and_each_along_its_own_power_and_observation():
    """One noiseless sweep by hand: z + s (h_t(x) - L_t z), of the exact power posterior, twice."""
    start = first(shards())
    gradient_fn = settled(gradient_fn_of(functools.partial(gradient_descent, step_size=0.1)))
    chosen = jnp.array([3, 1])
    batch = (OBSERVATIONS[chosen], chosen)
    _, end, _ = jax.jit(gradient_fn)(jax.random.key(1), PARAMS, start, batch)

    np.testing.assert_array_equal(
        end.posterior[jnp.array([0, 2])], start.posterior[jnp.array([0, 2])]
    )
    for example in (3, 1):
        for i, power in enumerate(POWERS[1:]):
            mean, covariance = MODEL.power_posterior(PARAMS, OBSERVATIONS[example], power)
            contraction = np.eye(2) - 0.1 * np.linalg.inv(covariance)
            offset = np.asarray(start.posterior[example, i]) - np.asarray(mean)
            expected = np.asarray(mean) + offset @ np.linalg.matrix_power(contraction, 2)
            np.testing.assert_allclose(end.posterior[example, i], expected, rtol=1e-4, atol=1e-5)
    prior_precision = np.eye(2) + np.array([[0.5, 0.1], [0.1, 0.8]])
    prior_mean = np.linalg.solve(prior_precision, [0.3, -0.2])
    contraction = np.linalg.matrix_power(np.eye(2) - 0.1 * prior_precision, 2)
    expected = prior_mean + (np.asarray(start.prior) - prior_mean) @ contraction
    np.testing.assert_allclose(end.prior, expected, rtol=1e-4, atol=1e-5)


def test_chains_that_exchange_go_on_and_their_powers_follow():
    ladder = jnp.array([0.0, 0.1, 0.3, 1.0])
    start = first(shards(num_powers=4, exchange=True, placed_powers=ladder))
    gradient_fn = gradient_fn_of(functools.partial(mala, step_size=0.1), every=2)
    gradient_fn = functools.partial(gradient_fn, numbers={"powers": ladder})
    batch = OBSERVATIONS[:2], jnp.array([3, 1])
    _, end, found = jax.jit(settled(gradient_fn))(jax.random.key(1), PARAMS, start, batch)
    # One swap a step: the chains of the batch turn to odd pairs, and their lowest replicas go up.
    np.testing.assert_array_equal(end.replicas[:, -1, 0], [0, 1, 0, 1])
    np.testing.assert_array_equal(end.replicas[:, 0, 0], [0, 1, 0, 1])
    placed = latent.place_powers(ladder, found["swap_acceptance"])
    np.testing.assert_allclose(end.powers, ladder + 0.02 * (placed - ladder), rtol=1e-6)
    assert abs(end.powers[2] - ladder[2]) > 1e-5
    with pytest.raises(ValueError, match="and exchange where exchange_every is above 0"):
        gradient_fn(jax.random.key(1), PARAMS, start._replace(replicas=None), batch)


def test_persistent_chains_need_to_know_the_examples():
    gradient_fn = gradient_fn_of(functools.partial(mala, step_size=0.1), identify=None)
    with pytest.raises(ValueError, match="persistent chains need identify"):
        gradient_fn(jax.random.key(0), PARAMS, first(shards()), (OBSERVATIONS[:2], jnp.arange(2)))


def test_chains_of_an_example_start_at_its_latent_on_every_shard():
    start = jnp.arange(8.0).reshape(4, 2)
    made = shards(num_shards=2, posterior_start=start)
    expected = np.broadcast_to(np.asarray(start)[:, None, None], (2, 4, 2, NUM_CHAINS, 2))
    np.testing.assert_array_equal(made.posterior, expected)
    np.testing.assert_array_equal(made.prior, shards(num_shards=2).prior)


@pytest.mark.parametrize("reinit_prob", [0.25, 1.0])
def test_chains_of_the_prior_start_anew_by_chance(reinit_prob):
    """Chains that hardly move: the share that left, within 5 standard errors, and its new law."""
    num = 4000
    gradient_fn = make_latent_gradient_fn(
        MODEL,
        latent.LatentChains(2, *[functools.partial(gradient_descent, step_size=1e-9), 1] * 2),
        observe=lambda batch: batch[0],
        identify=lambda batch: batch[1],
        num_chains=num // 2,
        reinit_prob=reinit_prob,
    )
    carry = first(shards(num_powers=2, num_chains=num // 2))
    carry = carry._replace(prior=jnp.full((num, 2), 50.0))
    batch = (OBSERVATIONS[:2], jnp.arange(2))
    _, end, _ = jax.jit(gradient_fn)(jax.random.key(3), PARAMS, carry, batch)
    is_new = np.asarray(end.prior[:, 0] < 25.0)
    spread = np.sqrt(reinit_prob * (1 - reinit_prob) / num)
    assert abs(is_new.mean() - reinit_prob) <= 5 * spread
    new = np.asarray(end.prior)[is_new]
    np.testing.assert_allclose(new.mean(0), 0.0, atol=5 / np.sqrt(len(new)))
    np.testing.assert_allclose(new.std(0), 1.0, atol=5 / np.sqrt(2 * len(new)))
    np.testing.assert_allclose(np.asarray(end.prior)[~is_new], 50.0, rtol=1e-5)
