"""Refusals of a wrong gradient function, optimiser or key, before anything runs."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from training_problems import regression_data, regression_gradient, regression_loss

from ebmjax.training import Plan, fit, init_state, make_train_step, write_slots

KEY = jax.random.key(0)
PARAMS = {"weight": jnp.zeros(3), "bias": jnp.zeros(())}
SHARDS = {"chain": jnp.zeros((2, 5, 3))}
LOSS = {"loss": jnp.float32(1.0)}


def never(*arguments):
    pytest.fail("ran before the mistake was told")


def train(gradient_fn=regression_gradient, *, key=KEY, carry=()):
    """Two steps, evaluated before the first: what is wrong must be found earlier."""
    optimizer = optax.sgd(0.1)
    state = init_state(PARAMS, optimizer, carry)
    plan = Plan(total_steps=2, batch_size=8, num_shards=2, monitor_every=1)
    step = make_train_step(gradient_fn, optimizer)
    return fit(key, state, step, regression_data(), plan, monitor=never)


def returning(*returned):
    """A gradient function that gives functions of (params, carry) for its three values."""
    return lambda key, params, carry, batch: tuple(make(params, carry) for make in returned)


def same(params, carry):
    return params


WRONG = {
    "pair": returning(same, same),
    "complex_loss": returning(same, lambda p, c: c, lambda p, c: {"loss": jnp.complex64(1)}),
    "structure": returning(lambda p, c: {"weight": p["weight"]}, lambda p, c: c, lambda *_: LOSS),
    "per_example": returning(
        lambda p, c: {**p, "weight": jnp.zeros((4, 3))}, lambda p, c: c, lambda *_: LOSS
    ),
    "no_carry": returning(same, lambda p, c: (), lambda *_: LOSS),
    "slots": returning(
        same,
        lambda p, c: {"chain": write_slots(jnp.arange(2), jnp.zeros((2, 4)))},
        lambda *_: LOSS,
    ),
}
MESSAGES = {
    "pair": "must return a tuple .*, got 2 values",
    "complex_loss": 'scalar, real "loss".*complex64',
    "structure": r"gradients\['bias'\] of .* like params\['bias'\], float\(\); got missing",
    "per_example": r"gradients\['weight'\] of .*, float\(3,\); got float\(4, 3\)",
    "no_carry": r"carry\['chain'\] of .*; got missing",
    "slots": r"carry\['chain'\] of .*rows\(3,\); got rows\(4,\)",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_gradient_function_that_breaks_its_contract(name):
    with pytest.raises((TypeError, ValueError), match=MESSAGES[name]):
        train(WRONG[name], carry=SHARDS)


@pytest.mark.parametrize("key", [0, np.int32(3), jax.random.PRNGKey(0)])
def test_a_key_that_is_not_typed(key):
    with pytest.raises(TypeError, match=r"key must be a typed key: use jax\.random\.key"):
        train(key=key)


PLATEAU = optax.chain(
    optax.adam(0.01), optax.contrib.reduce_on_plateau(patience=1, factor=0.5, rtol=0.5)
)


@pytest.mark.parametrize(
    "optimizer", [PLATEAU, optax.polyak_sgd(), optax.lbfgs(0.1, linesearch=None)]
)
def test_an_optimiser_is_told_the_loss(optimizer):
    """The same steps as by optax alone, on all the data; two of the rates depend on the loss."""
    data, num_steps = regression_data(), 4
    plan = Plan(
        total_steps=num_steps, batch_size=len(data["y"]), num_shards=2, steps_per_dispatch=4
    )
    step = make_train_step(regression_gradient, optimizer)
    result = fit(KEY, init_state(PARAMS, optimizer), step, data, plan)
    params, opt_state = PARAMS, optimizer.init(PARAMS)
    update = optax.with_extra_args_support(optimizer).update
    for _ in range(num_steps):
        value, gradients = jax.value_and_grad(regression_loss)(params, data)
        updates, opt_state = update(gradients, opt_state, params, value=value)
        params = optax.apply_updates(params, updates)
    assert int(result.state.skipped) == 0
    # Means of 96 terms are off by 1e-5, and four steps and their rates follow them.
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3), result.state.params, params)
    if optimizer is PLATEAU:
        assert float(result.state.opt_state[1].scale) == float(opt_state[1].scale) < 1.0
