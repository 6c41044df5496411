"""The latent EBM trains under fit, with every estimator."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from training_problems import ListWriter

from ebmjax import latent
from ebmjax.learning import make_latent_gradient_fn, make_through_chain_gradient_fn
from ebmjax.samplers import sgld
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
