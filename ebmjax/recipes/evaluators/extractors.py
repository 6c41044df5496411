"""The feature extractor of a run: given, shipped with the package, or of the run's own images."""

from ebmjax import data, evaluate
from ebmjax.recipes.config import extractor_names
from ebmjax.recipes.config.errors import Config, ConfigError


def extractor(config: Config, train: data.ImageData, test: data.ImageData) -> evaluate.Extractor:
    """Returns the extractor that ``extractor_names.extractor_name`` names.

    Args:
      config: sections data and eval are read.
      train: images that a classifier trains on.
      test: images that it is tested on.

    Raises:
      ConfigError: if Inception's weights cannot be used.
    """
    name = extractor_names.extractor_name(config)
    if name == extractor_names.INCEPTION:
        return inception(config)
    if name == extractor_names.DIGITS:
        return evaluate.digits_features(train.images.shape[1])
    if name == extractor_names.RANDOM:
        return evaluate.random_features()
    return evaluate.own_classifier(train, test, config.data.num_classes)


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
