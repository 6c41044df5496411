"""Runs evaluators at their times: a row during training, the report afterwards."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ebmjax import evaluate
from ebmjax._groups import over_devices
from ebmjax._stored import take_rows
from ebmjax.data import ImageData
from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import UserPart, find_function, find_part, is_users
from ebmjax.recipes.evaluators import Found, table
from ebmjax.recipes.evaluators.result_tables import over_training
from ebmjax.recipes.folder.run_folder import read_rows, save_snapshot
from ebmjax.training import TrainState, tree_digest
from ebmjax.types import Key

Evaluators = dict[str, tuple[Callable[..., Any], Any]]
"""Functions of a key, a model and data, with their options, and when they run, by name."""


def make_evaluators(config: Config) -> Evaluators:
    """Returns the evaluators that run, in the table's order; the user's come last."""
    made: Evaluators = {}
    for name in table.EVALUATORS:
        if config.get(f"evals.{name}.every", table.NEVER) != table.NEVER:
            function = partial(table.find(name), **table.options(config, name))
            made[name] = function, config.evals[name].every
    for place, name in enumerate(config.evals.get("functions", ())):
        part = find_part(config, "evals.functions", name, ("key", "model", "data"))
        made[name] = partial(_call_own, part, place), getattr(part.function, "every", 1)
    return made


def is_due(every: Any, step: int, interval: int) -> bool:
    """Returns whether an evaluator runs at a monitored step."""
    return isinstance(every, int) and step // interval % every == 0


def _call_own(part: UserPart, place: int, key: Key, model: Any, data: Any) -> Mapping[str, float]:
    """Returns the numbers of a function of the user; ConfigError for anything else."""
    found = part.call(jax.random.fold_in(key, place), model, data, **part.options)
    with part.explain(" It must return numbers by name, such as {'mean_energy': 1.5}."):
        return {name: float(value) for name, value in found.items()}


def make_distances(
    config: Config, name: str, train: ImageData, test: ImageData
) -> evaluate.Distances:
    """Returns the distances of samples from ``train``; their features wait for a use.

    ``name`` is that of ``families.extractor_name``. ``test`` judges a classifier of them. Use
    raises ConfigError if Inception's weights or the user's function cannot be read.
    """
    section = config.evals

    def make() -> evaluate.Extractor:
        if section.get("extractor"):
            function = find_function("evals.extractor", section.extractor)
            part = UserPart("evals.extractor", section.extractor, function, {})
            found = evaluate.own_extractor(function)
            return found._replace(outputs_fn=part.explain()(found.outputs_fn))
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

    return evaluate.Distances(train, make, batch_size=section.batch_size)


def check_features(config: Config, distances: evaluate.Distances) -> None:
    """Tries the user's extractor, or reads Inception's weights; ConfigError if it fails."""
    if config.evals.get("extractor"):
        distances.outputs(take_rows(distances.train.images, slice(2)))
    elif config.evals.get("inception_weights"):
        _ = distances.extractor


@dataclass(frozen=True)
class Evaluations:
    """The evaluators of a run, by name.

    ``interval`` is the number of steps between two evaluations of training. ``models`` are two
    functions of a state, or of None before there is one, and ``tests`` are the images that judge:
    during training, and afterwards.
    """

    folder: Path
    key: Key
    evaluators: Evaluators
    config: Config
    interval: int
    models: tuple[Callable[[TrainState | None], Any], ...]
    tests: tuple[Any, Any]

    def check(self) -> None:
        """Raises ConfigError for whatever would stop the evaluation half-way."""
        model = self.models[1](None)
        if model.distances is not None:
            check_features(self.config, model.distances)
        for name, (function, _) in self.evaluators.items():
            if not is_users(name) and (check := table.find(name, "check")):
                check(model, self.tests[1], **function.keywords)

    @over_devices()
    def monitor(self, state: TrainState, step: int) -> dict[str, Any]:
        """Returns the row of ``step``; saves its arrays and pictures."""
        row: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        every = {name: every for name, (_, every) in self.evaluators.items()}
        due = [name for name in every if is_due(every[name], step, self.interval)]
        for name, found in self._run(due, self.models[0](state), self.tests[0], row):
            row |= found.numbers()
            arrays |= found.arrays
            if name in table.DRAWN_IN_TRAINING:
                self._draw(found, f"{{}}_{step:06d}.png")
        save_snapshot(self.folder, step, arrays)
        return row

    @over_devices()
    def evaluate(self, state: TrainState) -> dict[str, Any]:
        """Returns the report; writes evaluation.npz and ``plots/eval_*.png``."""
        model, data = self.models[1](state), self.tests[1]
        arrays: dict[str, Any] = {}
        report = {**model.about(), "images_sha256": tree_digest(data.images), "per_image": {}}
        at_end = [name for name in self.evaluators if name not in table.TRAINING_ALONE]
        for _, found in self._run(at_end, model, data, report):
            report |= found.report
            report["per_image"] |= found.per_image
            arrays |= found.arrays
            self._draw(found, "eval_{}.png")
        split = "validation" if self.config.data.holdout else "test"
        report["over_training"] = {"split": split, **over_training(read_rows(self.folder))}
        np.savez_compressed(self.folder / "evaluation.npz", **arrays)
        return report

    def _run(
        self, names: list[str], model: Any, data: Any, known: Mapping[str, Any]
    ) -> Iterator[tuple[str, Found]]:
        """Yields what evaluators find; ConfigError if a user's number has a ``known`` name."""
        for name in names:
            found = self.evaluators[name][0](self.key, model, data)
            found = found if isinstance(found, Found) else Found(found)
            if is_users(name) and (taken := found.report.keys() & known.keys()):
                raise ConfigError(
                    f"config.evals.functions={name!r} returns {min(taken)!r}, which is taken: "
                    "rename it."
                )
            yield name, found

    def _draw(self, found: Found, file: str) -> None:
        for name, draw in found.pictures.items():
            (self.folder / "plots").mkdir(exist_ok=True)
            draw(self.folder / "plots" / file.format(name))
