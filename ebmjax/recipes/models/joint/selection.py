"""Selects images by the model's confidence, as SADA-JEM's code does before judging them."""

import math

import numpy as np

SHARES = {"fid": 0.9, "is": 0.1}
"""Shares of every predicted class, for the Frechet distance and the inception score."""


def most_confident(logits: np.ndarray, share: float) -> np.ndarray:
    """Returns indices of the ``share`` with the largest p(y|x), for each predicted class.

    The share is rounded up, so that every predicted class stays.

    Args:
      logits: (N, classes), from the model that generated the images.
      share: in (0, 1].

    Returns:
      (n,), increasing.
    """
    shifted = logits - logits.max(axis=1, keepdims=True)
    confidence = 1 / np.exp(shifted).sum(axis=1)  # the softmax of the largest
    predicted = logits.argmax(axis=1)
    kept = []
    for label in np.unique(predicted):
        of_class = np.flatnonzero(predicted == label)
        order = np.argsort(-confidence[of_class], kind="stable")
        # Avoids a product's rounding: 0.1 x 30 is a little more than 3.
        kept.append(of_class[order[: math.ceil(round(share * len(of_class), 9))]])
    return np.sort(np.concatenate(kept))
