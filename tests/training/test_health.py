"""A run's health, judged by its own history, and which checkpoints it makes ones to go back to."""

import dataclasses
import json
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_problems import NUM_EXAMPLES, chains, regression

from ebmjax._shown import SEE_FAQ
from ebmjax.training import Checkpoints, Plan, fit
from ebmjax.training._health import LEAST, LIMIT, NUM_RECENT, Health

NOISE = 0.2


def gaps(num, seed=0, scale=NOISE):
    return np.random.default_rng(seed).normal(-0.2, scale, num)


def judged(values, total_steps=None, name="energy_gap"):
    """The steps after which a run with these numbers is sick."""
    health, found = Health(total_steps or len(values)), []
    for step, value in enumerate(values, 1):
        health(step, {"loss": 7.0, name: value})
        if not health.is_healthy:
            found.append(step)
    return found, health


def test_noise_is_healthy_and_a_gap_that_leaves_its_band_is_sick(caplog):
    """Letters had a gap near -0.2 that grew to 5 within 50 steps of 1,000."""
    values = gaps(1000)
    assert judged(values)[0] == []
    values[600:] += np.minimum(0.1 * np.arange(400), 8.0)
    sick, _ = judged(values)
    # Beyond one nat after 10 steps, 5 medians of 5 steps each later at most.
    assert 608 <= sick[0] <= 620
    # An interval later at the latest; the numbers of entries double from there to 80.
    assert len(caplog.records) == 6
    assert "energy_gap is" in caplog.text
    assert "the run may be diverging" in caplog.text
    assert caplog.messages[-1].endswith(SEE_FAQ)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_band_is_that_of_the_run_s_own_noise(sign):
    values = gaps(200, scale=10.0)
    # For a Gaussian 3.5 deviations, whose error from 100 numbers is a sixth of one (5 times 0.117
    # for the deviation by the median absolute one, Rousseeuw and Croux 1993): 3.5 -+ 2.05.
    for distance, is_sick in ((1.4, False), (5.6, True)):
        health = Health(200)
        for step, value in enumerate(values[:100], 1):
            health(step, {"energy_gap": value})
        health(101, {"energy_gap": -0.2 + sign * distance * 10.0})
        assert health.is_healthy != is_sick
    described = health.describe()
    history = np.array(described["history"][:-1])
    spread = np.median(np.abs(history - np.median(history)))
    assert described["width"] == pytest.approx(LIMIT * spread, rel=0.1)


def test_a_lasting_change_counts_as_healthy_once_half_of_the_run_is_beyond_it():
    values = np.concatenate([gaps(40), gaps(160) + 20.0])
    sick, _ = judged(values)
    assert sick == list(range(41, sick[-1] + 1))
    assert sick[-1] == 79


def test_one_step_alone_and_a_large_loss_are_no_sickness(caplog):
    values = gaps(2000)
    values[1000] = 1e6
    assert judged(values)[0] == []
    losses = np.exp(-np.arange(1000) / 100) * 300 + gaps(1000)
    assert judged(losses, name="other")[0] == []  # judged by the loss, which is constant
    health = Health(1000)
    for step, loss in enumerate(losses, 1):
        health(step, {"loss": loss})
        assert health.is_healthy
    assert health.describe()["name"] == "loss"
    assert not caplog.records


def test_numbers_that_are_not_finite_are_sick():
    values = gaps(1000)
    values[500:] = np.nan
    sick, health = judged(values)
    assert sick[0] == 503  # most of five steps
    assert sick[-1] == 1000
    json.loads(json.dumps(health.describe(), allow_nan=False))


def test_of_several_repeats_the_median_counts():
    health = Health(100)
    for step, value in enumerate(gaps(40), 1):
        health(step, {"energy_gap": [value, value + 0.1, 100.0 * (step > 20)]})
    assert health.is_healthy


def test_a_later_sitting_judges_as_one_that_went_on():
    values = gaps(3000) + np.linspace(0, 4, 3000)
    for stop in (7, 1000, 1504):
        whole, health = Health(3000), Health(3000)
        for step, value in enumerate(values, 1):
            whole(step, {"energy_gap": value})
            health(step, {"energy_gap": value})
            if step == stop:
                health = Health(3000, json.loads(json.dumps(health.describe())))
        assert health.describe() == whole.describe()
    assert len(whole.describe()["recent"]) == 3000 // 200 < NUM_RECENT
    assert LEAST == 1.0


def saved(folder):
    with Checkpoints(folder) as checkpoints:
        return checkpoints.list_steps(), sorted(checkpoints._manager.all_steps())


PLAN = Plan(total_steps=60, batch_size=16, num_shards=8, steps_per_dispatch=5, checkpoint_every=10)


@pytest.mark.slow
def test_an_interruption_s_checkpoint_neither_counts_nor_stays(tmp_path):
    state, train_step, data = chains()

    def stop(state, step):
        if step in (25, 35):
            os.kill(os.getpid(), signal.SIGTERM)
        return {}

    plan = dataclasses.replace(PLAN, monitor_every=5)
    for expected in (([10, 20], [10, 20, 25]), ([10, 20, 30], [10, 20, 30, 35])):
        checkpoints = Checkpoints(tmp_path)
        fit(jax.random.key(0), state, train_step, data, plan, checkpoints=checkpoints, monitor=stop)
        assert saved(tmp_path) == expected
    fit(jax.random.key(0), state, train_step, data, PLAN, checkpoints=Checkpoints(tmp_path))
    assert saved(tmp_path) == ([40, 50, 60], [40, 50, 60])


def test_a_sick_checkpoint_neither_counts_nor_stays(tmp_path):
    """The loss is near 1, and 100 larger from step 25 to 44."""

    def gradient_fn(key, params, carry, batch):
        (count,) = carry
        loss = 1.0 + 0.1 * jax.random.normal(key) + 100.0 * ((count >= 25) & (count < 45))
        return jax.tree.map(jnp.zeros_like, params), (count + 1,), {"loss": loss}

    state, train_step, data = regression(gradient_fn=gradient_fn)
    state = state._replace(carry=(jnp.zeros(1, jnp.int32),))
    assert len(data["y"]) == NUM_EXAMPLES
    plan = dataclasses.replace(PLAN, num_shards=1)
    seen = []
    with Checkpoints(tmp_path) as checkpoints:
        save = checkpoints.save
        checkpoints.save = lambda step, *rest, **how: (  # pyright: ignore
            seen.append((step, how["is_passing"])),
            save(step, *rest, **how),
        )
        fit(jax.random.key(0), state, train_step, data, plan, checkpoints=checkpoints)
    assert seen == [(10, False), (20, False), (30, True), (40, True), (50, False), (60, False)]
    assert saved(tmp_path) == ([20, 50, 60], [20, 50, 60])
    with Checkpoints(tmp_path) as checkpoints:
        step, meta = checkpoints.newest_before(45)
    assert step == 20
    assert meta["health"]["is_healthy"]
    assert meta["health"]["name"] == "loss"
