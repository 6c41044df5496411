"""Names of feature extractors, which end the names of their numbers."""

from ebmjax.recipes.core.fields import Config

INCEPTION = "inception_v3"
OWN_CLASSIFIER = "classifier_features"


def extractor_name(config: Config) -> str:
    """Returns the name of a run's extractor: Inception-v3 if the run has its weights."""
    return INCEPTION if config.eval.get("inception_weights") else OWN_CLASSIFIER
