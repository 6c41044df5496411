"""Parameters averaged over training."""

import jax
import jax.numpy as jnp
import optax
import pytest

from ebmjax.optim import average_parameters, averaged_parameters
from ebmjax.training import init_state, make_train_step


def test_parameters_are_averaged_and_skipped_steps_do_not_count():
    optimizer = optax.chain(optax.sgd(1.0), average_parameters(0.75))
    losses = jnp.array([1.0, jnp.nan, 1.0])

    def gradient_fn(key, params, carry, batch):
        del key
        return jnp.float32(2.0), carry, {"loss": batch[0]}

    step = make_train_step(gradient_fn, optimizer, axis_name=None)
    state, averages = init_state(jnp.float32(10.0), optimizer), []
    for loss in losses:
        state, _ = step(jax.random.key(3), state, loss.reshape(1, 1))
        averages.append(float(averaged_parameters(state.opt_state)))
    assert averages == [9.5, 9.5, 0.75 * 9.5 + 0.25 * 6.0]
    assert float(state.params) == 6.0


def test_the_average_of_bfloat16_parameters_does_not_stall():
    """From 1 towards 2: steps of 0.001 and below, a fraction of bfloat16's spacing there."""
    optimizer = average_parameters(0.999)
    old, new = jnp.ones((), jnp.bfloat16), jnp.full((), 2.0, jnp.bfloat16)
    state, zero = optimizer.init(old), jnp.zeros((), jnp.bfloat16)
    update = jax.jit(optimizer.update)
    for _ in range(1000):
        _, state = update(zero, state, new)
    # A thousand roundings of 2^-24 of two.
    assert float(averaged_parameters(state)) == pytest.approx(2 - 0.999**1000, abs=1000 * 2**-23)


def test_the_average_is_of_the_parameters_as_they_are_after_the_step():
    """A step below half of bfloat16's spacing leaves the parameters, hence their average, alone."""
    optimizer = average_parameters(0.5)
    params = jnp.ones((), jnp.bfloat16)
    _, state = optimizer.update(jnp.float32(2**-10), optimizer.init(params), params)
    assert float(averaged_parameters(state)) == 1.0
