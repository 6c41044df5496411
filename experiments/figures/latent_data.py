"""Data of a thermodynamic-integration study's figures, read from the study's folder.

Configurations, not names, identify rows. A row belongs to a sweep if only the swept field differs
from the most common settings of the folder."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from ebmjax.recipes.config.errors import flatten
from ebmjax.recipes.study.reader import StudyRun, find_done, row_names
from ebmjax.recipes.study.table import descend

BATCH_SIZE, EXPONENT, EPOCHS = "train.batch_size", "loss.exponent", "train.num_epochs"
SYMBOLS = {
    BATCH_SIZE: "batch",
    "loss.num_intervals": "$N_t$",
    "loss.kl_weight": r"$\eta$",
    "loss.chains_per_observation": "chains",
    "sampler.posterior.num_steps": "K",
    "sampler.posterior.name": "posterior",
    EPOCHS: "epochs",
}
# Fields that differ in every row, or only in machine or blocks.
NO_SETTING = {"seed", "loss.name", "loss.pilot_intervals", EXPONENT, "data.path"}
NO_SETTING |= {"train.steps_per_dispatch"}
# Epochs are whole, so equal updates with another batch size are equal up to a part of an epoch.
EQUAL = 1 / 8


class Absent(Exception):  # noqa: N818
    """Raised if the study lacks rows for a figure; says which."""


@dataclass(frozen=True)
class Row:
    """One row of a study.

    Attributes:
      config: the configuration, names joined by dots.
      changes: the settings that differ from those most common in the study; neither the estimator
        nor the exponent.
      runs: finished runs, one a seed.
      evaluations: evaluation.json of each run.
    """

    config: Mapping[str, Any]
    changes: Mapping[str, Any]
    runs: tuple[StudyRun, ...]
    evaluations: tuple[Mapping[str, Any], ...]

    @property
    def estimator(self) -> str:
        """Gradient estimator."""
        return self.config["loss.name"]

    @property
    def exponent(self) -> float:
        """Exponent of the schedule; without meaning for vanilla learning."""
        return self.config[EXPONENT]

    @property
    def label(self) -> str:
        """Label of the row within its estimator, in the thesis's symbols."""
        if self.estimator == "vanilla":
            first = {SYMBOLS[BATCH_SIZE]: self.config[BATCH_SIZE]}
        else:
            first = {"p": self.exponent}
        named = {SYMBOLS.get(name, name.split(".")[-1]): v for name, v in self.changes.items()}
        return ", ".join(f"{name} = {_short(value)}" for name, value in (first | named).items())

    def values(self, name: str) -> np.ndarray:
        """Returns (repeats,): the number ``name`` of evaluation.json; NaN if a repeat has none.

        A number of the whole run counts for each of its repeats.
        """
        repeats = [len(_numbers(one, "coordinate_gradient_variance")) for one in self.evaluations]
        parts = (_numbers(one, name) for one in self.evaluations)
        return np.concatenate(
            [np.broadcast_to(part, n) for part, n in zip(parts, repeats, strict=True)]
        )

    @property
    def updates(self) -> float:
        """Number of training steps."""
        return float(self.values("cost.steps").mean())

    def mean_log_likelihoods(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the powers (N_t + 1,) and E_t at each, in nats, averaged over finite repeats."""
        parts = [_array(one["test_mean_log_likelihoods"]) for one in self.evaluations]
        every = np.concatenate([np.atleast_2d(part) for part in parts])
        finite = every[np.isfinite(every).all(axis=1)]
        mean = finite.mean(axis=0) if len(finite) else np.full(every.shape[1], np.nan)
        return _array(self.evaluations[0]["powers"]), mean

    def loss(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns steps (n,) and the loss at each, (n, repeats)."""
        logged = [[row for row in run.read_metrics() if "loss" in row] for run in self.runs]
        length = min(map(len, logged))
        losses = [_array([row["loss"] for row in rows[:length]]) for rows in logged]
        steps = np.array([row["step"] for row in logged[0][:length]])
        return steps, np.concatenate([part.reshape(length, -1) for part in losses], axis=1)

    def samples(self, score: str) -> tuple[np.ndarray, int]:
        """Returns uint8 (n, H, W, C) at the end of training, and the first finite repeat's number.

        Raises:
          Absent: if no repeat has a finite ``score``.
        """
        before = 0
        for run, evaluation in zip(self.runs, self.evaluations, strict=True):
            finite = np.isfinite(_numbers(evaluation, score))
            if finite.any():
                repeat = int(np.argmax(finite))
                images = np.load(run.snapshots()[-1])["samples"]
                return (images[None] if images.ndim == 4 else images)[repeat], before + repeat
            before += len(finite)
        raise Absent(f"no repeat of {self.estimator}, {self.label} has a finite {score}")


def at_infinity(score: str) -> str:
    """Returns the name in evaluation.json of a score of samples, extrapolated from its sizes."""
    return f"generation.fresh.at_sizes.{score}.infinity"


def _array(value: Any) -> np.ndarray:
    return np.array(value, dtype=float)  # null becomes NaN


def _numbers(evaluation: Mapping[str, Any], name: str) -> np.ndarray:
    return np.atleast_1d(_array(descend(evaluation, name)))


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) and value is not True else str(value)


def gather(folder: Path) -> list[Row]:
    """Returns the rows of a study's folder that have a finished run of a latent EBM."""
    every = [tuple(find_done(folder, row)) for row in row_names(folder)]
    found = [(flatten(runs[0].config()), runs) for runs in every if runs]
    found = [(config, runs) for config, runs in found if config["family"] == "latent"]
    common = {}
    for name in {name for config, _ in found for name in config} - NO_SETTING:
        values = Counter(json.dumps(config.get(name)) for config, _ in found)
        common[name] = json.loads(values.most_common(1)[0][0])
    return [
        Row(
            config,
            {k: v for k, v in config.items() if k in common and v != common[k]},
            runs,
            tuple(run.evaluation() for run in runs),
        )
        for config, runs in found
    ]


def series(rows: Sequence[Row], estimator: str) -> list[Row]:
    """Returns the thesis's sweep of an estimator: vanilla by batch size, others by exponent.

    Raises Absent for fewer than two rows.
    """
    swept = _name_sweep(estimator)
    mine = [row for row in rows if row.estimator == estimator and row.changes.keys() <= {swept}]
    if len(mine) < 2:
        raise Absent(f"it takes two rows of {estimator} that differ in {swept} alone")
    return sorted(mine, key=lambda row: row.config[swept])


def _name_sweep(estimator: str) -> str:
    return BATCH_SIZE if estimator == "vanilla" else EXPONENT


def regimes(rows: Sequence[Row], estimator: str) -> dict[str, list[Row]]:
    """Returns the thesis's three regimes: vanilla, 0 < p <= 1 and p > 1 of an estimator.

    A fourth, not in the thesis, is vanilla learning at equal updates, if the study has it: at equal
    epochs a smaller batch makes more updates. Raises as ``series``.
    """
    powers = series(rows, estimator)
    found = {
        "vanilla": series(rows, "vanilla"),
        "0 < p ≤ 1": [row for row in powers if row.exponent <= 1],
        "p > 1": [row for row in powers if row.exponent > 1],
    }
    equal = equal_updates(rows)
    return found | ({"vanilla, equal updates": equal} if len(equal) > 1 else {})


def equal_updates(rows: Sequence[Row]) -> list[Row]:
    """Returns vanilla rows whose number of updates equals that of the unchanged row."""
    mine = [
        row
        for row in rows
        if row.estimator == "vanilla" and row.changes.keys() <= {BATCH_SIZE, EPOCHS}
    ]
    common = [row.updates for row in mine if not row.changes]
    same = [row for row in mine for num in common if abs(row.updates - num) <= EQUAL * num]
    return sorted(same, key=lambda row: row.config[BATCH_SIZE])


def variants(rows: Sequence[Row], estimator: str) -> list[Row]:
    """Returns rows of an estimator that change more than the swept field, or raises Absent."""
    swept = _name_sweep(estimator)
    mine = [row for row in rows if row.estimator == estimator and row.changes.keys() - {swept}]
    if not mine:
        raise Absent(f"it takes rows of {estimator} that change more than {swept}")
    return sorted(mine, key=lambda row: (row.exponent, row.label))


class Points(NamedTuple):
    """Means and standard deviations over the repeats where both numbers are finite.

    Attributes:
      rows: rows with any such repeat.
      x: (rows,), means of the first number.
      y: (rows,), means of the second number.
      x_spread: (rows,), sample standard deviations; 0 for a single repeat.
      y_spread: (rows,).
    """

    rows: list[Row]
    x: np.ndarray
    y: np.ndarray
    x_spread: np.ndarray
    y_spread: np.ndarray


def points(rows: Sequence[Row], x_name: str, y_name: str) -> Points:
    """Returns a point a row, from two numbers of evaluation.json."""
    kept, pairs = [], []
    for row in rows:
        pair = np.stack([row.values(x_name), row.values(y_name)])
        pair = pair[:, np.isfinite(pair).all(axis=0)]
        if pair.shape[1]:
            kept.append(row)
            pairs.append(pair)
    means = np.array([pair.mean(axis=1) for pair in pairs]).reshape(-1, 2)
    spreads = [pair.std(axis=1, ddof=1) if pair.shape[1] > 1 else (0.0, 0.0) for pair in pairs]
    return Points(kept, *means.T, *np.array(spreads).reshape(-1, 2).T)


def quadratic(found: Points) -> Polynomial | None:
    """Returns the least-squares parabola through the means; None for fewer than three x.

    It passes exactly through three points, so these do not test it.
    """
    if len(np.unique(found.x)) < 3:
        return None
    return Polynomial.fit(found.x, found.y, 2)
