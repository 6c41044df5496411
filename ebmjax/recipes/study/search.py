"""Searches fields of a configuration for the best number on held-out images, by Optuna.

  ebmjax search --config=FILE --minimize=NUMBER --space=FIELD=LOW..HIGH --config.data.holdout=0.2

With --config=jem_digits, NUMBER may be classification.nll and FIELD sampler.sgld.step_size. --space
names a field and its values: LOW..HIGH, on a log scale where HIGH is ten times LOW, or A,B,C.
Without them it takes the field's own range, where "ebmjax fields CONFIG" prints two ends or names.
Every trial is a run (ebmjax run --mode=all) in FOLDER/trial_<number>/seed0, as of a study. The best
three run again on three fresh seeds. A trial that diverges has no number.

The search writes table.md and table.json after every trial, and search.png and report.html at its
end. FOLDER/journal.log is Optuna's storage. The same command continues, with the same trials.
--jobs=N chooses N trials together and runs them at the same time. --executor=slurm,
--slurm.NAME=VALUE, --launcher and --dry_run are those of "ebmjax study --help"."""

import argparse
import contextlib
import json
import math
import shlex
import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import journal
from optuna.trial import FrozenTrial, TrialState, create_trial

from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.config import command_line, families
from ebmjax.recipes.config.declare import Field, Fields
from ebmjax.recipes.config.errors import ConfigError, WorkdirError, did_you_mean, stop
from ebmjax.recipes.folder.workdir import check_writable, write_json, write_whole
from ebmjax.recipes.study import Study, cells, command, make_flags, report
from ebmjax.recipes.study.checks import check_data, check_held_out
from ebmjax.recipes.study.cluster import executor_of
from ebmjax.recipes.study.errors import line_of
from ebmjax.recipes.study.study_file import default_folder
from ebmjax.recipes.study.table import as_markdown, descend, table

BEST = 3  # trials that run again, and fresh seeds of each

optuna.logging.set_verbosity(optuna.logging.WARNING)


def read_space(texts: Sequence[str], fields: Fields) -> dict[str, Any]:
    """Returns Optuna's distribution of ``FIELD[=RANGE]``, by field; ConfigError for a mistake."""
    found: dict[str, Any] = {}
    for text in texts:
        name, _, given = text.removeprefix("config.").partition("=")
        if name not in fields or name in found or name in ("family", "seed"):
            near = did_you_mean(name, fields)
            raise ConfigError(f"--space={name} must be a field that can be searched, once.{near}")
        found[name] = _read_range(name, fields[name], given)
    return found


def _read_range(name: str, one: Field, given: str) -> Any:
    values = one.values
    is_number = values.kind in (int, float) and not isinstance(one.default, tuple)
    low, dots, high = given.partition("..")
    if not given and is_number and values.ends is not None:
        low, high = map(str, values.ends)
    elif not dots or not is_number:
        names = values.choices or (("False", "True") if values.kind is bool else ())
        entries = given.split(",") if given else names
        if len({*entries}) == len(entries) > 1 and "" not in entries:
            return CategoricalDistribution(entries)
    with contextlib.suppress(ValueError):
        start, end = (cast(Any, values.kind)(text) for text in (low, high))
        if -math.inf < start < end < math.inf:
            make = IntDistribution if values.kind is int else FloatDistribution
            return make(start, end, log=start > 0 and end >= 10 * start)
    whole = "whole numbers" if values.kind is int else "a number"
    raise ConfigError(
        f"--space={name} must be =LOW..HIGH for {whole}, or =A,B,C, two different values or more; "
        f"got {given!r}."
    )


def open_study(folder: Path, direction: Any, about: str) -> optuna.Study:
    """Returns Optuna's study of a folder; WorkdirError if it holds something else."""
    path = folder.absolute() / "journal.log"
    if (folder / "table.json").exists() and not path.exists():
        raise WorkdirError("it holds a study. Name another folder.")
    backend = journal.JournalFileBackend(str(path), journal.JournalFileOpenLock(str(path)))
    with path.open("r+b") as file:  # without the half line that a killed process left
        file.truncate(file.read().rfind(b"\n") + 1)
    kept = {"study_name": "search", "storage": optuna.storages.JournalStorage(backend)}
    study = optuna.create_study(direction=direction, load_if_exists=True, **kept)
    if not study.user_attrs:
        study.set_user_attr("about", about)
    if study.user_attrs["about"] != about:
        raise WorkdirError(f"it holds another search, {study.user_attrs['about']}.")
    return study


class Search:
    """The trials of one search, and their runs."""

    def __init__(self, options: argparse.Namespace, overrides: Sequence[str], fields: Fields):
        self.options, self.overrides = options, overrides
        self.space = read_space(options.space, fields)
        self.number = options.minimize or options.maximize
        folder = options.folder or default_folder(options.config, "searches")
        self.folder = Path(folder).expanduser()
        self.cells: dict[int, list[cells.Cell]] = {}  # seed 0, then fresh seeds; none if refused

    def make(self, number: int, values: Mapping[str, object]) -> list[cells.Cell]:
        """Returns the runs of a trial; ends the process if its configuration is refused."""
        given = (*self.overrides, *make_flags(values))
        study = Study({f"trial {number:03d}": self.options.config}, {}, common=given)
        return command.add_launcher(cells.cells(study, self.folder, 1 + BEST), self.options)

    def check(self) -> None:
        """Tries the ends of every field; a mistake ends the process or raises ConfigError."""
        ends = {k: getattr(v, "choices", ()) or (v.low, v.high) for k, v in self.space.items()}
        probes = [{name: end} for name in ends for end in ends[name]]
        check_data([self.make(0, probe)[0] for probe in probes])

    def next_group(self, study: optuna.Study) -> list[FrozenTrial]:
        """Returns the trials that run next: those that were running, or new ones.

        A new one is a single record, and depends on the seed and the trials before it alone.
        """
        running = TrialState.RUNNING
        while (num := len(before := study.trials)) < self.options.trials:
            if num % (self.options.jobs or 1) == 0 and study.get_trials(states=(running,)):
                break
            sampler = optuna.samplers.TPESampler(seed=1009 * self.options.seed + num)
            memory = optuna.create_study(direction=study.direction, sampler=sampler)
            memory.add_trials(before)
            params = memory.ask(self.space).params
            study.add_trial(create_trial(state=running, params=params, distributions=self.space))
        return study.get_trials(states=(running,))

    def add(self, study: optuna.Study, trial: FrozenTrial) -> list[cells.Cell]:
        """Returns the run of seed 0; none, and the trial ends, if its configuration is refused."""
        try:
            self.cells[trial.number] = self.make(trial.number, trial.params)
        except SystemExit:
            self.cells[trial.number] = []
            if trial.state == TrialState.RUNNING:
                study.tell(trial.number, state=TrialState.PRUNED)
        for cell in self.cells[trial.number]:
            cell.check()
        return self.cells[trial.number][:1]

    def end(self, study: optuna.Study, cell: cells.Cell) -> None:
        """Ends the trial of a run, and writes the tables.

        A run that recovered ended with other settings than the trial's, so it has no number.
        """
        if cell.seed == 0 and cell.status != "missing":
            numbers = cell.numbers() if cell.status == "done" else {}
            if numbers and self.number.rpartition(".")[2] not in json.dumps(numbers):
                raise ConfigError(f"{cell.folder} reports no number {self.number!r}.")
            number = None if numbers.get("recoveries") else descend(numbers, self.number)
            state = TrialState.PRUNED if number is None else TrialState.COMPLETE
            study.tell(int(cell.label.split()[1]), number, state=state)
        self.write(study)

    def run(self, study: optuna.Study, executor: object) -> int:
        """Runs all trials, and the best on fresh seeds; returns the number of failed runs."""
        how = {"num_jobs": self.options.jobs or 1, "executor": executor}
        start = partial(command.run_cells, ended=partial(self.end, study), **how)
        for trial in study.trials:
            self.add(study, trial)
        while group := self.next_group(study):
            ready = [cell for trial in group for cell in self.add(study, trial)]
            text = f"trials to {group[-1].number} of {self.options.trials}"
            if num_failed := start(ready, text) if ready else 0:
                return num_failed
        if not (fresh := self.rank(study)[1]):
            raise ConfigError(f"no trial has a finite {self.number}: search smaller ranges.")
        num_failed = start(fresh, f"the best trials on {BEST} fresh seeds")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            axes = optuna.visualization.matplotlib.plot_slice(study, target_name=self.number)
        np.asarray(axes, object).flat[0].figure.savefig(self.folder / "search.png")
        report.write(self.folder)
        print((self.folder / "table.md").read_text(), end="")
        return num_failed

    def rank(self, study: optuna.Study) -> tuple[list[FrozenTrial], list[cells.Cell]]:
        """Returns all trials, the best first, and the runs of the best on seeds that chose none."""
        sign, inf = 1 if self.options.minimize else -1, math.inf
        order = lambda one: inf if one.value is None else sign * one.value  # noqa: E731
        ranked = sorted(study.trials, key=order)
        best = [trial for trial in ranked if trial.value is not None][:BEST]
        return ranked, [cell for trial in best for cell in self.cells[trial.number][1:]]

    def write(self, study: optuna.Study) -> None:
        """Writes the tables: all trials, the best first, and the best on fresh seeds."""
        ranked, fresh = self.rank(study)
        lines = [line_of(["trial", *self.space, self.number, "how it ended"])]
        lines.append("|---" * (len(self.space) + 3) + "|")
        for trial in ranked:
            end = next((cell.status for cell in self.cells.get(trial.number, ())), "refused")
            values = [trial.number, *trial.params.values(), trial.value, end]
            lines.append(line_of(map(str, values)))
        found: dict[str, Any] = {}
        if fresh:
            labels = {cell.label: self.options.config for cell in fresh}
            rows = Study(labels, {self.number: (self.number, 1.0, 4)})
            found = table(rows, fresh)
            lines.append(f"\nThe best on {BEST} fresh seeds:\n\n{as_markdown(rows, found)}")
        for cell in fresh[::BEST]:
            words = cell.command[cell.command.index("run") : -3]
            lines.append(f"\n{cell.label}: `{shlex.join(['ebmjax', *words, '--mode=all'])}`")
        write_json(self.folder / "table.json", found)
        write_whole(self.folder / "table.md", "\n".join(lines) + "\n")


def main() -> None:
    """Reads the command line, checks everything and runs; ends as ``command.end_after``."""
    parser = make_parser(__doc__, "ebmjax search")
    parser.add_argument("--config", required=True, help="configuration file, with :VARIANT")
    aim = parser.add_mutually_exclusive_group(required=True)
    for direction in ("minimize", "maximize"):
        aim.add_argument(f"--{direction}", metavar="NUMBER", help="number of held-out images")
    parser.add_argument("--space", action="append", required=True, metavar="FIELD[=RANGE]")
    parser.add_argument("--trials", type=int, default=40, help="trials in all (default 40)")
    parser.add_argument("--seed", type=int, default=0, help="seed of what is tried (default 0)")
    parser.add_argument("--folder", help="default runs/searches/<configuration>[_<variant>]")
    command.add_options(parser, "default 1")
    options, rest = parser.parse_known_args()
    direction = "minimize" if options.minimize else "maximize"
    try:
        overrides = command.overrides_of(options, rest, "jobs", "trials")
        config = command_line.read(options.config, overrides, is_checked=False)
        search = Search(options, overrides, families.all_fields(config.family))
        check_held_out(search.number, direction, config)
        search.check()
        executor = executor_of(options.executor, search.folder / "slurm", options.jobs, rest)
        ranges = [f"{name}: {one}" for name, one in search.space.items()]
        print(f"{options.trials} trials to {direction} {search.number}:", *ranges, sep="\n")
        if options.dry_run:
            sys.exit(0)
        search.folder.mkdir(parents=True, exist_ok=True)
        check_writable(search.folder, "--folder")
        about = [options.config, *overrides, search.number, *ranges, f"seed {options.seed}"]
        study = open_study(search.folder, direction, ", ".join(about))
    except ConfigError as error:
        stop(error)
    except (OSError, WorkdirError) as error:
        stop(f"--folder={search.folder} cannot be used: {error}")
    command.end_after(lambda: search.run(study, executor), " The same command tries again.")
