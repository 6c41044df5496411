"""Data in files give the bits that data in memory give, and their digests are compared."""

import threading

import jax
import numpy as np
import pytest
from training_problems import ListWriter, chains

from ebmjax import training
from ebmjax._stored import AT_ONCE, StoredRows
from ebmjax.training import CheckpointMismatchError

KEY = jax.random.key(5)


def plan(**changes):
    sizes = {"batch_size": 16, "num_shards": 8, "steps_per_dispatch": 5, "checkpoint_every": 10}
    return training.Plan(**({"total_steps": 23} | sizes | changes))


def stored(array, place):
    """``array`` in a file of its own, opened at each reading."""
    np.save(place / "rows.npy", array)
    read = lambda places: np.load(place / "rows.npy", mmap_mode="r")[places]  # noqa: E731
    return StoredRows(read, np.arange(len(array)), array.shape[1:], array.dtype)


def run(data=None, **options):
    """The final state's digest and all rows."""
    state, train_step, given = chains()
    writer = ListWriter()
    options = {"plan": plan()} | options
    data = given if data is None else data
    result = training.fit(KEY, state, train_step, data, writers=[writer], **options)
    return training.tree_digest(result.state), writer.rows


@pytest.fixture(scope="module")
def in_memory():
    return run()


def test_files_and_the_device_give_the_bits_of_memory(in_memory, tmp_path):
    assert run(stored(chains()[2], tmp_path)) == in_memory
    assert run(jax.device_put(chains()[2])) == in_memory


@pytest.mark.slow
def test_a_run_goes_on_from_another_placement_with_the_same_bits(in_memory, tmp_path):
    """Every sitting sees the data elsewhere; their digest in the checkpoint is the same."""
    for data, until in (None, 10), (stored(chains()[2], tmp_path), 23):
        checkpoints = training.Checkpoints(tmp_path / "checkpoints")
        found = run(data, plan=plan(total_steps=until), checkpoints=checkpoints)
    assert found[0] == in_memory[0]
    assert [step for step, _ in found[1]] == list(range(11, 24))
    assert found[1] == in_memory[1][10:]


def test_a_block_is_read_while_the_one_before_is_at_work(tmp_path):
    array, has_read = chains()[2], threading.Event()
    threads = []

    def read(places):
        threads.append(threading.current_thread())
        if len(threads) == 2:
            has_read.set()
        return array[places]

    def monitor(state, step):
        return {"was_read": has_read.wait(timeout=60)}  # before the second block is asked for

    data = StoredRows(read, np.arange(len(array)), array.shape[1:], array.dtype)
    _, rows = run(
        data,
        plan=plan(total_steps=10, monitor_every=5, monitor_at_start=False),
        monitor=monitor,
    )
    assert rows[4][1]["was_read"]
    assert threading.main_thread() not in threads


def test_mistakes_are_named(tmp_path):
    with pytest.raises(TypeError, match="stays on the disk"):
        np.asarray(stored(chains()[2], tmp_path))


def of_files(array, reads, size_of=lambda place: place):
    """Rows that have a file each; ``reads`` gets the places of every reading."""

    def read(places):
        reads.extend(places.tolist())
        return array[places]

    describe = lambda places: (f"{place}.png {size_of(place)}\n" for place in places)  # noqa: E731
    return StoredRows(read, np.arange(len(array)), array.shape[1:], array.dtype, describe)


def check_digests(ours, theirs):
    meta = {"data": training.digest_data(theirs)}
    training.check_same_data(meta, 3, training.digest_data(ours))


def test_a_file_for_each_row_is_known_by_its_name_and_size_and_some_rows_by_their_bytes():
    """Neither digest nor comparison reads all rows, and either notices what it looks at."""
    array, reads = np.arange(4000, dtype=np.uint8).reshape(2000, 2), []
    check_digests(of_files(array, reads), of_files(array, []))
    assert len(reads) == AT_ONCE
    check_digests(array, of_files(array, []))  # another placement
    check_digests(of_files(array, []), array)
    with pytest.raises(CheckpointMismatchError, match="other values"):
        check_digests(of_files(array, [], lambda place: place + (place == 1)), of_files(array, []))
    other = array.copy()
    other[-1] += 1
    for theirs in array, of_files(array, []):
        with pytest.raises(CheckpointMismatchError, match="other values"):
            check_digests(of_files(other, []), theirs)
    with pytest.raises(CheckpointMismatchError, match="was uint8"):
        check_digests(of_files(array[:1999], []), array)
