"""Searches fields of a configuration for the best number on held-out images, by Optuna.

  ebmjax search --config=FILE --minimize=NUMBER --space=FIELD=LOW..HIGH --config.data.holdout=0.2

With --config=jem_digits, NUMBER may be classification.nll and FIELD sampler.sgld.step_size.
--space names a field and its values: LOW..HIGH, or A,B,C. Without them it takes the field's own
range, where that has two ends or names; "ebmjax fields CONFIG" prints it. Numbers are drawn on a
log scale where LOW is above 0 and HIGH at least ten times it.

Every trial is a run (ebmjax run --mode=all) in FOLDER/trial_<number>/seed0, as of a study. The best
three run again on three fresh seeds and are compared in pairs. A trial that diverges has no number,
and its step is kept. Trials that share a compiled training step follow one another. Ctrl-C stops
the runs, which save. The same command continues, with the same trials as without the stop.
After every trial the search writes table.md, table.json and search.json. At the end it draws
search.png, writes report.html, and prints the command that runs the best.

With --jobs=N, N trials are chosen together and run at the same time. The next N wait for all of
them. The options --executor=slurm, --slurm.NAME=VALUE, --launcher and --dry_run are those of
"ebmjax study --help". --config.FIELD=VALUE sets a field in every trial."""

import argparse
import contextlib
import io
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import optuna
from optuna.distributions import distribution_to_json
from optuna.trial import FrozenTrial

from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.config import command_line, families
from ebmjax.recipes.config.errors import ConfigError, WorkdirError, count_nouns, stop
from ebmjax.recipes.folder.workdir import check_writable
from ebmjax.recipes.study import Study, cells, make_flags, reader
from ebmjax.recipes.study.cells import Cell
from ebmjax.recipes.study.checks import check_data, check_direction, check_held_out
from ebmjax.recipes.study.cluster import executor_of
from ebmjax.recipes.study.command import (
    add_launcher,
    add_options,
    end_after,
    overrides_of,
    run_cells,
)
from ebmjax.recipes.study.search_results import BEST, Results, label_of
from ebmjax.recipes.study.search_space import edges, read_space
from ebmjax.recipes.study.search_trials import Search, ask, open_study, rank, tell
from ebmjax.recipes.study.study_file import default_folder
from ebmjax.recipes.study.table import descend

STEP = re.compile(r"up to step ([\d,]+)")
"""Step in the last words of a run that diverged."""


@dataclass(frozen=True)
class SearchPlan:
    """A search with the runs of its trials.

    Attributes:
      search: what is searched.
      config: ``CONFIG[:VARIANT]``.
      overrides: ``--config.FIELD=VALUE`` of every trial.
      folder: of the search.
      options: of the command line.
      rows: configuration and arguments of each trial, by its label.
      cells: runs of each trial by its label: seed 0, then fresh seeds.
    """

    search: Search
    config: str
    overrides: Sequence[str]
    folder: Path
    options: argparse.Namespace
    rows: dict[str, list[str]] = field(default_factory=dict)
    cells: dict[str, list[Cell]] = field(default_factory=dict)

    def add(self, number: int, values: Mapping[str, Any]) -> Cell:
        """Makes a trial's runs and returns that of seed 0; a refused configuration ends it."""
        label, given = label_of(number), [*self.overrides, *make_flags(values)]
        unused = command_line.without_effect(self.config, given)
        row = [self.config, *(a for a in given if not unused & {*command_line.read_names([a])})]
        made = cells.cells(Study({label: row}, {}), self.folder, 1 + BEST)
        self.rows[label], self.cells[label] = row, add_launcher(made, self.options)
        return self.cells[label][0]

    def check(self) -> None:
        """Tries the ends of every field, beside the configuration's own values of the others.

        Raises:
          ConfigError: if a field of the space has no effect in any trial.
          SystemExit: if a value is refused.
        """
        fields = self.search.space.fields
        probes = [{name: value} for name, one in fields.items() for value in edges(one)]
        first = {name: edges(one)[0] for name, one in fields.items()}
        flags = [[*self.overrides, *make_flags(first | probe)] for probe in probes]
        unused = (command_line.without_effect(self.config, one) for one in flags)
        for name in sorted(set.intersection(*unused)):
            raise ConfigError(f"config.{name} has no effect in any trial: leave it out.")
        for probe in probes:
            replace(self, rows={}, cells={}).add(0, probe)

    def results(self, study: optuna.Study) -> Results:
        """Returns what was found so far."""
        return Results(self.search, self.folder, study.trials, rank(study), self.rows, self.cells)

    def about(self) -> dict[str, Any]:
        """Returns what makes this search another one than those of other folders."""
        space = {name: distribution_to_json(one) for name, one in self.search.space.fields.items()}
        return {
            "configuration": [self.config, *self.overrides],
            "number": [self.search.direction, self.search.number],
            "space": space,
            "seed": self.search.seed,
        }

    def describe(self) -> str:
        """Returns what will run."""
        search = self.search
        every = " (all that there are)" * (search.num_trials < self.options.trials)
        programs = count_nouns(search.num_programs, "training step")
        plan = (
            f"{count_nouns(search.num_trials, 'trial')}{every} to {search.direction} "
            f"{search.number}; they compile {programs}{' at most' * (search.num_programs > 1)}. "
            f"The best {min(BEST, search.num_trials)} run again on {BEST} fresh seeds:"
        )
        return "\n".join([plan, *search.space.describe()])


def run_trials(plan: SearchPlan, study: optuna.Study, num_jobs: int, executor: Any) -> int:
    """Runs all trials, and the best ones on fresh seeds; returns the number of failed runs."""
    for trial in study.trials:
        _add(plan, study, trial)

    def ended(cell: Cell) -> None:
        if cell.seed == 0 and cell.status != "missing":
            _end(plan.search.number, study, cell)
        plan.results(study).write()

    while group := ask(plan.search, study, num_jobs):
        ready = [cell for trial in group if (cell := _add(plan, study, trial))]
        text = f"{_words(group)} of {plan.search.num_trials:,}"
        if run_failed := run_cells(ready, text, ended, num_jobs, executor) if ready else 0:
            return run_failed
    results = plan.results(study)
    if not results.ranked:
        results.write()
        raise ConfigError(
            f"no trial has a finite {plan.search.number}: {results.folder / 'table.md'} says how "
            "each ended. Search smaller ranges in another folder."
        )
    fresh = results.fresh
    text = f"the best {len(results.finalists)} on {BEST} fresh seeds = {len(fresh)} runs"
    num_failed = run_cells(fresh, text, ended, num_jobs, executor)
    results.write()
    results.finish()
    print((plan.folder / "table.md").read_text(), end="")
    return num_failed


def _words(group: Sequence[FrozenTrial]) -> str:
    """Returns "trial 3 (sampler.sgld.step_size=0.1)", or "trials 3 to 6"."""
    first, last = group[0], group[-1]
    if first is last:
        values = ", ".join(f"{name}={value}" for name, value in first.params.items())
        return f"trial {first.number} ({values})"
    return f"trials {first.number} to {last.number}"


def _add(plan: SearchPlan, study: optuna.Study, trial: FrozenTrial) -> Cell | None:
    """Returns the run of a trial; None, and the trial ends, if its configuration is refused."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # the message stands in the table
            cell = plan.add(trial.number, trial.params)
    except SystemExit as error:
        if not trial.state.is_finished():
            tell(study, trial.number, None, why=str(error).removeprefix("error: "))
        return None
    for one in plan.cells[cell.label]:
        one.check()
    return cell


def _end(name: str, study: optuna.Study, cell: Cell) -> None:
    """Ends the trial of a run: with its number, or as diverged.

    A run that recovered counts as diverged, because it ended with other settings than the trial's.
    One that reports no such number raises ConfigError.
    """
    number = int(cell.label.split()[1])
    numbers = cell.numbers() if cell.status == "done" else {}
    if cell.status == "diverged":
        step = STEP.search((cell.folder / reader.DIVERGED).read_text())
        tell(study, number, None, diverged_at=int(step[1].replace(",", "")) if step else None)
    elif recoveries := numbers.get("recoveries"):
        tell(study, number, None, diverged_at=recoveries[0]["diverged_at"])
    else:
        place, _, last = name.rpartition(".")
        if last not in (descend(numbers, place) if place else numbers):
            raise ConfigError(
                f"{cell.folder} reports no number {name!r}: name another one, in another folder."
            )
        found = descend(numbers, name)
        values = found if isinstance(found, list) else [found]
        if None in values:
            tell(study, number, None, why=f"{name} is not finite")
        else:
            tell(study, number, statistics.fmean(values))


def main() -> None:
    """Reads the command line, checks everything and runs; ends as ``end_after``."""
    parser = make_parser(__doc__, "ebmjax search")
    parser.add_argument("--config", required=True, help="configuration file, with :VARIANT")
    aim = parser.add_mutually_exclusive_group(required=True)
    for direction in ("minimize", "maximize"):
        aim.add_argument(f"--{direction}", metavar="NUMBER", help="number of held-out images")
    parser.add_argument(
        "--space", action="append", required=True, metavar="FIELD[=RANGE]", help="give it for each"
    )
    parser.add_argument("--trials", type=int, default=40, help="trials in all (default 40)")
    parser.add_argument("--seed", type=int, default=0, help="seed of what is tried (default 0)")
    parser.add_argument("--folder", help="default runs/searches/<configuration>[_<variant>]")
    parser.add_argument("--storage", default="", help="URL of Optuna's storage; else the folder")
    add_options(parser, "default 1")
    options, rest = parser.parse_known_args()
    folder = Path(options.folder or default_folder(options.config, "searches")).expanduser()
    try:
        plan, executor = _plan(options, rest, folder)
        if options.dry_run:
            print(plan.describe())
            sys.exit(0)
    except (ConfigError, WorkdirError) as error:
        stop(error)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder, "--folder")
        study = open_study(plan.search, plan.about(), folder, options.storage)
    except (OSError, WorkdirError) as error:
        stop(f"--folder={folder} cannot be used: {error}")
    except ConfigError as error:
        stop(error)
    print(plan.describe(), flush=True)
    end_after(
        lambda: run_trials(plan, study, options.jobs or 1, executor),
        " The same command tries again.",
    )


def _plan(options: argparse.Namespace, rest: Sequence[str], folder: Path) -> tuple[SearchPlan, Any]:
    """Returns the search that a command line names, and submitit's executor or None.

    Raises:
      ConfigError: for whatever would stop the trials.
      SystemExit: for a mistake in the configuration.
    """
    overrides = overrides_of(options, rest, "jobs", "trials")
    config = command_line.read(options.config, overrides, is_checked=False)
    space = read_space(options.space, families.all_fields(config.family))
    for name in sorted({*command_line.read_names(overrides)} & {*space.fields}):
        raise ConfigError(f"--space={name} and --config.{name} exclude each other: leave one out.")
    number = options.minimize or options.maximize
    direction: Literal["minimize", "maximize"] = "minimize" if options.minimize else "maximize"
    check_held_out(number, config)
    check_direction(number, direction)
    search = Search(space, number, direction, options.seed, options.trials)
    num_distinct = len(space.combinations(space.fields, options.trials))
    plan = SearchPlan(
        replace(search, num_trials=num_distinct or options.trials),
        options.config,
        overrides,
        folder,
        options,
    )
    plan.check()
    executor = executor_of(options.executor, folder / "slurm", options.jobs, rest)
    check_data([replace(plan, rows={}, cells={}).add(0, {})])
    return plan, executor
