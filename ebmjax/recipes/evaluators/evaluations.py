"""Runs evaluators at their times: a row during training, the report afterwards."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax import data
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators import table
from ebmjax.recipes.evaluators.evaluator import Evaluator, is_due
from ebmjax.recipes.evaluators.over_training import over_training
from ebmjax.recipes.evaluators.user import UserEvaluator, find_evaluators
from ebmjax.recipes.folder.workdir import read_rows, save_snapshot
from ebmjax.training import TrainState, tree_digest
from ebmjax.types import Key

ModelOf = Callable[[TrainState | None], Any]
"""``model_of(state)``: a model as evaluators see it; without a state, before it is trained."""


OFF = {"every": table.NEVER}
"""The section of an evaluator that a family does not have."""


def make_evaluators(config: Config) -> dict[str, Evaluator]:
    """Returns the evaluators that run, by name, in the table's order; the user's come last.

    Each gets its fields and, of the other fields of ``config.eval``, those that are arguments of
    its class.

    Raises:
      ConfigError: for whatever a function of the user does wrong.
    """
    made: dict[str, Evaluator] = {}
    for name, entry in table.EVALUATORS.items():
        if not entry.made_by or config.eval.get(name, OFF)["every"] == table.NEVER:
            continue
        module, _, kind = entry.made_by.partition(":")
        cls = getattr(importlib.import_module(f"ebmjax.recipes.evaluators.{module}"), kind)
        options = {**config.eval.to_dict(), **_about_data(config), **config.eval[name].to_dict()}
        taken = inspect.signature(cls).parameters
        made[name] = cls(**{key: value for key, value in options.items() if key in taken})
    users = enumerate(find_evaluators(config))
    return made | {part.name: UserEvaluator(part, place) for place, part in users}


def _about_data(config: Config) -> dict[str, Any]:
    section, is_tfds = config.data, data.is_tfds(config.data.name)
    tfds_folder = section.path or None if is_tfds else None
    return {"data_name": section.name, "fit": section.fit, "tfds_folder": tfds_folder}


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
        model.distances.check()
        for evaluator in self.evaluators.values():
            evaluator.check(model, self.tests[1])

    def monitor(self, state: TrainState, step: int) -> dict[str, Any]:
        """Returns the row of ``step``; saves its arrays and pictures."""
        model = self.models[0](state)
        row: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        for name, evaluator in self.evaluators.items():
            if not self._is_due(name, step):
                continue
            found = evaluator(model, self.tests[0], self.key)
            evaluator.check_new(found, row)
            row |= found.numbers()
            arrays |= found.arrays
            evaluator.draw_step(self.folder, step, found)
        save_snapshot(self.folder, step, arrays)
        return row

    def evaluate(self, state: TrainState) -> dict[str, Any]:
        """Returns the report; writes evaluation.npz and ``plots/eval_*.png``."""
        model = self.models[1](state)
        arrays: dict[str, Any] = {}
        images_sha256 = tree_digest(self.tests[1].images)
        report: dict[str, Any] = {**model.about(), "images_sha256": images_sha256, "per_image": {}}
        for evaluator in self.evaluators.values():
            if not evaluator.at_end:
                continue
            found = evaluator(model, self.tests[1], self.key)
            evaluator.check_new(found, report)
            report |= found.report
            report["per_image"] |= found.per_image
            arrays |= found.arrays
            evaluator.draw(self.folder, found)
        split = "validation" if self.config.data.holdout else "test"
        report["over_training"] = {"split": split, **over_training(read_rows(self.folder))}
        np.savez_compressed(self.folder / "evaluation.npz", **arrays)
        return report

    def _is_due(self, name: str, step: int) -> bool:
        every = self.config.eval[name].every if name in table.EVALUATORS else 1
        return is_due(every, step, self.interval)


def with_users(
    config: Config,
    key: Key,
    model_of: Callable[[TrainState], Any],
    tests: tuple[data.ImageData, data.ImageData],
    monitor: Callable[[TrainState, int], dict[str, Any]],
    evaluate: Callable[[TrainState], dict[str, Any]],
) -> tuple[Callable[[TrainState, int], Any], Callable[[TrainState], Any]]:
    """Returns a monitor and an evaluation with the numbers of the user's functions, too."""
    users = [UserEvaluator(part, i) for i, part in enumerate(find_evaluators(config))]
    if not users:
        return monitor, evaluate

    def add(found: dict[str, Any], state: TrainState, test: data.ImageData) -> dict[str, Any]:
        for evaluator in users:
            theirs = evaluator(model_of(state), test, key)
            evaluator.check_new(theirs, found)
            found = {**found, **theirs.report}
        return found

    return (
        lambda state, step: add(monitor(state, step), state, tests[0]),
        lambda state: add(evaluate(state), state, tests[1]),
    )
