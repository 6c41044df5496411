"""Writes what a search found: table.md, table.json, search.json, search.png and report.html."""

import json
import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from ebmjax.recipes.config.errors import count_nouns
from ebmjax.recipes.folder.workdir import write_json, write_whole
from ebmjax.recipes.study import Study, report
from ebmjax.recipes.study.cells import Cell
from ebmjax.recipes.study.errors import line_of
from ebmjax.recipes.study.search_trials import Search
from ebmjax.recipes.study.table import as_markdown, table

BEST = 3
"""Trials that run again, and fresh seeds of each."""


def label_of(number: int) -> str:
    """Returns the label of a trial's row, from which its folder has its name."""
    return f"trial {number:03d}"


@dataclass(frozen=True)
class Results:
    """Results of a search so far.

    Attributes:
      trials: all trials, by number.
      ranked: those with a number, the best first.
      search, folder, rows, cells: as of ``SearchPlan``; refused trials have no rows and cells.
    """

    search: Search
    folder: Path
    trials: Sequence[FrozenTrial]
    ranked: Sequence[FrozenTrial]
    rows: Mapping[str, Sequence[str]]
    cells: Mapping[str, Sequence[Cell]]

    @property
    def finalists(self) -> list[str]:
        """Returns the labels of the best trials."""
        return [label_of(trial.number) for trial in self.ranked[:BEST]]

    @property
    def fresh(self) -> list[Cell]:
        """Returns the runs of the best trials on seeds that chose nothing."""
        return [cell for label in self.finalists for cell in self.cells[label][1:]]

    @property
    def is_open(self) -> bool:
        """Returns whether runs on fresh seeds have not ended."""
        return any(cell.status == "missing" for cell in self.fresh)

    def write(self) -> None:
        """Writes the tables."""
        # The best trials on fresh seeds, with their paired differences.
        compared = table(self._study(self.finalists), self.fresh) if self.ranked else {}
        best = self._choose(compared)
        about = [self._describe(trial) for trial in self.trials]
        found: dict[str, Any] = {"number": self.search.number, "direction": self.search.direction}
        found |= {"trials": about, "fresh_seeds": compared}
        text = self._table()
        if any(row["finished"] for row in compared.values()):
            seeds = count_nouns(BEST, "fresh seed")
            text += f"\nThe best {len(compared)}, on {seeds} that chose nothing:\n\n"
            text += as_markdown(self._study([*compared]), compared)
        if best:
            found["best"] = {
                "trial": self.trials[int(best[6:])].number,
                "command": self.command(best),
            }
            known = [value for row in compared.values() for value in row[self.search.number]]
            if not self.is_open and set(known) == {None}:
                text += f"\nNone of these runs has a finite {self.search.number}.\n"
            text += f"\nThe best{' so far' * self.is_open} is {best}:\n\n{self.command(best)}\n"
        every = [cell for label in self.rows for cell in self.cells[label]]
        write_json(self.folder / "search.json", found)
        kept = table(self._study([*self.rows]), every) if self.rows else {}
        write_whole(self.folder / "table.json", json.dumps(kept, indent=2) + "\n")
        write_whole(self.folder / "table.md", text)

    def command(self, label: str) -> str:
        """Returns the command that trains and evaluates a trial again."""
        config, *arguments = self.rows[label]
        command = ["ebmjax", "run", f"--config={config}", *arguments]
        return shlex.join([*command, "--workdir=runs/best", "--mode=all"])

    def finish(self) -> None:
        """Draws the figure and writes the report."""
        if self.ranked:
            _draw(self.search, self.ranked, self.folder / "search.png")
        report.write(self.folder)

    def _study(self, labels: Sequence[str]) -> Study:
        name = self.search.number
        return Study({label: self.rows[label] for label in labels}, {name: (name, 1.0, 4)})

    def _choose(self, compared: Mapping[str, Mapping[str, Any]]) -> str:
        """Returns the best trial: by its fresh seeds once the runs have ended; "" for none."""
        if self.is_open:
            return next(iter(self.finalists), "")
        sign = 1 if self.search.direction == "minimize" else -1

        def badness(label: str) -> tuple[int, float]:
            values = compared[label][self.search.number]
            known = [value for value in values if value is not None]
            return len(values) - len(known), sign * statistics.fmean(known or [0.0])

        return min(self.finalists, key=badness, default="")

    def _describe(self, trial: FrozenTrial) -> dict[str, Any]:
        label = label_of(trial.number)
        return {
            "trial": trial.number,
            "state": {"COMPLETE": "done"}.get(trial.state.name, trial.state.name.lower()),
            "value": trial.value,
            "fields": trial.params,
            **trial.user_attrs,
            "arguments": [*self.rows.get(label, ())][1:],
        }

    def _table(self) -> str:
        """Returns the table of trials: the best first, then those without a number."""
        ended = [trial for trial in self.trials if trial.state.is_finished()]
        others = [trial for trial in self.trials if trial.state != TrialState.COMPLETE]
        lines = [
            f"{len(ended)} of {count_nouns(max(self.search.num_trials, len(ended)), 'trial')}, to "
            f"{self.search.direction} {self.search.number}:\n",
            line_of(["trial", *self.search.space.fields, self.search.number, "how it ended"]),
            "|---" * (len(self.search.space.fields) + 3) + "|",
        ]
        for trial in [*self.ranked, *others]:
            values = [str(trial.params[name]) for name in self.search.space.fields]
            value = "-" if trial.value is None else f"{trial.value:.6g}"
            lines.append(line_of([str(trial.number), *values, value, _end(trial)]))
        return "\n".join(lines) + "\n"


def _end(trial: FrozenTrial) -> str:
    """Returns how a trial ended."""
    notes = trial.user_attrs
    if "diverged_at" in notes:
        step = notes["diverged_at"]
        return f"diverged at step {step}" if step is not None else "diverged"
    if trial.state == TrialState.RUNNING:
        return "not yet"
    return notes.get("why", "done")


def _draw(search: Search, ranked: Sequence[FrozenTrial], path: Path) -> None:
    """Draws the number against each field, of the trials that have one."""
    from ebmjax.recipes.evaluators.plots import figure, shape  # which loads Matplotlib

    fields = search.space.fields
    with figure(path, *shape(len(fields))) as grid:
        for axes, (name, one) in zip(grid.flat, fields.items(), strict=False):
            scale = "log" if getattr(one, "log", False) else "linear"
            axes.set(xlabel=name, ylabel=search.number, xscale=scale)
            x: list[Any] = [trial.params[name] for trial in ranked]
            if isinstance(one, CategoricalDistribution):
                x = [one.choices.index(value) for value in x]
                axes.set_xticks(range(len(one.choices)), map(str, one.choices))
            axes.plot(x, [trial.value for trial in ranked], ".", alpha=0.7)
            axes.plot(x[:1], [ranked[0].value], "*", markersize=11)
