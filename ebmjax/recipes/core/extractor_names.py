"""Names of the extractors of features, in the names of the numbers made with them."""

from ebmjax.recipes.core.fields import Config

INCEPTION = "inception_v3"
OWN_CLASSIFIER = "classifier_features"


def extractor_name(config: Config) -> str:
    """Name of the extractor that judges a run's images: Inception-v3 if the run has its weights."""
    return INCEPTION if config.eval.get("inception_weights") else OWN_CLASSIFIER
