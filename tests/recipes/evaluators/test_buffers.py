"""Tests what monitoring shows of a replay buffer."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import evaluate
from ebmjax.data import ImageData, from_signed_unit
from ebmjax.learning import Chain
from ebmjax.recipes.evaluators.evaluations import Evaluations, make_evaluators
from ebmjax.recipes.evaluators.samples import draw_buffer
from ebmjax.recipes.models.energy.model import EnergyModel
from ebmjax.samplers import ReplayBuffer
from experiments.configs import jem_digits

NUM_CLASSES = 10


def state_of(positions):
    buffer = ReplayBuffer(positions) if positions is not None else ()
    return SimpleNamespace(skipped=0, carry=SimpleNamespace(buffer=buffer))


def shown(state, num, num_classes=1):
    """Returns the positions that are shown; a slot's draw is its class."""
    start_fn = jax.tree_util.Partial(lambda key, label: label)
    plan = SimpleNamespace(num_classes=num_classes, start_fn=start_fn)
    found = draw_buffer(jax.random.key(0), SimpleNamespace(plan=plan, state=state), num)
    assert found is None or found.starts.tolist() == found.labels.tolist()
    return found and found.ends


@pytest.mark.parametrize("memory", [None, {"velocity": jnp.zeros((1, 10))}])
@pytest.mark.parametrize(("num", "expected"), [(3, [0, 4, 9]), (10, range(10)), (99, range(10))])
def test_slots_are_spread_over_a_shard(num, expected, memory):
    """Takes positions alone, whatever the chains remember beside them."""
    rows = jnp.arange(10.0)[None]
    rows = rows if memory is None else Chain(rows, memory)
    assert list(shown(state_of(rows), num)) == list(expected)


def test_slots_are_spread_over_all_shards():
    """Returns two shards of five slots, the second's positions from 10 on."""
    state = state_of(jnp.arange(5.0)[None] + jnp.array([[0.0], [10.0]]))
    assert shown(state, 4).tolist() == [0.0, 11.0, 3.0, 14.0]
    assert sorted(shown(state, 99).tolist()) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]


def test_as_many_slots_of_each_class_are_taken_in_turn():
    """Two shards of twelve slots, three of each of four classes."""
    positions = jnp.arange(12.0)[None] + jnp.array([[0.0], [100.0]])
    found = shown(state_of(positions), 10, 4)
    assert (found % 100 // 3).tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert len(set(found.tolist())) == 10
    found = shown(state_of(positions), 99, 4)
    assert sorted(found.tolist()) == [*range(12), *range(100, 112)]


def test_no_buffer_shows_nothing():
    assert shown(state_of(None), 3) is None


@pytest.fixture
def given(monkeypatch):
    """Chains that are scored."""
    found = []

    def score(chains, test, distances):
        found.append(chains)
        return {"sample_fid": 1.0, "sample_fid_error": 0.25, "start_fid": 2.0}

    monkeypatch.setattr(evaluate, "along_training", score)
    return found


@pytest.fixture
def monitored(tmp_path):
    """Makes the monitor of 200 slots, each as bright as its class, in two shards; and its state."""

    def make(**changes):
        config = jem_digits.get_config("smoke")
        config.update_from_flattened_dict({"evals.samples.num_images": 20, **changes})
        levels = jnp.repeat(jnp.arange(NUM_CLASSES) / NUM_CLASSES, 10)
        state = state_of(jnp.broadcast_to(levels[:, None, None, None], (2, 100, 8, 8, 1)))
        state.params, state.carry.statistics = {}, {}
        state.carry.smoothing, state.carry.adaptation = jnp.ones(2), {}
        state.carry.step = jnp.zeros(2)
        network = SimpleNamespace(
            apply=lambda params, statistics, x: (x[..., 0, :2, 0], statistics)
        )
        images = ImageData(np.zeros((4, 8, 8, 1), np.uint8), np.zeros(4, np.int32))
        start_fn = jax.tree_util.Partial(
            lambda key, label: jnp.full((8, 8, 1), label / NUM_CLASSES)
        )

        model = EnergyModel(
            plan=SimpleNamespace(start_fn=start_fn, num_classes=NUM_CLASSES, log_base=None),  # pyright: ignore
            train=images,
            distances=None,
            config=config,
            network=network,  # pyright: ignore
            logits_fn=lambda params, statistics, x: x[..., 0, :2, 0],
        )
        evaluations = Evaluations(
            folder=tmp_path,
            key=jax.random.key(0),
            evaluators=make_evaluators(config),
            config=config,
            interval=1,
            models=(model.at, model.at),
            tests=(images, images),
        )
        return evaluations, state, levels

    return make


def test_the_picture_of_a_training_shows_every_class_of_a_buffer_beside_its_starts(
    monitored, given, tmp_path, figures
):
    monitor, state, levels = monitored()
    row = monitor.monitor(state, 0)
    # Draws of the law, of the classes of the slots, which come in turn.
    (chains,) = given
    assert chains.labels.tolist() == [*range(10)] * 2
    assert not chains.are_the_same
    np.testing.assert_allclose(chains.starts, chains.ends, rtol=1e-6)
    arrays = np.load(tmp_path / "monitor" / "000000.npz")
    shown = arrays["samples"][:, 0, 0, 0]
    np.testing.assert_array_equal(shown, np.tile(from_signed_unit(levels[::10]), 2))
    assert row["buffer_log_density"] == pytest.approx(float(levels.mean()) + np.log(2), rel=1e-5)
    titles = [axes.get_title() for axes in figures["samples_000000.png"].axes]
    expected = ["samples\nFID 1.00 ± 0.25", "where their chains started\nFID 2"]
    assert titles == [*expected, "nearest training images, by pixels"]


def test_without_samples_there_is_no_picture_and_no_score(monitored, given, tmp_path):
    monitor, state, _ = monitored(**{"evals.samples.every": "never"})
    row = monitor.monitor(state, 0)
    assert "test_accuracy" in row
    assert not any("fid" in name or "buffer" in name for name in row)
    assert not given
    assert "samples" not in np.load(tmp_path / "monitor" / "000000.npz")
    assert not (tmp_path / "plots").exists()
