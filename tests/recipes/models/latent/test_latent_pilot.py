"""The pilot run of an adaptive schedule: what it trains, and what it measures."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import digits

from ebmjax import data, latent
from ebmjax.recipes.models.build import root_keys
from ebmjax.recipes.models.latent import parts, schedule

NUM = 220
FIELDS = {
    "loss.schedule": "adaptive",
    "loss.pilot_epochs": 3,
    "loss.pilot_intervals": 4,
    "loss.exponent": 2.0,
    "train.batch_size": 8,
    "train.steps_per_dispatch": 500,
    "sampler.persistent": True,
    "sampler.prior.num_steps": 2,
    "sampler.posterior.num_steps": 2,
    "seed": 7,
}
IMAGES = np.random.default_rng(0).integers(0, 256, (NUM, 8, 8, 1), np.uint8)


def run_with_zeros():
    """The pilot of a model whose initial parameters are zeros."""
    config = digits(**FIELDS)
    examples = parts.Examples(data.ImageData(IMAGES, np.zeros(NUM)), jnp.arange(NUM))
    model, init = parts.model_of(config, (8, 8, 1))
    params = jax.tree.map(jnp.zeros_like, init(root_keys(config.seed)[0]))
    optimizer = parts.optimizer(config, NUM // config.train.batch_size, config.optimizer)
    chains, law = parts.chains(config, examples.images), latent.power_schedule(3, 6.0)
    found = schedule.run_pilot(config, model, params, optimizer, chains, examples, law)
    return found, model, params


@pytest.fixture
def fitted(monkeypatch):
    """Calls of ``fit``, which here traces a step and returns the first state."""
    calls = []

    def fit(key, state, train_step, examples, plan, **options):
        batch = jax.tree.map(lambda leaf: jnp.asarray(leaf[: plan.batch_size])[None], examples)
        step = jax.vmap(partial(train_step, batch=batch), None, axis_name="data", axis_size=1)
        after, _ = jax.eval_shape(step, key, state)
        assert jax.tree.structure(after) == jax.tree.structure(state)
        calls.append((plan, options))
        return SimpleNamespace(state=state, compile_seconds=2.0)

    monkeypatch.setattr(schedule, "fit", fit)
    return calls


@pytest.mark.slow
def test_the_pilot_trains_and_measures_as_its_fields_say(fitted):
    """A generator of zeros ignores its latent, so E_t is the same at every power."""
    found, model, params = run_with_zeros()
    ((plan, options),) = fitted
    assert plan.total_steps == plan.log_every == 3 * 27  # whole batches of 8 among 220
    assert plan.steps_per_dispatch == 3 * 27  # of 500 at once
    assert (plan.batch_size, plan.data_seed) == (8, 7)
    assert plan.num_shards == digits().mesh.num_shards
    assert options["devices"] == jax.local_devices()[:1]
    assert options["signals"] is False
    np.testing.assert_array_equal(found.powers, latent.power_schedule(4, 2.0))
    observations = data.to_signed_unit(jnp.asarray(IMAGES[:200]))
    nothing = jnp.zeros(digits().model.latent_dim)
    expected = jax.vmap(lambda x: latent.log_likelihood(params, model, nothing, x))(observations)
    np.testing.assert_allclose(found.mean_log_likelihoods, [jnp.mean(expected)] * 5, rtol=1e-5)
    assert found.seconds.compile > 2.0  # training's and measuring's
    assert found.seconds.wall > 0
