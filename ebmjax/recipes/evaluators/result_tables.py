"""Numbers of a run and of its evaluation as text, beside what to compare them with."""

import math
import re
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np

from ebmjax.recipes.config.errors import flatten
from ebmjax.recipes.config.families import EXTRACTOR
from ebmjax.recipes.config.user_parts import is_users

LABELS = {
    "loss": "loss",
    "test_accuracy classification.accuracy": "test accuracy",
    "test_ece classification.ece": "test calibration error",
    "ood.sets.interp.log_density.auroc": "AUROC of log p(x), near images (means of two)",
    "ood.sets.natural_patches.log_density.auroc": "AUROC of log p(x), far images (photographs)",
    "ood.detector.name": "score that tells foreign images best, by known images",
    "ood.detector.lowest_auroc": "its AUROC on the worst of the known sets",
    "test_log_evidence": "test log evidence, nats",
    "test_trapezium_log_evidence": "test log evidence by the trapezium rule, nats",
    "evidence.ais.mean": "log evidence by annealed importance sampling, nats",
    "test_reconstruction_error": "test squared error a pixel",
    "density_tv density.density_tv": "total variation from the data's density",
    "density.density_kl": "KL(data || model), nats",
    "sample_tv density.sample_tv": "total variation of chains' ends from the data",
    "density.perfect_sampler.sample_tv": "that of as many points of the data",
    "sample_fid": "FID of samples ({extractor})",
    "start_fid": "FID of the chains' starts",
    "fid_minus_starts": "samples minus starts, 95 % interval",
    "generation.buffer.fid": "FID of the buffer ({extractor})",
    "generation.fresh.fid": "FID of fresh chains ({extractor})",
    "generation.fresh.starts.fid": "FID of their starts",
    "generation.fresh.minus_starts.difference": "fresh chains minus starts, 95 % interval",
    "gaussian_fid generation.gaussian.fid": "FID of Gaussians fitted to training images",
    "test_images_fid generation.test_images.fid": "FID of test images",
    "nats.nats": "log p(x) of test images or points in nats, between its ends",
    "nats.best.name": "best baseline on held-out training data",
    "nats.best.nats": "its nats",
    "nats.best.difference": "the model's nats minus this baseline's, in pairs, 95 % interval",
    "nats.baselines.base.nats": "nats of the base that the model tilts",
    "nats.baselines.base.difference": "the model's minus its base's, in pairs, 95 % interval",
    "nats.bits": "bits per dimension, between their ends",
    "nats.noisy.nats": "nats under the noise of training, between their ends",
    "nats.noisy.best.name": "best baseline of noisy data",
    "nats.noisy.best.nats": "its nats under this noise",
    "nats.noisy.best.difference": "the model's minus it under this noise, 95 % interval",
    "nats.temperature": "temperature of this density",
    "inpainting.psnr": "PSNR of free pixels by the mean of samples, dB",
    "inpainting.start_psnr": "by the mean of their starts",
    "inpainting.psnr_minus_starts": "the first minus the second",
    "inpainting.sample_psnr": "PSNR of one sample, dB",
    "inpainting.start_sample_psnr": "of one start",
    "inpainting.coverage": "true pixels inside the samples' interval",
    "inpainting.start_coverage": "inside that of their starts",
    "inpainting.expected_coverage": "expected of exact samples without ties",
    "inpainting.num_samples": "samples of an image",
    "generation.fresh.energy_gap": "energy of fresh chains less that of test images",
    "generation.fresh.rms_displacement": "RMS displacement of fresh chains",
    "chain_acceptance_prob": "acceptance of chains",
}
"""Numbers that a table shows: of a run's last row, or by their place in evaluation.json."""

OURS = re.compile(
    r"accuracy|acceptance_|beta|border_mass|buffer_|chain_|compile_|consecutive_|coordinate_"
    r"|cross_entropy|density_|diverge|effective_|energy_|evaluation_|extractor|fid_|gaussian_"
    r"|generator_|gradient_|implied_|is_normal|kl_terms|kid_|live_|log_|loss|mean_coordinate"
    r"|mean_log_likelihoods|negative_|noise_accuracy|num_|objective|outside|perturbed_"
    r"|positive_|posterior_|powers|prior_|reconstruction_|recover|run_|sample_"
    r"|score_|seed|skip|smoothing|squared_drift|start_|step|temperature|test_|transport_"
    r"|is_finished|revision|wall_|warnings"
)
"""Beginnings of the names that our own parts give the numbers of a row."""


def own_numbers(row: Iterable[str], config: Mapping[str, Any]) -> list[str]:
    """Returns the names in a row that the user's loss or evaluations gave, if there are any."""
    if not (config.get("evals.functions") or is_users(config.get("loss.name"))):
        return []
    return [name for name in row if "." not in name and not OURS.match(name)]


def results(numbers: Mapping[str, Any]) -> dict[str, str]:
    """Returns the main numbers of a run's last row or of an evaluation as text by label."""
    flat = flatten(dict(numbers))
    extractor = str(flat.get("extractor", flat.get("generation.extractor.name", "")))
    return {
        text.replace(EXTRACTOR, extractor.replace("_", " ")): as_text(flat, name)
        for names, text in LABELS.items()
        for name in names.split()
        if name in flat
    }


def as_text(numbers: Mapping[str, Any], name: str) -> str:
    """Returns text, or a number with its interval or error, and its images if samples differ."""
    if isinstance(numbers[name], str):
        return numbers[name]
    place = name.removesuffix("difference") if name.endswith("difference") else f"{name}_"
    ends = [numbers.get(f"{place}{end}") for end in ("low", "high")]
    if None not in ends:
        return with_interval(numbers[name], *ends)
    error = numbers.get(f"{name}_error", numbers.get(f"test_set_error.{name}"))
    num = numbers.get(f"{name}_num_images")
    usual = numbers.get("sample_fid_num_images", numbers.get("generation.num_images"))
    return with_error(numbers[name], error) + f" of {num} images" * (num != usual and bool(num))


def as_lines(texts: Mapping[str, str]) -> str:
    """Returns a line for each label and its text, in two columns."""
    width = max(map(len, texts), default=0)
    return "\n".join(f"  {label:{width}}  {text}" for label, text in texts.items())


BESIDE = {"start": "starts", "gaussian": "Gaussian", "test_images": "test images"}
"""Words for what stands beside the FID of samples, by the beginning of its number's name."""
FIDS = ("sample_fid", *(f"{name}_fid" for name in BESIDE))
"""Numbers of a panel of FIDs."""


def mean_of(value: Any) -> float:
    """Returns a number, or the mean of a list; NaN for None or []."""
    numbers = np.asarray(value, dtype=float)
    return float(np.mean(numbers)) if numbers.size else math.nan


def with_error(value: Any, error: Any) -> str:
    """Returns a number with its standard error, to two digits of the error, if it is known.

    Example:
      >>> with_error(39.214, 4.03), with_error(0.6, None)
      ('39.2 ± 4.0', '0.6')
    """
    mean, spread = mean_of(value), mean_of(error)
    if not (math.isfinite(mean) and math.isfinite(spread) and spread > 0):
        return f"{mean:.4g}"
    decimals = max(0, 1 - math.floor(math.log10(spread)))
    return f"{mean:.{decimals}f} ± {spread:.{decimals}f}"


def with_interval(difference: Any, low: Any, high: Any) -> str:
    """Returns a difference with the ends of its interval, such as "-14.2 (-17.1 to -11.3)".

    Example:
      >>> with_interval(-14.21, -17.1, -11.32)
      '-14.2 (-17.1 to -11.3)'
    """
    difference, low, high = map(mean_of, (difference, low, high))
    width = high - low
    if not (math.isfinite(width) and width > 0):
        return f"{difference:+.4g}"
    decimals = max(0, 1 - math.floor(math.log10(width / 4)))
    return f"{difference:+.{decimals}f} ({low:.{decimals}f} to {high:.{decimals}f})"


def fid_text(row: Mapping[str, Any]) -> str:
    """Returns "FID of samples 39 ± 4 (starts 24 ± 3, ...)" of a row that has the first."""
    known = [name for name in BESIDE if f"{name}_fid" in row]
    beside = ", ".join(f"{BESIDE[name]} {as_text(row, f'{name}_fid')}" for name in known)
    return f"FID of samples {as_text(row, 'sample_fid')}" + f" ({beside})" * bool(beside)


def advice(row: Mapping[str, Any]) -> list[str]:
    """Returns a line for a run whose samples are not better than where their chains began.

    The interval of the difference decides, not the difference.
    """
    low, high = (mean_of(row.get(f"fid_minus_starts_{end}")) for end in ("low", "high"))
    if not (math.isfinite(low) and high >= 0):
        return []
    return [
        f"By FID, the samples {'are worse than' if low > 0 else 'cannot be told from'} where their "
        f"chains began: {as_text(row, 'fid_minus_starts')}. What may help, one at a time: more "
        "images (--mode=eval), half the learning rate, a smaller step of the sampler, twice the "
        "steps of a chain. See the page faq of the documentation, section 'Samples look like their "
        "starts'."
    ]


JUDGED = {"sample_fid": min, "sample_is": max, "test_accuracy": max, "density_tv": min}
"""Numbers that judge a run, and which is best."""


def over_training(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns what the rows of metrics.jsonl after step 0 say; leaves out missing numbers.

    "first_<number>" and "best_<number>" are rows, for each of ``JUDGED``. "largest_loss" is that of
    either sign. "last" has means over the last 20 rows of training.
    """
    trained = [row for row in rows if row["step"] > 0]
    numbers = [{k: v for k, v in row.items() if isinstance(v, int | float)} for row in trained]
    found: dict[str, Any] = {}
    for name, best_of in JUDGED.items():
        if judged := [row for row in numbers if name in row]:
            found[f"first_{name}"] = judged[0]
            found[f"best_{name}"] = best_of(judged, key=itemgetter(name))
    if losses := [row for row in numbers if "loss" in row]:
        found["largest_loss"] = max(abs(row["loss"]) for row in losses)
        last = losses[-20:]
        shared = [name for name in last[0] if name != "step" and all(name in row for row in last)]
        found["last"] = {name: sum(row[name] for row in last) / len(last) for name in shared}
    return found
