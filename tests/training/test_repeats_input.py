"""States of repeats: what is stacked, selected and refused."""

import jax
import jax.numpy as jnp
import optax
import pytest
from repeated_problem import SEEDS, initial, keys, make_plan
from training_problems import chains, chains_data

from ebmjax.training import fit, init_state, select_repeat, stack_states, tree_digest


def test_a_state_is_what_was_stacked():
    states = [initial(seed) for seed in SEEDS]
    stacked = stack_states(states)
    assert stacked.step.shape == ()
    assert stacked.carry.shape == (8, 3, 4, 2)
    assert {leaf.shape[0] for leaf in jax.tree.leaves((stacked.params, stacked.opt_state))} == {3}
    for index, state in enumerate(states):
        assert tree_digest(select_repeat(stacked, index)) == tree_digest(state)


def test_typed_keys_may_be_part_of_a_state():
    states = [init_state(0.0, optax.sgd(0.1), keys((seed, 0))) for seed in SEEDS]
    stacked = stack_states(states)
    assert stacked.carry.shape == (2, 3)
    assert tree_digest(select_repeat(stacked, 2)) == tree_digest(states[2])


def test_no_state_is_no_repeat():
    with pytest.raises(ValueError, match="states must hold at least one"):
        stack_states([])


def test_repeats_start_together():
    with pytest.raises(ValueError, match=r"same number of steps, got \[0, 4\]"):
        stack_states([initial(0), initial(1)._replace(step=jnp.int32(4))])


@pytest.mark.parametrize("index", [-1, 3])
def test_a_repeat_that_is_not_there(index):
    with pytest.raises(ValueError, match=f"index must lie between 0 and 2, got index={index}"):
        select_repeat(stack_states([initial(0)] * 3), index)


def test_a_single_run_has_no_repeats():
    with pytest.raises(ValueError, match="single run"):
        select_repeat(initial(0), 0)


@pytest.mark.parametrize(
    ("num_keys", "num_states", "data_seed"),
    [
        (2, 3, SEEDS),
        (None, 3, SEEDS),
        (3, 2, SEEDS),
        (3, None, SEEDS),
        (3, 3, (0, 1)),
        (3, 3, 0),
        (None, None, (0,)),
        (1, None, 0),
    ],
)
def test_keys_state_and_plan_must_agree(num_keys, num_states, data_seed):
    key = jax.random.key(0) if num_keys is None else keys(range(num_keys))
    state = initial(0) if num_states is None else stack_states([initial(0)] * num_states)
    with pytest.raises(ValueError, match=r"key, state and plan\.data_seed") as error:
        fit(key, state, chains()[1], chains_data(), make_plan(data_seed))
    assert f"key.shape={key.shape}" in str(error.value)
    assert f"plan.data_seed={data_seed}" in str(error.value)


@pytest.mark.parametrize("data_seed", [(), (0, -1), (0, 1.5), (True,)])
def test_data_seeds_are_checked_one_by_one(data_seed):
    with pytest.raises(ValueError, match="data_seed must"):
        make_plan(data_seed)
