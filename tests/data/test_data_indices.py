import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmjax.data import batch_indices, epoch_indices

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


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1),
    num_examples=st.integers(1, 40),
    data=st.data(),
)
def test_every_epoch_is_its_order_less_the_remainder_from_the_step_alone(seed, num_examples, data):
    """In any order of the steps, as after a resume."""
    batch_size = data.draw(st.integers(1, num_examples))
    num_batches = num_examples // batch_size
    steps = data.draw(st.permutations(range(3 * num_batches)))
    sizes = {"num_examples": num_examples, "batch_size": batch_size}
    epoch_indices.cache_clear()
    batches = {step: batch_indices(seed, step, **sizes) for step in steps}
    for epoch in range(3):
        first = epoch * num_batches
        seen = np.concatenate([batches[step] for step in range(first, first + num_batches)])
        order = epoch_indices(seed, epoch, num_examples)
        np.testing.assert_array_equal(seen, order[: num_batches * batch_size])
        np.testing.assert_array_equal(np.sort(order), np.arange(num_examples))


def test_cached_orders_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        batch_indices(0, 0, num_examples=4, batch_size=2)[0] = 1


@pytest.mark.parametrize(
    "bad", [{"seed": -1}, {"step": 1.0}, {"batch_size": 0}, {"batch_size": 11}]
)
def test_bad_arguments_are_named(bad):
    good = {"seed": 0, "step": 0, "num_examples": 10, "batch_size": 2}
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must be"):
        batch_indices(**(good | bad))
