"""Names of the feature extractors that judge a run's samples, and of the numbers they give."""

from collections.abc import Iterable, Mapping
from typing import Any

INCEPTION = "inception_v3"
DIGITS = "digits_features"
OWN_CLASSIFIER = "classifier_features"
RANDOM = "random_features"
OPEN = f"{OWN_CLASSIFIER}_or_{RANDOM}"
"""Name where the images decide, because the configuration leaves the number of classes to them."""

DIGITS_SIDES = (None, 8, 16)
MIN_CLASSES = 5

OF_SAMPLES = {"sample_fid", "sample_kid", "sample_is"}
"""Numbers of a run's samples that the features give."""

EXTRACTOR = "{extractor}"
"""Place of the extractors' names in a label."""


def extractor_name(config: Mapping[str, Any]) -> str:
    """Returns the name of a run's extractor.

    A function of the user's has its own name. Else it is Inception-v3 if the run has its weights,
    and the one that ships for the packaged digits. For other images of at least five classes it is
    a classifier of them, else a random network.
    """
    data = config["data"]
    if own := config["evals"].get("extractor"):
        return own.rpartition(":")[2]
    if config["evals"].get("inception_weights"):
        return INCEPTION
    if data["name"] == "digits" and data["image_size"] in DIGITS_SIDES:
        return DIGITS
    if data["num_classes"] is None:
        return OPEN
    return OWN_CLASSIFIER if data["num_classes"] >= MIN_CLASSES else RANDOM


def scores_of_samples(config: Mapping[str, Any]) -> set[str]:
    """Returns the numbers of ``OF_SAMPLES`` that a run with samples monitors.

    Inception scores need features that know classes, as the user's may not.
    """
    if config["evals"].get("samples", {"every": "never"})["every"] == "never":
        return set()
    is_without = config["evals"].get("extractor") or extractor_name(config) == RANDOM
    return OF_SAMPLES - ({"sample_is"} if is_without else set())


def with_extractor(label: str, configs: Iterable[Mapping[str, Any]]) -> str:
    """Returns ``label`` with the extractors of runs in place of EXTRACTOR, if it is there."""
    if EXTRACTOR not in label:
        return label
    names = sorted({extractor_name(config) for config in configs})
    return label.replace(EXTRACTOR, ", ".join(names).replace("_", " "))
