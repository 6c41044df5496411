import numpy as np
import pytest
from scipy import stats

from ebmjax.data import batch_indices, block_indices, epoch_indices

MASK = (1 << 64) - 1


def philox_stream(seed, epoch, count):
    """Philox4x64-10 written from Salmon et al. 2011, in plain Python integers."""
    stream = []
    for block in range(1, count // 4 + 2):  # NumPy advances the counter before its first block
        c0, c1, c2, c3 = block, 0, 0, 0
        k0, k1 = seed, epoch
        for _ in range(10):
            first, second = 0xD2E7470EE14C6C93 * c0, 0xCA5A826395121157 * c2
            c0, c1, c2, c3 = (
                (second >> 64) ^ c1 ^ k0,
                second & MASK,
                (first >> 64) ^ c3 ^ k1,
                first & MASK,
            )
            k0, k1 = (k0 + 0x9E3779B97F4A7C15) & MASK, (k1 + 0xBB67AE8584CAA73B) & MASK
        stream += [c0, c1, c2, c3]
    return stream[:count]


@pytest.mark.parametrize(("seed", "epoch", "size"), [(0, 0, 10), (7, 3, 23), (2**63, 12345, 101)])
def test_order_is_the_sorted_philox_stream(seed, epoch, size):
    stream = philox_stream(seed, epoch, size)
    expected = sorted(range(size), key=stream.__getitem__)
    order = epoch_indices(seed, epoch, size)
    assert order.dtype == np.int32
    assert order.tolist() == expected


def test_every_epoch_is_a_permutation_less_the_remainder():
    sizes = {"num_examples": 11, "batch_size": 3}
    for epoch in range(4):
        steps = range(3 * epoch, 3 * epoch + 3)
        seen = np.concatenate([batch_indices(5, step, **sizes) for step in steps])
        assert seen.tolist() == epoch_indices(5, epoch, 11)[:9].tolist()
        assert len(set(seen.tolist())) == 9
        assert sorted(epoch_indices(5, epoch, 11).tolist()) == list(range(11))


def test_the_step_alone_decides():
    sizes = {"num_examples": 50, "batch_size": 8}
    forward = [batch_indices(1, step, **sizes).tolist() for step in range(40)]
    epoch_indices.cache_clear()
    backward = [batch_indices(1, step, **sizes).tolist() for step in reversed(range(40))]
    assert forward == backward[::-1]


@pytest.mark.parametrize("first_step", [0, 5, 17])
def test_a_block_is_its_steps_across_epochs(first_step):
    sizes = {"num_examples": 20, "batch_size": 6}
    block = block_indices(3, first_step, 10, **sizes)
    steps = range(first_step, first_step + 10)
    assert block.shape == (10, 6)
    assert block.dtype == np.int32
    assert block.tolist() == [batch_indices(3, s, **sizes).tolist() for s in steps]


def test_seeds_and_epochs_give_different_orders():
    orders = {tuple(epoch_indices(seed, epoch, 30)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def test_every_example_comes_first_equally_often():
    # Pearson's statistic over 3000 epochs; beyond its one-in-a-million quantile is a defect.
    counts = np.bincount([epoch_indices(0, epoch, 6)[0] for epoch in range(3000)], minlength=6)
    assert stats.chisquare(counts).statistic < stats.chi2.isf(1e-6, df=5)


def test_cached_orders_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        batch_indices(0, 0, num_examples=4, batch_size=2)[0] = 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed must be an integer of at least 0"),
        ({"step": -1}, "step must be an integer of at least 0"),
        ({"step": 1.0}, "step must be an integer"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1"),
        ({"batch_size": 11}, "batch_size must be at most .*batch_size=11 with num_examples=10"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    good = {"seed": 0, "step": 0, "num_examples": 10, "batch_size": 2}
    with pytest.raises(ValueError, match=message):
        batch_indices(**(good | arguments))


def test_an_empty_block_is_refused():
    with pytest.raises(ValueError, match="num_steps must be an integer of at least 1"):
        block_indices(0, 0, 0, num_examples=4, batch_size=2)
