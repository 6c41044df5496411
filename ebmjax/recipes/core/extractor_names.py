"""Names of feature extractors, which end the names of their numbers."""

from collections.abc import Iterable, Mapping
from typing import Any

INCEPTION = "inception_v3"
OWN_CLASSIFIER = "classifier_features"

EXTRACTOR = "{extractor}"
"""Place of an extractor's name in a label or in the name of a number."""


def extractor_name(config: Mapping[str, Any]) -> str:
    """Returns the name of a run's extractor: Inception-v3 if the run has its weights."""
    return INCEPTION if config["eval"].get("inception_weights") else OWN_CLASSIFIER


def with_extractor(label: str, configs: Iterable[Mapping[str, Any]]) -> str:
    """Returns ``label`` with the extractors of runs in place of EXTRACTOR, if it is there."""
    if EXTRACTOR not in label:
        return label
    names = sorted({extractor_name(config) for config in configs})
    return label.replace(EXTRACTOR, ", ".join(names).replace("_", " "))
