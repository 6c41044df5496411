"""Images selected by the model's own confidence, as SADA-JEM's code does before it judges them."""

import math

import numpy as np

SHARES = {"fid": 0.9, "is": 0.1}
"""Of every predicted class, for the Frechet distance and for the inception score."""


def most_confident(logits: np.ndarray, share: float) -> np.ndarray:
    """Indices of the ``share`` of images, of each class that is predicted, of the largest p(y|x).

    Rounded up, so that every class that is predicted at all stays.

    Args:
      logits: (N, classes), of the model that generated the images.
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
        # Without the rounding of a product: 0.1 x 30 is a little more than 3.
        kept.append(of_class[order[: math.ceil(round(share * len(of_class), 9))]])
    return np.sort(np.concatenate(kept))
