"""Examples of each step's batch, from the step alone, so resuming is exact."""

from functools import lru_cache

import numpy as np

from ebmjax._checks import check_at_least


@lru_cache(maxsize=32)
def epoch_indices(seed: int, epoch: int, num_examples: int) -> np.ndarray:
    """Returns the order in which an epoch visits the examples, int32 (num_examples,).

    It sorts the raw 64-bit stream of Philox keyed by (seed, epoch). NumPy guarantees that stream
    (but not ``Generator.permutation``), so a run resumed under another NumPy sees the same batches.
    The last few orders are cached; the arrays are read-only.

    Args:
      seed: at least 0.
      epoch: at least 0.
      num_examples: at least 1.

    Source: Salmon et al. 2011 (Philox).
    """
    check_at_least("seed", seed, 0)
    check_at_least("epoch", epoch, 0)
    check_at_least("num_examples", num_examples, 1)
    stream = np.random.Philox(key=np.array([seed, epoch], np.uint64))
    order = np.argsort(stream.random_raw(num_examples), kind="stable").astype(np.int32)
    order.setflags(write=False)
    return order


def batch_indices(seed: int, step: int, *, num_examples: int, batch_size: int) -> np.ndarray:
    """Returns the examples of one step's batch, int32 (batch_size,), from (seed, step) alone.

    An epoch is ``num_examples // batch_size`` steps; remaining examples, different each time, are
    dropped. Give independent streams different seeds.

    Args:
      seed: at least 0; chooses the order of every epoch.
      step: at least 0, counted from the start of training.
      num_examples: size of the data set.
      batch_size: between 1 and ``num_examples``.
    """
    check_at_least("step", step, 0)
    check_at_least("batch_size", batch_size, 1)
    if batch_size > num_examples:
        raise ValueError(
            f"batch_size must be at most the number of examples, got {batch_size=} with "
            f"{num_examples=}. Lower batch_size or load more examples."
        )
    epoch, batch = divmod(step, num_examples // batch_size)
    first = batch * batch_size
    return epoch_indices(seed, epoch, num_examples)[first : first + batch_size]
