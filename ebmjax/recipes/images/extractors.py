"""The feature extractor of a run: Inception-v3, or a classifier of the run's own data."""

from ebmjax import data, evaluate
from ebmjax.recipes.core.extractor_names import INCEPTION, extractor_name
from ebmjax.recipes.core.fields import Config, ConfigError


def extractor(config: Config, train: data.ImageData, test: data.ImageData) -> evaluate.Extractor:
    """Returns Inception-v3 if ``config.eval.inception_weights`` is set, else the classifier.

    Raises:
      ConfigError: if the weights cannot be used.
    """
    if extractor_name(config) == INCEPTION:
        return inception(config)
    return evaluate.own_classifier(train, test, config.data.num_classes, _announce)


def _announce() -> None:
    print("training the classifier whose features FID compares, once for these images", flush=True)


def inception(config: Config) -> evaluate.Extractor:
    """Returns the FID Inception-v3 that ``config.eval`` names."""
    try:
        return evaluate.inception(config.eval.inception_weights, config.eval.inception_sha256)
    except (OSError, ValueError) as error:
        raise ConfigError(f"config.eval.inception_weights: {error}") from error


def check_weights(config: Config) -> None:
    """Reads the Inception-v3 that ``config.eval`` names.

    Raises:
      ConfigError: if the file cannot be read, or has another hash than the configuration expects.
    """
    if not config.eval.inception_weights:
        return
    judge = inception(config)
    if not config.eval.inception_sha256:
        print(
            "config.eval.inception_weights are taken unchecked. To have them checked: "
            f"--config.eval.inception_sha256={judge.details['sha256']}"
        )
