"""Columns of a study's table for the scores of samples, with all that stands beside them."""

Columns = dict[str, tuple[str, float, int]]

WORDS = {"buffer": "buffer", "fresh": "fresh chains", "short": "chains as in training"}
"""Sets of samples by their names in evaluation.json."""


def fid_columns(*sets: str, decimals: int = 1) -> Columns:
    """Returns columns of FID for sets of samples, of test images and of Gaussians.

    Each set has its standard error over images, its starts, and the difference with the upper end
    of its 95 % interval: below 0 the chains improved on their starts.

    Args:
      sets: names in ``WORDS``.
      decimals: of the numbers.
    """
    found: Columns = {}
    for name in sets:
        place, words = f"generation.{name}", WORDS[name]
        numbers = {
            f"FID ({{extractor}}), {words}": "fid",
            f"error of {words}": "fid_error",
            f"starts of {words}": "starts.fid",
            f"{words} minus starts": "minus_starts.difference",
            f"{words} minus starts, at most": "minus_starts.high",
        }
        found |= {title: (f"{place}.{number}", 1.0, decimals) for title, number in numbers.items()}
    beside = {"class Gaussians": "gaussian", "test images": "test_images"}
    return found | {
        f"FID, {words}": (f"generation.{place}.fid", 1.0, decimals)
        for words, place in beside.items()
    }
