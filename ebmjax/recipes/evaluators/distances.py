"""The features by which a run's samples are judged."""

from functools import partial

from ebmjax import data, evaluate
from ebmjax._stored import take_rows
from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import explain, find_function


def make_distances(
    config: Config, train: data.ImageData, test: data.ImageData
) -> evaluate.Distances:
    """Returns the distances of samples from the training images; their features wait for a use.

    Args:
      config: sections data and evals are read.
      train: the reference images.
      test: images that test a classifier whose features are used.
    """
    make = partial(extractor, config, train, test)
    return evaluate.Distances(train, make, batch_size=config.evals.batch_size)


def extractor(config: Config, train: data.ImageData, test: data.ImageData) -> evaluate.Extractor:
    """Returns the extractor that ``families.extractor_name`` names.

    Raises:
      ConfigError: if Inception's weights or the user's function cannot be read.
    """
    name, section = families.extractor_name(config), config.evals
    if section.get("extractor"):
        where = "evals.extractor", section.extractor
        function = find_function(*where)
        found = evaluate.own_extractor(function)
        return found._replace(outputs_fn=explain(*where, function)(found.outputs_fn))
    if name == families.INCEPTION:
        try:
            return evaluate.inception(section.inception_weights)
        except (OSError, ValueError) as error:
            raise ConfigError(f"config.evals.inception_weights: {error}") from error
    if name == families.DIGITS:
        return evaluate.digits_features(train.images.shape[1])
    if name == families.RANDOM:
        return evaluate.random_features()
    return evaluate.own_classifier(train, test, config.data.num_classes)


def check_features(config: Config, distances: evaluate.Distances) -> None:
    """Reads Inception's weights, or tries the user's extractor, if the run has either.

    Raises:
      ConfigError: as ``extractor``, or if the run has both.
    """
    own, weights = config.evals.get("extractor"), config.evals.get("inception_weights")
    if own and weights:
        raise ConfigError(
            "config.evals.extractor and config.evals.inception_weights both name the features "
            "that judge samples: leave one empty."
        )
    if weights:
        _ = distances.extractor
    if own:
        distances.outputs(take_rows(distances.train.images, slice(2)))
