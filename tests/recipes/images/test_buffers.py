"""Tests what monitoring shows of a replay buffer."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.data import ImageData, from_signed_unit
from ebmjax.recipes.images.buffers import spread_slots
from ebmjax.recipes.images.distances import Distances
from ebmjax.recipes.joint.monitor import JointMonitor
from ebmjax.samplers import ReplayBuffer
from experiments.configs import jem_digits

NUM_CLASSES = 10


def state_of(positions):
    buffer = ReplayBuffer(positions) if positions is not None else ()
    return SimpleNamespace(shards=SimpleNamespace(buffer=buffer))


@pytest.mark.parametrize(("num", "expected"), [(3, [0, 4, 9]), (10, range(10)), (99, range(10))])
def test_slots_are_spread_over_a_shard(num, expected):
    positions, slots = spread_slots(state_of(jnp.arange(10.0)[None]), num)
    assert list(slots) == list(expected)
    np.testing.assert_array_equal(positions, slots)


def test_slots_are_spread_over_all_shards():
    """Returns two shards of five slots, the second's positions from 10 on."""
    state = state_of(jnp.arange(5.0)[None] + jnp.array([[0.0], [10.0]]))
    positions, slots = spread_slots(state, 4)
    assert list(slots) == [0, 1, 3, 4]
    assert positions.tolist() == [0.0, 11.0, 3.0, 14.0]
    positions, slots = spread_slots(state, 99)
    assert sorted(positions.tolist()) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    np.testing.assert_array_equal(positions % 10, slots)


def test_no_buffer_shows_nothing():
    assert spread_slots(state_of(None), 3) is None


def test_the_grid_of_a_training_shows_every_class_of_a_buffer_in_blocks(tmp_path):
    """200 slots, each as bright as its class, in two shards."""
    config = jem_digits.get_config("smoke")
    levels = jnp.repeat(jnp.arange(NUM_CLASSES) / NUM_CLASSES, 10)
    state = state_of(jnp.broadcast_to(levels[:, None, None, None], (2, 100, 8, 8, 1)))
    state.params, state.shards.statistics = {}, {}
    network = SimpleNamespace(apply=lambda params, statistics, x: (x[..., 0, :2, 0], statistics))
    images = ImageData(np.zeros((4, 8, 8, 1), np.uint8), np.zeros(4, np.int32))
    judged = []

    class Judge(Distances):
        def along_training(self, ends, prefix="sample"):
            judged.append(np.ravel(ends[:, 0, 0, 0]))
            return {f"{prefix}_fid": float(len(ends))}

    class Monitor(JointMonitor):
        def _profiled(self, state):
            return {"profile.sgld.displacement": np.arange(3)}

    law = jax.tree_util.Partial(lambda key, label: jnp.full((8, 8, 1), label / NUM_CLASSES))
    monitor = Monitor(
        workdir=tmp_path,
        classifier=network,  # pyright: ignore
        test=images,
        distances=Judge(images, images, config),
        key=jax.random.key(0),
        plan=SimpleNamespace(law=law, num_classes=NUM_CLASSES),  # pyright: ignore
        densities_of=lambda model: None,  # pyright: ignore
        config=config,
    )
    row = monitor(state, 0)
    assert row["sample_fid"] == row["start_fid"] == config.eval.num_samples
    # Draws of the law, of the classes of the slots; judged once, for every monitored step.
    slots, draws = judged
    np.testing.assert_allclose(draws, slots, rtol=1e-6)
    assert monitor(state, 1)["start_fid"] == row["start_fid"]
    assert len(judged) == 3
    arrays = np.load(tmp_path / "monitor" / "000000.npz")
    np.testing.assert_array_equal(arrays["profile.sgld.displacement"], [0, 1, 2])
    shown = arrays["samples"]
    found, counts = np.unique(shown[:, 0, 0, 0], return_counts=True)
    np.testing.assert_array_equal(found, from_signed_unit(levels[::10]))
    np.testing.assert_array_equal(counts, config.eval.num_samples // NUM_CLASSES)
    assert row["buffer_log_density"] == pytest.approx(float(levels.mean()) + np.log(2), rel=1e-5)
