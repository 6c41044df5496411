"""Scores of samples by one extractor of features, and which extractor a run has."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ebmjax import data, evaluate
from ebmjax._phases import say_part
from ebmjax._stored import take_rows
from ebmjax.evaluate import Chains
from ebmjax.recipes.config import extractor_names
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import explain, find_function
from ebmjax.training import tree_digest


def extractor(config: Config, train: data.ImageData, test: data.ImageData) -> evaluate.Extractor:
    """Returns the extractor that ``extractor_names.extractor_name`` names.

    A classifier is trained and tested on the images.
    """
    name = extractor_names.extractor_name(config)
    if config.evals.get("extractor"):
        return own_extractor(config)
    if name == extractor_names.INCEPTION:
        return inception(config)
    if name == extractor_names.DIGITS:
        return evaluate.digits_features(train.images.shape[1])
    if name == extractor_names.RANDOM:
        return evaluate.random_features()
    return evaluate.own_classifier(train, test, config.data.num_classes)


def own_extractor(config: Config) -> evaluate.Extractor:
    """Returns the extractor of the function that ``config.evals.extractor`` names."""
    where = "evals.extractor", config.evals.extractor
    function = find_function(*where)
    found = evaluate.own_extractor(function)
    return found._replace(outputs_fn=explain(*where, function)(found.outputs_fn))


def inception(config: Config) -> evaluate.Extractor:
    """Returns the FID Inception-v3 that ``config.evals`` names.

    Raises:
      ConfigError: if the file cannot be read, or has another hash than the configuration expects.
    """
    try:
        return evaluate.inception(
            config.evals.inception_weights, config.evals.get("inception_sha256", "")
        )
    except (OSError, ValueError) as error:
        raise ConfigError(f"config.evals.inception_weights: {error}") from error


def check_weights(config: Config) -> None:
    """Reads the Inception-v3 that ``config.evals`` names, as ``inception`` does."""
    if not config.evals.inception_weights:
        return
    judge = inception(config)
    if not config.evals.get("inception_sha256"):
        print(
            "config.evals.inception_weights are taken unchecked. To have them checked: "
            f"--config.evals.inception_sha256={judge.details['sha256']}"
        )


ALONG = ("fid", "fid_num_images", "fid_error", "fid_infinity", "kid", "kid_error", "is")
"""Scores of samples and of their starts along training."""
BESIDE = ("fid", "fid_num_images", "fid_error")
"""Scores of test images and of Gaussians along training."""


class RunDistances(evaluate.Distances):
    """The distances of a run; their extractor is made when it is first used."""

    def __init__(self, train: data.ImageData, test: data.ImageData, config: Config) -> None:
        """Keeps the images, without labels if the run uses none.

        Args:
          train: the reference images.
          test: images that are scored beside samples along training. They also test a classifier
            whose features are used.
          config: sections data and evals are read.
        """
        self._config = config
        self._known: dict[Any, Any] = {}
        train, self._test = self._merge_classes(train), self._merge_classes(test)
        make = partial(extractor, config, train, self._test)
        super().__init__(train, make, batch_size=config.evals.batch_size)

    def _merge_classes(self, split: data.ImageData) -> data.ImageData:
        if self._config.data.num_classes:
            return split
        return split._replace(labels=np.zeros_like(split.labels))

    def check(self) -> None:
        """Reads Inception's weights, or tries the user's extractor, if the run has either."""
        check_weights(self._config)
        if not self._config.evals.get("extractor"):
            return
        if self._config.evals.inception_weights:
            raise ConfigError(
                "config.evals.extractor and config.evals.inception_weights both name the features "
                "that judge samples: leave one empty."
            )
        self.outputs(take_rows(self.train.images, slice(2)))

    def generation(self, sets: Mapping[str, Chains], test: data.ImageData) -> dict[str, Any]:
        """Returns ``evaluate.generation``."""
        say_part("distances of the samples from the training images")
        return evaluate.generation(sets, self._merge_classes(test), self)

    def along_training(self, chains: Chains) -> dict[str, float]:
        """Returns scores of the finite samples and of what stands beside them, for metrics.jsonl.

        ``ALONG`` of "sample_" and "start_", ``BESIDE`` of "test_images_" and "gaussian_", and
        "fid_minus_starts" with "_low" and "_high". They are NaN for fewer than two images. Scores
        of what no update changes are those of the first call.
        """
        num, digest = len(chains.ends), tree_digest(np.asarray(chains.starts))
        starts = self._known.get("starts", (None, None))
        found = evaluate.score_chains(
            chains, self, at=num, starts=starts[1] if starts[0] == digest else None
        )
        if not found.num_diverged:
            self._known["starts"] = digest, found.starts
        if num not in self._known:
            self._known[num] = evaluate.score_references(self._test, self, num)
        paired, row = found.minus_starts["fid"], {}
        sets = {"sample": found.ends, "start": found.starts, **self._known[num]}
        for prefix, scores in sets.items():
            names = ALONG if prefix in ("sample", "start") else BESIDE
            numbers = scores.numbers  # without "is" where features know no classes
            row |= {f"{prefix}_{name}": numbers[name] for name in names if name in numbers}
        return row | {
            "fid_minus_starts": paired["difference"],
            "fid_minus_starts_low": paired["low"],
            "fid_minus_starts_high": paired["high"],
        }
