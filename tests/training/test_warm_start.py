"""A run that begins with another one's parameters: what it takes, and what starts anew."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ebmjax.optim import average_parameters, averaged_parameters
from ebmjax.training import (
    CheckpointMismatchError,
    Checkpoints,
    init_state,
    warm_start,
)

# A rate that has fallen by the second step: where it stands shows in the first update.
OPTIMIZER = optax.adam(optax.piecewise_constant_schedule(1.0, {1: 0.125}))


class Shard(NamedTuple):
    """State that belongs to one part of the batch."""

    buffer: Any
    count: Any


def state_of(value, num_slots=4):
    """Everything in it ``value``."""
    params = {"weight": jnp.full(3, value), "bias": jnp.float32(value)}
    return init_state(params, OPTIMIZER, Shard(jnp.full((2, num_slots), value), jnp.full(2, value)))


def trained(value, num_slots=4):
    """After three steps."""
    state = state_of(value, num_slots)
    updates, opt_state = state.params, state.opt_state
    for _ in range(3):
        updates, opt_state = OPTIMIZER.update(state.params, opt_state, state.params)
    return state._replace(
        step=jnp.int32(3),
        params=optax.apply_updates(state.params, updates),
        opt_state=opt_state,
        skipped=jnp.int32(1),
    )


def save(folder, *states):
    with Checkpoints(folder) as checkpoints:
        for state in states:
            checkpoints.save(int(state.step), state, {})


def test_it_has_the_others_parameters_and_its_own_beginning(tmp_path):
    other = trained(7.0)
    save(tmp_path, other)
    found = warm_start(state_of(1.0), OPTIMIZER, tmp_path, ("buffer",))
    assert (found.step, found.taken, found.anew) == (3, ("buffer",), ())
    np.testing.assert_array_equal(found.state.params["weight"], other.params["weight"])
    np.testing.assert_array_equal(found.state.carry.buffer, np.full((2, 4), 7.0))
    np.testing.assert_array_equal(found.state.carry.count, np.ones(2))  # not asked for
    assert (int(found.state.step), int(found.state.skipped)) == (0, 0)
    update, _ = OPTIMIZER.update(found.state.params, found.state.opt_state)
    # Adam's first step is the rate, up to the rounding of its bias correction: about
    # eps / (1 - b2) = 1.2e-7 / 1e-3. The rate of a later step is an eighth.
    np.testing.assert_allclose(update["weight"], -np.ones(3), rtol=3e-4)


def test_what_does_not_fit_starts_anew_and_is_named(tmp_path):
    save(tmp_path, trained(7.0, num_slots=5))
    found = warm_start(state_of(1.0), OPTIMIZER, tmp_path, ("buffer", "count"))
    assert (found.taken, found.anew) == (("count",), ("buffer",))
    np.testing.assert_array_equal(found.state.carry.buffer, np.ones((2, 4)))


def test_another_network_is_refused(tmp_path):
    save(tmp_path, trained(7.0))
    state = init_state({"weight": jnp.zeros(4), "bias": jnp.float32(0)}, OPTIMIZER)
    with pytest.raises(
        CheckpointMismatchError,
        match=r"another network: \.params\['weight'\] is float32\(3,\) there and float32\(4,\)",
    ):
        warm_start(state, OPTIMIZER, tmp_path)


def test_a_folder_without_checkpoints_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint to start from"):
        warm_start(state_of(1.0), OPTIMIZER, tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


# Of orbax's reads that are still under way when it gives up, as in test_checkpoints.py.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_damaged_newest_checkpoint_is_passed_over_and_left(tmp_path):
    save(tmp_path, trained(7.0), trained(9.0)._replace(step=jnp.int32(5)))
    for file in (tmp_path / "5" / "state").rglob("*"):
        if file.is_file():
            file.write_bytes(b"")
    found = warm_start(state_of(1.0), OPTIMIZER, tmp_path)
    assert found.step == 3
    np.testing.assert_array_equal(found.state.params["bias"], trained(7.0).params["bias"])
    assert (tmp_path / "5").is_dir()


def test_averaged_parameters_begin_at_the_others(tmp_path):
    other = trained(7.0)
    save(tmp_path, other)
    optimizer = optax.chain(optax.adam(1.0), average_parameters(0.99))
    fresh = state_of(1.0)
    fresh = fresh._replace(opt_state=optimizer.init(fresh.params))
    found = warm_start(fresh, optimizer, tmp_path)
    average = averaged_parameters(found.state.opt_state)
    np.testing.assert_array_equal(average["weight"], other.params["weight"])
