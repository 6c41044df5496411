"""Says how good samples are, always beside the number to compare with."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

BESIDE = {"start": "starts", "gaussian": "Gaussian", "test_images": "test images"}
"""Words for what stands beside the FID of samples, by the beginning of its number's name."""
FIDS = ("sample_fid", *(f"{name}_fid" for name in BESIDE))
"""Numbers of a panel of FIDs."""
FEW = 500
"""Samples below which a FID that cannot tell them from their starts asks for more of them."""


def mean_of(value: Any) -> float:
    """Returns a number, or the mean over repeats or models; NaN if one has none."""
    return float(np.mean(np.asarray(value, dtype=float)))


def with_error(value: Any, error: Any) -> str:
    """Returns a number with its standard error, to two digits of the error, if it is known.

    For several repeats they are the means. The mean error is that of each, not of the mean.

    Example:
      >>> with_error(39.214, 4.03), with_error([0.5, 0.7], None)
      ('39.2 ± 4.0', '0.6')
    """
    mean = mean_of(value)
    spread = math.nan if error is None else mean_of(error)
    if not (math.isfinite(mean) and math.isfinite(spread) and spread > 0):
        return f"{mean:.4g}"
    decimals = max(0, 1 - math.floor(math.log10(spread)))
    return f"{mean:.{decimals}f} ± {spread:.{decimals}f}"


def of_images(num_images: Any, num_samples: Any) -> str:
    """Returns " of 40 images" where a score is stated for another number than that of samples.

    Example:
      >>> of_images(40, 1000), of_images(1000, 1000), of_images(None, 1000)
      (' of 40 images', '', '')
    """
    if num_images is None or num_samples is None or mean_of(num_images) == mean_of(num_samples):
        return ""
    return f" of {mean_of(num_images):.0f} images"


def with_interval(difference: Any, low: Any, high: Any) -> str:
    """Returns a difference with the ends of its interval, such as "-14.2 (-17.1 to -11.3)".

    Example:
      >>> with_interval(-14.21, -17.1, -11.32)
      '-14.2 (-17.1 to -11.3)'
    """
    middle, ends = mean_of(difference), _interval(difference, low, high)
    width = ends[1] - ends[0]
    if not (math.isfinite(width) and width > 0):
        return f"{middle:+.4g}"
    decimals = max(0, 1 - math.floor(math.log10(width / 4)))
    return f"{middle:+.{decimals}f} ({ends[0]:.{decimals}f} to {ends[1]:.{decimals}f})"


def _interval(difference: Any, low: Any, high: Any) -> tuple[float, float]:
    """Returns the interval of the mean over repeats, whose images are different ones."""
    reaches = (np.asarray(high, float) - np.asarray(low, float)) / 2
    reach = float(np.sqrt(np.sum(np.square(reaches))) / reaches.size)
    return mean_of(difference) - reach, mean_of(difference) + reach


def fid_text(row: Mapping[str, Any]) -> str:
    """Returns "FID of samples 39 ± 4 (starts 24 ± 3, ...)" of a row; "" if it has none."""
    if "sample_fid" not in row:
        return ""
    num = row.get("sample_fid_num_images")
    beside = [
        f"{words} {with_error(row[f'{name}_fid'], row.get(f'{name}_fid_error'))}"
        + of_images(row.get(f"{name}_fid_num_images"), num)
        for name, words in BESIDE.items()
        if f"{name}_fid" in row
    ]
    text = f"FID of samples {with_error(row['sample_fid'], row.get('sample_fid_error'))}"
    return text + f" ({', '.join(beside)})" * bool(beside)


def advice(row: Mapping[str, Any]) -> list[str]:
    """Returns a line for a run whose samples are not better than where their chains began.

    The interval of the difference decides, not the difference. Of fewer than ``FEW`` samples it
    may only say too little, and the line says where more are.
    """
    found = [row.get(f"fid_minus_starts{end}") for end in ("", "_low", "_high")]
    if any(one is None for one in found):
        return []
    low, high = _interval(*found)
    if not (math.isfinite(low) and math.isfinite(high)) or high < 0:
        return []
    than = "are worse than" if low > 0 else "cannot be told from"
    if low <= 0 and (num := mean_of(row.get("sample_fid_num_images", FEW))) < FEW:
        return [
            f"By FID of {num:.0f} images, the samples {than} where their chains began: "
            f"{with_interval(*found)}. --mode=eval generates more (config.eval.generation)."
        ]
    return [
        f"By FID, the samples {than} where their chains began: {with_interval(*found)}. What may "
        "help, one at a time: half the learning rate, a smaller step of the sampler, twice the "
        "steps of a chain. See the page faq of the documentation, section 'Samples look like their "
        "starts'."
    ]
