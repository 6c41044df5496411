"""Runs evaluators at their times: a row during training, the report afterwards."""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax._groups import over_devices
from ebmjax.recipes.config import declare, families
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.points import is_points
from ebmjax.recipes.evaluators import table
from ebmjax.recipes.evaluators.evaluator import Evaluator, Found, is_due, stack_repeats
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
    fields, about = families.fields_of(config), _about_data(config)
    made: dict[str, Evaluator] = {}
    for name, entry in table.EVALUATORS.items():
        if config.eval.get(name, OFF)["every"] == table.NEVER:
            continue
        if declare.no_effect(fields, config, f"eval.{name}.every"):
            continue  # images have no density, and points no FID
        module, _, kind = entry.made_by.partition(":")
        cls = getattr(importlib.import_module(f"ebmjax.recipes.evaluators.{module}"), kind)
        options = {**config.eval.to_dict(), **about, **config.eval[name].to_dict()}
        taken = inspect.signature(cls).parameters
        made[name] = cls(**{key: value for key, value in options.items() if key in taken})
    users = enumerate(find_evaluators(config))
    return made | {part.name: UserEvaluator(part, place) for place, part in users}


def repeats_of(state: TrainState) -> list[TrainState]:
    """Returns the state of the run, in a list."""
    return [state]


def _about_data(config: Config) -> dict[str, Any]:
    section = config.data
    is_tfds = not is_points(config) and data.is_tfds(section.name)
    tfds_folder = section.path or None if is_tfds else None
    return {"data_name": section.name, "fit": section.fit, "tfds_folder": tfds_folder}


@dataclass(frozen=True)
class Evaluations:
    """The evaluators of a run.

    Each repeat of a run is a model by itself (``config.train.num_repeats``). Its numbers and arrays
    get a leading axis of repeats; the pictures are the first one's.

    Attributes:
      folder: of the run; gets pictures, plots and arrays.
      key: of all random numbers; (num_repeats,) if there are several.
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
            model.distances.check()
        for evaluator in self.evaluators.values():
            evaluator.check(model, self.tests[1])

    @over_devices()
    def monitor(self, state: TrainState, step: int) -> dict[str, Any]:
        """Returns the row of ``step``; saves its arrays and pictures."""
        models = [self.models[0](one) for one in repeats_of(state)]
        row: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        for name, evaluator in self.evaluators.items():
            if not self._is_due(name, step):
                continue
            each = self._find(evaluator, models, self.tests[0])
            found = stack_repeats(each)
            evaluator.check_new(found, row)
            row |= found.numbers()
            arrays |= found.arrays
            evaluator.draw_step(self.folder, step, each[0])
        save_snapshot(self.folder, step, arrays)
        return row

    @over_devices()
    def evaluate(self, state: TrainState) -> dict[str, Any]:
        """Returns the report; writes evaluation.npz and ``plots/eval_*.png``."""
        models = [self.models[1](one) for one in repeats_of(state)]
        train = self.config.train
        is_lost = np.atleast_1d(state.consecutive_skipped) >= train.max_consecutive_skips
        arrays: dict[str, Any] = {}
        images_sha256 = tree_digest(self.tests[1].images)
        report: dict[str, Any] = {**models[0].about(), "images_sha256": images_sha256}
        report["per_image"] = {}
        if "num_repeats" in train:
            report["diverged_repeats"] = int(is_lost.sum())
        for evaluator in self.evaluators.values():
            if not evaluator.at_end:
                continue
            each = self._find(evaluator, models, self.tests[1])
            found = stack_repeats(each, is_lost)
            evaluator.check_new(found, report)
            report |= found.report
            report["per_image"] |= found.per_image
            arrays |= found.arrays
            evaluator.draw(self.folder, each[0])
        split = "validation" if self.config.data.holdout else "test"
        report["over_training"] = {"split": split, **over_training(read_rows(self.folder))}
        np.savez_compressed(self.folder / "evaluation.npz", **arrays)
        return report

    def _find(self, evaluator: Evaluator, models: Sequence[Any], test: Any) -> list[Found]:
        """Returns what an evaluator finds of each repeat."""
        keys = jnp.atleast_1d(self.key)
        return [evaluator(model, test, key) for model, key in zip(models, keys, strict=True)]

    def _is_due(self, name: str, step: int) -> bool:
        is_ours = name in table.EVALUATORS
        every = self.config.eval[name].every if is_ours else self.evaluators[name].every
        return is_due(every, step, self.interval)
