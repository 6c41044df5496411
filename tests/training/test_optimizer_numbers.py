"""A run that goes on with other numbers of its optimiser says which are used."""

import jax
import jax.numpy as jnp
import optax
import pytest
from training_problems import regression_data, regression_gradient, regression_state

from ebmjax.training import Checkpoints, Plan, fit, init_state, make_train_step, stack_states


def sitting(folder, optimizer, steps):
    """Goes on to ``steps``; returns the last state."""
    return fit(
        jax.random.key(0),
        regression_state(optimizer),
        make_train_step(regression_gradient, optimizer),
        regression_data(),
        Plan(total_steps=steps, batch_size=16, steps_per_dispatch=5, checkpoint_every=5),
        checkpoints=Checkpoints(folder),
    ).state


def decaying(rate):
    return optax.exponential_decay(rate, 10, 0.5)


INJECTED = optax.inject_hyperparams(optax.sgd)
# What makes an optimiser of a rate, and whether the new rate is used.
KINDS = {
    "sgd": (optax.sgd, True),
    "adam": (optax.adam, True),
    "schedule": (lambda rate: optax.sgd(decaying(rate)), True),
    "chain": (lambda rate: optax.chain(optax.clip(rate), optax.sgd(0.5)), True),
    "injected": (INJECTED, False),
    "injected schedule": (lambda rate: INJECTED(decaying(rate)), True),
    "injected in a chain": (lambda rate: optax.chain(optax.clip(1.0), INJECTED(rate)), False),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_another_rate_is_said_with_the_one_that_is_used(kind, tmp_path, caplog):
    make, is_new = KINDS[kind]
    sitting(tmp_path, make(0.1), 5)
    sitting(tmp_path, make(0.1), 10)
    assert not caplog.records, "nothing differs"
    after = sitting(tmp_path, make(0.0), 15)
    (said,) = caplog.messages
    assert "rate" in said
    assert "checkpoint 10" in said.lower()
    assert ("The new one is used" in said) == is_new
    assert ("0.1 then, " in said) == is_new  # also if another number of the optimiser is 0.1
    assert ("that is used: 0.1" in said) != is_new
    before = sitting(tmp_path / "same", make(0.1), 10)
    moved = jnp.abs(after.params["weight"] - before.params["weight"]).max()
    assert (moved == 0.0) == is_new  # a rate of 0 moves nothing

    caplog.clear()
    sitting(tmp_path, make(0.0), 20)
    assert len(caplog.records) == (not is_new)  # as long as another than the given one is used


def test_another_optimiser_without_a_state_is_said(tmp_path, caplog):
    sitting(tmp_path, optax.sgd(0.1), 5)
    sitting(tmp_path, optax.chain(optax.clip(0.1), optax.identity()), 10)
    assert "is not the one that checkpoint 5 was made with" in caplog.text


def test_a_number_that_the_run_itself_changed_is_none_that_differs(tmp_path, caplog):
    """On a plateau the state's rate falls, and the caller gives the first one again."""
    make = lambda: optax.chain(optax.sgd(0.1), optax.contrib.reduce_on_plateau(patience=1))  # noqa: E731
    sitting(tmp_path, make(), 5)
    sitting(tmp_path, make(), 20)
    assert not caplog.records


@pytest.mark.slow
def test_repeats_and_optimisers_that_cannot_be_traced_alone(tmp_path, caplog):
    def averaged(rate):
        def mean(updates, state, params=None):
            return jax.tree.map(lambda leaf: jax.lax.pmean(leaf, "data"), updates), state

        alone = optax.GradientTransformation(lambda params: optax.EmptyState(), mean)
        return optax.chain(alone, optax.sgd(rate))

    sitting(tmp_path / "averaged", averaged(0.1), 5)
    sitting(tmp_path / "averaged", averaged(0.2), 10)  # nobody can tell
    assert not caplog.records

    def repeated(rate, steps):
        optimizer = INJECTED(rate)
        state = stack_states(
            [init_state({"weight": jnp.zeros(3), "bias": jnp.zeros(())}, optimizer)] * 2
        )
        plan = Plan(total_steps=steps, batch_size=16, data_seed=(0, 1))
        keys = jax.random.split(jax.random.key(0), 2)
        step = make_train_step(regression_gradient, optimizer)
        fit(keys, state, step, regression_data(), plan, checkpoints=Checkpoints(tmp_path / "two"))

    repeated(0.1, 2)
    repeated(0.1, 4)
    assert not caplog.records
    repeated(0.2, 6)
    assert "learning_rate was 0.1, 0.1 when this run began" in caplog.text
