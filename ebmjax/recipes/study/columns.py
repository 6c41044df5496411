"""Columns that many studies have: by heading, AUROCs, and the scores of samples with references."""

from collections.abc import Mapping

Columns = dict[str, tuple[str, float, int]]

COLUMNS: Columns = {
    "accuracy, %": ("classification.accuracy", 100.0, 1),
    "ECE, %": ("classification.ece", 100.0, 1),
    "NLL, nats": ("classification.nll", 1.0, 3),
    "KID, buffer": ("generation.buffer.kid", 1.0, 1),
    "RMS displacement of fresh chains": ("generation.fresh.rms_displacement", 1.0, 3),
    "energy of samples - of data, nats": ("energy_gap", 1.0, 2),
    "energy of fresh - of data, nats": ("energies.gap", 1.0, 2),
    "R-hat of energies": ("mixing.rhat_energy", 1.0, 2),
    "implied T, 1e-6": ("implied_temperature", 1e6, 3),
    "acceptance, end of training": ("chain_acceptance_prob", 1.0, 3),
    "distance travelled": ("chain_displacement", 1.0, 5),
    "preconditioner G": ("chain_preconditioner", 1.0, 3),
    "density, TV": ("density.density_tv", 1.0, 3),
    "density, KL in nats": ("density.density_kl", 1.0, 3),
    "squared error a pixel": ("test_reconstruction_error", 1.0, 3),
    "largest loss": ("over_training.largest_loss", 1.0, 1),
    "steps": ("steps", 1.0, 0),
    "skipped steps": ("skipped", 1.0, 0),
    "seconds of training": ("run_seconds", 1.0, 0),
}
"""Columns by heading, each as in ``Study.columns``."""

WORDS = {"buffer": "buffer", "fresh": "fresh chains", "short": "chains as in training"}
"""Sets of samples by their names in evaluation.json."""

SCORES = {
    "log p(x)": "log_density",
    "max p(y|x)": "max_probability",
    "-|score|": "negative_score_norm",
}
"""Scores that tell images of other data, by their words in headings."""


def pick_columns(*headings: str) -> Columns:
    """Returns those of ``COLUMNS`` with these headings."""
    return {heading: COLUMNS[heading] for heading in headings}


def auroc_columns(sets: Mapping[str, str], *scores: str) -> Columns:
    """Returns a column for each score and set of other images.

    Args:
      sets: word in the heading to name in evaluation.json.
      scores: words in ``SCORES``.
    """
    return {
        f"AUROC {score} / {words}": (f"ood.sets.{name}.{SCORES[score]}.auroc", 1.0, 3)
        for score in scores
        for words, name in sets.items()
    }


def fid_columns(*sets: str, decimals: int = 1) -> Columns:
    """Returns columns of FID for sets of samples, of test images and of Gaussians.

    Each set has its standard error over images, its starts, and the difference with the upper end
    of its 95 % interval: below 0 the chains improved on their starts. Sets of chains also have the
    RMS displacement of these.

    Args:
      sets: names in ``WORDS``.
      decimals: of the numbers.
    """
    found: Columns = {}
    for name in sets:
        words = WORDS[name]
        for heading, number in (
            (f"FID ({{extractor}}), {words}", "fid"),
            (f"error of {words}", "fid_error"),
            (f"starts of {words}", "starts.fid"),
            (f"{words} minus starts", "minus_starts.difference"),
            (f"{words} minus starts, at most", "minus_starts.high"),
        ):
            found[heading] = (f"generation.{name}.{number}", 1.0, decimals)
    found["FID, class Gaussians"] = ("generation.gaussian.fid", 1.0, decimals)
    found["FID, test images"] = ("generation.test_images.fid", 1.0, decimals)
    for name in (one for one in sets if one != "buffer"):
        place = f"generation.{name}.rms_displacement"
        found[f"RMS displacement of {WORDS[name]}"] = (place, 1.0, 3)
    return found
