"""Distances of generated images from the training images, by one extractor for a whole run."""

from functools import cached_property

from ebmjax import data, evaluate
from ebmjax.recipes.core.fields import Config
from ebmjax.recipes.images.extractors import extractor


class Distances(evaluate.Distances):
    """The distances of a run; their extractor is made when it is first used."""

    def __init__(self, train: data.ImageData, test: data.ImageData, config: Config) -> None:
        """Keeps the images.

        Args:
          train: the reference images.
          test: images to test the classifier that extracts features.
          config: sections data and eval are read.
        """
        super().__init__(train.images, None, batch_size=config.eval.batch_size)
        self._splits, self._config = (train, test), config

    @cached_property
    def extractor(self) -> evaluate.Extractor | None:
        """Extractor of features; None for data without labels and without Inception's weights."""
        if not (self._config.eval.inception_weights or self._config.data.num_classes):
            return None
        return extractor(self._config, *self._splits)
