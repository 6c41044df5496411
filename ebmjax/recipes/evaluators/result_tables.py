"""Numbers of a run and of its evaluation as text, beside what to compare them with."""

import math
import re
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np

from ebmjax._user_function import is_function_name
from ebmjax.recipes.config.errors import flatten
from ebmjax.recipes.config.families import EXTRACTOR

IN_TABLE = {
    "loss": "loss",
    "test_accuracy": "test accuracy",
    "test_ece": "test calibration error",
    "test_log_evidence": "test log evidence, nats",
    "test_trapezium_log_evidence": "test log evidence by the trapezium rule, nats",
    "test_reconstruction_error": "test squared error a pixel",
    "density_tv": "total variation from the data's density",
    "sample_tv": "total variation of chains' ends from the data",
    "sample_fid": "FID of samples ({extractor})",
    "start_fid": "FID of the chains' starts",
    "fid_minus_starts": "samples minus starts, 95 % interval",
    "gaussian_fid": "FID of Gaussians fitted to training images",
    "test_images_fid": "FID of test images",
    "chain_acceptance_prob": "acceptance of chains",
}
"""Numbers that the table at the end of a run shows. A family has at most eleven of them."""


IN_EVALUATION = {
    "classification.accuracy": "test accuracy",
    "classification.ece": "test calibration error",
    "ood.sets.interp.log_density.auroc": "AUROC of log p(x), near images (means of two)",
    "ood.sets.natural_patches.log_density.auroc": "AUROC of log p(x), far images (photographs)",
    "test_reconstruction_error": "test squared error a pixel",
    "density.density_tv": "total variation from the data's density",
    "density.density_kl": "KL(data || model), nats",
    "density.sample_tv": "total variation of chains' ends from the data",
    "density.perfect_sampler.sample_tv": "that of as many points of the data",
    "generation.buffer.fid": "FID of the buffer ({extractor})",
    "generation.fresh.fid": "FID of fresh chains ({extractor})",
    "generation.fresh.starts.fid": "FID of their starts",
    "generation.fresh.minus_starts.difference": "fresh chains minus starts, 95 % interval",
    "generation.gaussian.fid": "FID of Gaussians fitted to training images",
    "generation.test_images.fid": "FID of test images",
    "evidence.ais.mean": "log evidence by annealed importance sampling, nats",
    "energies.gap": "energy of fresh chains less that of test images",
    "generation.fresh.rms_displacement": "RMS displacement of fresh chains",
}
"""Numbers that the table of an evaluation shows, by their place in evaluation.json. A family has
at most eleven of them."""


OURS = re.compile(
    r"accuracy|acceptance_|beta|border_mass|buffer_|chain_|compile_|consecutive_|coordinate_"
    r"|cross_entropy|density_|diverge|effective_|energy_|evaluation_|extractor|fid_|gaussian_"
    r"|generator_|gradient_|implied_|is_normal|kl_terms|kid_|live_|log_|loss|mean_coordinate"
    r"|mean_log_likelihoods|negative_|noise_accuracy|num_|objective|outside|perturbed_|pilot_"
    r"|positive_|posterior_|powers|prior_|quadrature_|reconstruction_|recovery|run_|sample_"
    r"|score_|seed|skip|smoothing|squared_drift|start_|step|temperature|test_|transport_"
    r"|wall_"
)
"""Beginnings of the names that our own parts give the numbers of a row."""


def own_numbers(row: Iterable[str], config: Mapping[str, Any]) -> list[str]:
    """Returns the names in a row that the user's loss or evaluations gave, if there are any."""
    entries = [config.get("loss", {}).get("name"), config.get("evals", {}).get("functions")]
    flat = [one for e in entries for one in (e if isinstance(e, list | tuple) else [e])]
    if not any(isinstance(one, str) and is_function_name(one) for one in flat):
        return []
    return [name for name in row if "." not in name and not OURS.match(name)]


WHY_NONE = {"density_tv": "none (mass beyond the grid, or a density that is not finite)"}
"""Reasons for which a number may be NaN."""


def why_none(name: str, value: Any) -> str:
    """Returns why a number is NaN, if its reason is known; "" otherwise."""
    return WHY_NONE.get(name, "") if math.isnan(mean_of(value)) else ""


def results(row: Mapping[str, Any]) -> dict[str, str]:
    """Returns the results of a run as text by label, from its last numbers.

    "extractor" among them names the features of FID.
    """
    found = {}
    for name, text in IN_TABLE.items():
        if name == "fid_minus_starts" and name in row:
            found[text] = with_interval(*(row[name + end] for end in ("", "_low", "_high")))
        elif name in row:
            nums = row.get(f"{name}_num_images"), row.get("sample_fid_num_images")
            number = with_error(row[name], row.get(f"{name}_error")) + of_images(*nums)
            found[text] = why_none(name, row[name]) or number
    return _name_extractor(found, row.get("extractor", ""))


def evaluation_results(report: Mapping[str, Any]) -> dict[str, str]:
    """Returns the main numbers of an evaluation as text by label; ``report`` may be flat."""
    found, flat = {}, flatten(dict(report))
    for name, text in IN_EVALUATION.items():
        value, place = flat.get(name), name.rpartition(".")[0]
        if value is not None and name.endswith("difference"):
            found[text] = with_interval(value, flat[f"{place}.low"], flat[f"{place}.high"])
        elif value is not None:
            error = flat.get(f"{name}_error", flat.get(f"test_set_error.{name}"))
            nums = flat.get(f"{name}_num_images"), flat.get("generation.num_images")
            found[text] = with_error(value, error) + of_images(*nums)
    return _name_extractor(found, flat.get("generation.extractor.name", ""))


def as_lines(texts: Mapping[str, str]) -> str:
    """Returns a line for each label and its text, in two columns."""
    width = max(map(len, texts), default=0)
    return "\n".join(f"  {label:{width}}  {text}" for label, text in texts.items())


def _name_extractor(texts: Mapping[str, str], extractor: str) -> dict[str, str]:
    words = extractor.replace("_", " ")
    return {label.replace(EXTRACTOR, words): text for label, text in texts.items()}


BESIDE = {"start": "starts", "gaussian": "Gaussian", "test_images": "test images"}
"""Words for what stands beside the FID of samples, by the beginning of its number's name."""
FIDS = ("sample_fid", *(f"{name}_fid" for name in BESIDE))
"""Numbers of a panel of FIDs."""
FEW = 500
"""Samples below which a FID that cannot tell them from their starts asks for more of them."""


def mean_of(value: Any) -> float:
    """Returns a number, or the mean over models; NaN if one has none."""
    return float(np.mean(np.asarray(value, dtype=float)))


def with_error(value: Any, error: Any) -> str:
    """Returns a number with its standard error, to two digits of the error, if it is known.

    Example:
      >>> with_error(39.214, 4.03), with_error(0.6, None)
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
    difference, low, high = map(mean_of, (difference, low, high))
    width = high - low
    if not (math.isfinite(width) and width > 0):
        return f"{difference:+.4g}"
    decimals = max(0, 1 - math.floor(math.log10(width / 4)))
    return f"{difference:+.{decimals}f} ({low:.{decimals}f} to {high:.{decimals}f})"


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
    found: list[Any] = [row.get(f"fid_minus_starts{end}") for end in ("", "_low", "_high")]
    if any(one is None for one in found):
        return []
    low, high = found[1:]
    if not (math.isfinite(low) and math.isfinite(high)) or high < 0:
        return []
    than = "are worse than" if low > 0 else "cannot be told from"
    if low <= 0 and (num := mean_of(row.get("sample_fid_num_images", FEW))) < FEW:
        return [
            f"By FID of {num:.0f} images, the samples {than} where their chains began: "
            f"{with_interval(*found)}. --mode=eval generates more (config.evals.generation)."
        ]
    return [
        f"By FID, the samples {than} where their chains began: {with_interval(*found)}. What may "
        "help, one at a time: half the learning rate, a smaller step of the sampler, twice the "
        "steps of a chain. See the page faq of the documentation, section 'Samples look like their "
        "starts'."
    ]


NUM_LAST = 20
"""Last rows of training, whose means are reported."""
BEST_FID = (
    "sample_fid_error",
    "start_fid",
    "start_fid_error",
    "fid_minus_starts",
    "fid_minus_starts_low",
    "fid_minus_starts_high",
    "gaussian_fid",
    "test_images_fid",
)
"""Numbers that are reported beside the best FID, of the same step."""
JUDGED = {
    "sample_fid": (min, ""),
    "test_accuracy": (max, "accuracy_"),
    "density_tv": (min, "density_"),
}
"""Numbers that judge a run: which is best, and a prefix for the names of their steps."""


def over_training(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Returns numbers from the rows of metrics.jsonl after step 0; leaves out missing ones.

    They are the first and the best of ``JUDGED`` with their steps, ``BEST_FID``, the highest
    "sample_is" and "start_is" beside it, the lowest acceptance of the chains, and the largest loss
    of either sign. "last" has means over the last ``NUM_LAST`` rows of training.
    """
    trained = [row for row in rows if row["step"] > 0]

    def rows_with(name: str) -> list[dict[str, Any]]:
        return [row for row in trained if isinstance(row.get(name), int | float)]

    found: dict[str, Any] = {}
    for name, (best_of, prefix) in JUDGED.items():
        if judged := rows_with(name):
            first, best = judged[0], best_of(judged, key=itemgetter(name))
            found |= {f"first_{name}": first[name], f"first_{prefix}step": first["step"]}
            found |= {f"best_{name}": best[name], f"best_{prefix}step": best["step"]}
            if name == "sample_fid":
                found |= {beside: best[beside] for beside in BEST_FID if beside in best}
    if scored := rows_with("sample_is"):
        best = max(scored, key=itemgetter("sample_is"))
        found |= {"best_sample_is": best["sample_is"]}
        found |= {"start_is": best["start_is"]} if "start_is" in best else {}
    if moved := rows_with("chain_acceptance_prob"):
        found["lowest_acceptance"] = min(row["chain_acceptance_prob"] for row in moved)
    if losses := rows_with("loss"):
        found["largest_loss"] = max(abs(row["loss"]) for row in losses)
        last = losses[-NUM_LAST:]
        names = [name for name, value in last[0].items() if isinstance(value, int | float)]
        shared = [one for one in names if all(row.get(one) is not None for row in last)]
        means = {name: sum(row[name] for row in last) / len(last) for name in shared}
        found["last"] = {name: mean for name, mean in means.items() if name != "step"}
    return found
