import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import digits

from ebmjax.latent import LatentParams
from ebmjax.recipes.models import build
from ebmjax.recipes.models.energy import parts as joint_parts
from ebmjax.recipes.models.latent import parts as latent_parts
from experiments.configs import jem_digits


def test_the_plan_counts_epochs_in_whole_batches():
    config = digits(**{"train.num_epochs": 7, "train.log_every": 3, "seed": 5})
    plan = build.plan(config, 150)  # 2 batches of 72 and 6 examples left over
    assert plan.total_steps == 14
    assert (plan.batch_size, plan.num_shards, plan.log_every, plan.data_seed) == (72, 8, 3, 5)


@pytest.mark.parametrize(
    ("steps_per_dispatch", "epochs", "steps"),
    [(2, 3, 6), (4, 3, 8), (4, 5, 8), (5, 3, 5), (100, 1, 100)],
)
def test_intervals_are_the_nearest_whole_number_of_dispatches(steps_per_dispatch, epochs, steps):
    """An epoch is 2 steps: 2 x 3 / 4 = 1.5 rounds to 2 dispatches, 2 x 5 / 4 = 2.5 to 2, as halves
    go to even; less than one dispatch is one."""
    config = digits(
        **{
            "train.steps_per_dispatch": steps_per_dispatch,
            "train.checkpoint_every_epochs": epochs,
            "evals.every_epochs": epochs,
        }
    )
    plan = build.plan(config, 144)
    assert plan.checkpoint_every == plan.monitor_every == steps
    assert plan.is_monitored(0)


def momentum_of(num):
    """Returns the sums of 0.9^i of so many steps with a gradient of 1."""
    return (1 - 0.9 ** np.arange(1, num + 1)) / 0.1


def test_a_joint_models_rate_decays_as_often_as_its_epochs_say():
    """Twice at the same step, where two of them fall on it."""
    config = jem_digits.get_config()
    config.optimizer.update(
        name="sgd",
        learning_rate=0.8,
        decay_epochs=(1.0, 2.0, 2.0, 2.1),
        decay_factor=0.5,
    )
    optimizer = joint_parts.make_optimizer(config, 40, 3, config.optimizer)
    state, updates = optimizer.init(jnp.zeros(())), []
    for _ in range(8):
        update, state = optimizer.update(jnp.ones(()), state, jnp.zeros(()))
        updates.append(-float(update))
    # Products of 0.8 and powers of 0.5, each rounded once.
    rates = np.array(updates) / momentum_of(8)
    assert rates == pytest.approx([0.8] * 3 + [0.4] * 3 + [0.05] * 2, rel=1e-5)


def test_a_joint_models_rate_may_decay_by_a_cosine():
    """Half the cosine of the way, down to 0 at the end, after the warm-up's share."""
    config = jem_digits.get_config()
    config.optimizer.update(name="sgd", learning_rate=0.8, schedule="cosine", warmup_steps=2)
    optimizer = joint_parts.make_optimizer(config, 8, 2, config.optimizer)
    state, updates = optimizer.init(jnp.zeros(())), []
    for _ in range(9):
        update, state = optimizer.update(jnp.ones(()), state, jnp.zeros(()))
        updates.append(-float(update))
    expected = 0.4 * (1 + np.cos(np.pi * np.arange(9) / 8)) * np.minimum(1, np.arange(1, 10) / 2)
    # The cosine of float32 angles up to pi: an absolute error of about 0.4 * 3e-7.
    np.testing.assert_allclose(updates / momentum_of(9), expected, rtol=0, atol=1e-6)


def test_a_joint_models_decay_of_weights_is_coupled_and_its_momentum_adds_up():
    """The decay is part of the gradient, 1 + 0.25 * 2, of which momentum keeps 0.9."""
    config = jem_digits.get_config()
    config.optimizer.update(name="sgd", learning_rate=0.1, weight_decay=0.25)
    optimizer = joint_parts.make_optimizer(config, 400, 100, config.optimizer)
    params, updates = jnp.float32(2.0), []
    state = optimizer.init(params)
    for _ in range(2):
        update, state = optimizer.update(jnp.ones(()), state, params)
        updates.append(float(update))
    assert updates == pytest.approx([-0.1 * 1.5, -0.1 * 1.9 * 1.5], rel=1e-6)


def test_adams_rate_decays_by_the_epoch_down_to_a_floor():
    config = digits()
    config.optimizer.decay_per_epoch = 0.5
    config.optimizer.prior.update(learning_rate=0.8, final_learning_rate=0.15)
    config.optimizer.generator.update(learning_rate=0.3, final_learning_rate=0.3)

    optimizer = latent_parts.make_optimizer(config, 3, config.optimizer)
    ones = LatentParams(jnp.ones(()), jnp.ones(()))

    def step(state, _):
        # With a constant gradient both of Adam's moments stay at it, so an update is the rate.
        updates, state = optimizer.update(ones, state)
        return state, jax.tree.map(lambda update: -update, updates)

    _, rates = jax.lax.scan(step, optimizer.init(ones), length=18)

    by_epoch = np.array([0.8, 0.8, 0.4, 0.2, 0.15, 0.15])
    # Powers of 0.5 are exact; what remains is the rounding of Adam's bias correction,
    # (1 - b2) m / (1 - b2^t): about eps / (1 - b2) = 1.2e-7 / 1e-3.
    np.testing.assert_allclose(rates.prior.reshape(6, 3), by_epoch[:, None].repeat(3, 1), rtol=3e-4)
    np.testing.assert_allclose(rates.generator, 0.3, rtol=3e-4)


def test_the_keys_of_a_run_differ_from_each_other_and_between_seeds():
    keys = [key for seed in (0, 1) for key in build.root_keys(seed)]
    data = {tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in keys}
    assert len(data) == 6
