"""Traces of some steps of a run."""

import gzip
import json

import jax
import jax.numpy as jnp
import optax
import pytest

from ebmjax import training


def fitted(num_steps, size, profile):
    """Ends of a run of ``num_steps`` in blocks of ``size``."""

    def gradient_fn(key, params, carry, batch):
        del key
        loss, gradients = jax.value_and_grad(lambda p: jnp.mean((p - batch) ** 2))(params)
        return gradients, carry, {"loss": loss}

    optimizer = optax.sgd(0.1)
    state = training.init_state(jnp.zeros(()), optimizer)
    plan = training.Plan(total_steps=num_steps, batch_size=4, steps_per_dispatch=size)
    step = training.make_train_step(gradient_fn, optimizer)
    result = training.fit(jax.random.key(0), state, step, jnp.arange(8.0), plan, profile=profile)
    return result.state.params


def test_whole_blocks_after_the_first_are_traced_and_the_run_is_the_same(tmp_path):
    with training.Profile(tmp_path, 3) as profile:
        params = fitted(8, 2, profile)
    assert profile.num_traced == 4
    (trace,) = tmp_path.rglob("perfetto_trace.json.gz")
    with gzip.open(trace, "rt") as file:
        assert json.load(file)["traceEvents"]
    assert list(tmp_path.rglob("*.xplane.pb"))
    assert params == fitted(8, 2, None)


def test_a_run_of_one_block_has_nothing_to_trace(tmp_path):
    with training.Profile(tmp_path, 1) as profile:
        fitted(2, 2, profile)
    assert profile.num_traced == 0
    assert not list(tmp_path.iterdir())


def test_a_run_that_ends_early_closes_its_trace(tmp_path):
    with training.Profile(tmp_path, 100) as profile:
        fitted(4, 2, profile)
        assert not list(tmp_path.rglob("*.xplane.pb"))
    assert profile.num_traced == 2
    assert list(tmp_path.rglob("*.xplane.pb"))


@pytest.mark.slow
def test_two_traces_of_one_second_are_both_kept(tmp_path):
    for _ in range(2):
        with training.Profile(tmp_path, 1) as profile:
            fitted(4, 2, profile)
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 2


def test_no_steps_are_refused(tmp_path):
    with pytest.raises(
        ValueError, match="num_steps must be an integer of at least 1, got num_steps=0"
    ):
        training.Profile(tmp_path, 0)
