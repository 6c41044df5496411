"""Runs evaluators at their times: a row during training, the report afterwards."""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from ebmjax import evaluate
from ebmjax._groups import over_devices
from ebmjax._stored import take_rows
from ebmjax.data import ImageData
from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import UserPart, explain, find_function, find_part
from ebmjax.recipes.evaluators import Found, table
from ebmjax.recipes.evaluators.result_tables import over_training
from ebmjax.recipes.folder.workdir import read_rows, save_snapshot
from ebmjax.training import TrainState, tree_digest
from ebmjax.types import Key

ModelOf = Callable[[TrainState | None], Any]
"""``model_of(state)``: a model as evaluators see it; without a state, before it is trained."""

GIVEN = ("key", "model", "data")


class Evaluator(NamedTuple):
    """A function of a key, a model and data, and when it runs.

    Attributes:
      function: has its options.
      every: "end", or a number of evaluations of training.
      at_end: whether it runs after training, too.
      check: function of a model that is not trained yet and of data; raises ConfigError for what
        would stop the evaluator half-way.
      is_own: whether it is the user's.
    """

    function: Callable[..., Any]
    every: Any = 1
    at_end: bool = True
    check: Callable[..., None] | None = None
    is_own: bool = False

    def find(self, key: Key, model: Any, data: Any) -> Found:
        """Returns what it finds."""
        found = self.function(key, model, data)
        return found if isinstance(found, Found) else Found(found, found)

    def is_due(self, step: int, interval: int) -> bool:
        """Returns whether it runs at a monitored step."""
        return isinstance(self.every, int) and (step // interval) % self.every == 0


def make_evaluators(config: Config) -> dict[str, Evaluator]:
    """Returns the evaluators that run, by name, in the table's order; the user's come last.

    Args:
      config: without the fields of parts that it does not name (``families.prune``).

    Raises:
      ConfigError: for whatever a function of the user does wrong.
    """
    made: dict[str, Evaluator] = {}
    for name in table.EVALUATORS:
        if config.get(f"evals.{name}.every", table.NEVER) == table.NEVER:
            continue
        options = config.evals[name].to_dict()
        every, function = options.pop("every"), table.find_evaluator(name)
        check = getattr(sys.modules[function.__module__], "check", None)
        check = check and partial(check, **options)
        at_end = name not in table.TRAINING_ALONE
        made[name] = Evaluator(partial(function, **options), every, at_end, check)
    for place, name in enumerate(config.evals.get("functions", ())):
        part = find_part(config, "evals.functions", name, GIVEN)
        every = getattr(part.function, "every", 1)
        made[name] = Evaluator(partial(_call_own, part, place), every, is_own=True)
    return made


def _call_own(part: UserPart, place: int, key: Key, model: Any, data: Any) -> Mapping[str, float]:
    """Returns the numbers of a function of the user.

    Raises:
      ConfigError: unless it returns a dict of scalars.
    """
    found = part.call(jax.random.fold_in(key, place), model, data, **part.options)
    where = f"config.evals.functions={part.name!r}"
    if not isinstance(found, Mapping):
        raise ConfigError(
            f"{where} must return numbers by name, such as {{'mean_energy': 1.5}}; got a "
            f"{type(found).__name__}."
        )
    for name, value in found.items():
        is_number = np.shape(value) == () and np.asarray(value).dtype.kind in "fiub"
        if not (isinstance(name, str) and is_number):
            raise ConfigError(
                f"{where} must return scalars by name; {name!r} is of shape {np.shape(value)}."
            )
    return {name: float(value) for name, value in found.items()}


def make_distances(config: Config, train: ImageData, test: ImageData) -> evaluate.Distances:
    """Returns the distances of samples from the training images; their features wait for a use.

    Args:
      config: sections data and evals are read.
      train: the reference images.
      test: images that test a classifier whose features are used.
    """
    make = partial(extractor, config, train, test)
    return evaluate.Distances(train, make, batch_size=config.evals.batch_size)


def extractor(config: Config, train: ImageData, test: ImageData) -> evaluate.Extractor:
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


@dataclass(frozen=True)
class Evaluations:
    """The evaluators of a run.

    Attributes:
      folder: of the run; gets pictures, plots and arrays.
      key: of all random numbers.
      evaluators: by name.
      config: of the run.
      interval: steps between two evaluations of training.
      models: function of a state, during training and afterwards.
      tests: images that judge during training and afterwards.
    """

    folder: Path
    key: Key
    evaluators: Mapping[str, Evaluator]
    config: Config
    interval: int
    models: tuple[ModelOf, ModelOf]
    tests: tuple[Any, Any]

    def check(self) -> None:
        """Raises ConfigError for whatever would stop the evaluation half-way."""
        model = self.models[1](None)
        if model.distances is not None:
            check_features(self.config, model.distances)
        for evaluator in self.evaluators.values():
            if evaluator.check is not None:
                evaluator.check(model, self.tests[1])

    @over_devices()
    def monitor(self, state: TrainState, step: int) -> dict[str, Any]:
        """Returns the row of ``step``; saves its arrays and pictures."""
        model, plots = self.models[0](state), self.folder / "plots"
        row: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        for name, evaluator in self.evaluators.items():
            if not evaluator.is_due(step, self.interval):
                continue
            found = evaluator.find(self.key, model, self.tests[0])
            _check_new(name, evaluator, found, row)
            row |= found.numbers()
            arrays |= found.arrays
            for picture, draw in found.step_pictures.items():
                plots.mkdir(exist_ok=True)
                draw(plots / f"{picture}_{step:06d}.png")
        save_snapshot(self.folder, step, arrays)
        return row

    @over_devices()
    def evaluate(self, state: TrainState) -> dict[str, Any]:
        """Returns the report; writes evaluation.npz and ``plots/eval_*.png``."""
        model, data = self.models[1](state), self.tests[1]
        arrays: dict[str, Any] = {}
        report = {**model.about(), "images_sha256": tree_digest(data.images), "per_image": {}}
        for name, evaluator in self.evaluators.items():
            if not evaluator.at_end:
                continue
            found = evaluator.find(self.key, model, data)
            _check_new(name, evaluator, found, report)
            report |= found.report
            report["per_image"] |= found.per_image
            arrays |= found.arrays
            for picture, draw in found.pictures.items():
                draw(self.folder / "plots" / f"eval_{picture}.png")
        split = "validation" if self.config.data.holdout else "test"
        report["over_training"] = {"split": split, **over_training(read_rows(self.folder))}
        np.savez_compressed(self.folder / "evaluation.npz", **arrays)
        return report


def _check_new(name: str, evaluator: Evaluator, found: Found, others: Iterable[str]) -> None:
    """Raises ConfigError if a number of the user has a name that is taken."""
    taken = [one for one in found.report if evaluator.is_own and one in others]
    if taken:
        raise ConfigError(
            f"config.evals.functions={name!r} returns {taken[0]!r}, which is taken: rename it."
        )
