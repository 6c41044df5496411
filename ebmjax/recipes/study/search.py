"""Searches fields of a configuration for the best number on held-out images, by Optuna.

  ebmjax search --config=FILE --minimize=NUMBER --space=FIELD=LOW..HIGH --config.data.holdout=0.2

With --config=jem_digits, NUMBER may be classification.nll and FIELD sampler.sgld.step_size. Values
of a field are LOW..HIGH, on a log scale where HIGH is ten times LOW, or A,B,C. Every trial is a run
in FOLDER/trial_<number>/seed0, as of a study. The best three run again on three fresh seeds.

The search writes table.md after every trial. FOLDER/journal.log is Optuna's storage. The same
command continues. --jobs=N chooses and runs N trials together. Other options are those of
"ebmjax study --help"."""

import argparse
import contextlib
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import journal
from optuna.trial import FrozenTrial, TrialState, create_trial

from ebmjax._shown import trim
from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.config import command_line, families
from ebmjax.recipes.config.declare import Fields
from ebmjax.recipes.config.errors import Config, ConfigError, WorkdirError, did_you_mean, flatten
from ebmjax.recipes.folder.run_folder import check_links, write_whole
from ebmjax.recipes.study import Study, cells, command, make_flags
from ebmjax.recipes.study.jobs import RunEach
from ebmjax.recipes.study.table import as_markdown, markdown_table, table

BEST = 3  # trials that run again, and fresh seeds of each
HELD_OUT = ("classification.", "ood.", "robustness.", "evidence.")
"""Sections of evaluation.json about the images that judge a run."""

optuna.logging.set_verbosity(optuna.logging.WARNING)


def check_held_out(name: str, config: Config) -> None:
    """Raises ConfigError unless the number ``name`` of a run may choose its settings."""
    is_exact = config.data.name in families.POINTS[:-1]  # judged against the law of the points
    if not is_exact and (not config.data.get("holdout") or config.evals.get("use_test_split")):
        text = "set --config.data.holdout=0.2, and leave config.evals.use_test_split False."
        raise ConfigError(f"a search compares trials by held-out images: {text}")
    if not (config.evals.get("functions") or name.startswith("density." if is_exact else HELD_OUT)):
        text = "such as classification.nll, or one of your own config.evals.functions."
        raise ConfigError(f"--minimize={name} must name a number of held-out images, {text}")


def read_space(texts: Sequence[str], fields: Fields) -> dict[str, Any]:
    """Returns Optuna's distribution of ``FIELD=RANGE``, by field; ConfigError for a mistake."""
    found: dict[str, Any] = {}
    for text in texts:
        name, _, given = text.removeprefix("config.").partition("=")
        if name not in fields or name in found or name in ("family", "seed"):
            near = did_you_mean(name, fields)
            raise ConfigError(f"--space={name} must be a field that can be searched, once.{near}")
        is_whole = fields[name].values.kind is int
        make: Any = IntDistribution if is_whole else FloatDistribution
        try:
            if "," in given:
                found[name] = CategoricalDistribution(given.split(","))
                continue
            low, high = (int(one) if is_whole else float(one) for one in given.split(".."))
            found[name] = make(low, high, log=0 < 10 * low <= high)
        except ValueError as error:
            text = "LOW..HIGH, whole numbers where the field is one, or A,B,C"
            raise ConfigError(f"--space={name} must be {text}; got {given!r}.") from error
    return found


class Search:
    """The trials of one search, and their runs."""

    def __init__(self, options: argparse.Namespace, folder: Path, overrides: Sequence[str]):
        """Checks everything and prints the plan; changes nothing."""
        config = command_line.read(options.file, overrides, is_checked=False)
        self.options, self.folder, self.overrides = options, folder, overrides
        self.space = read_space(options.space, families.all_fields(config.family))
        self.number = options.minimize or options.maximize
        self.cells: dict[int, list[cells.Cell]] = {}
        check_held_out(self.number, config)
        for name, one in self.space.items():
            for end in getattr(one, "choices", ()) or (one.low, one.high):
                cells.check_data(self.make(0, {name: end})[:1])
        self.direction: Any = "minimize" if options.minimize else "maximize"
        ranges = [f"{name}: {one}" for name, one in self.space.items()]
        print(f"{options.trials} trials to {self.direction} {self.number}:", *ranges, sep="\n")
        self.about = ", ".join([options.file, *overrides, self.direction, self.number, *ranges])
        self.path = str(folder.absolute() / "journal.log")
        if Path(self.path).exists():
            self.look()

    def make(self, number: int, values: Mapping[str, object]) -> list[cells.Cell]:
        """Returns the runs of a trial; ends the process if its configuration is refused."""
        study = Study({f"trial {number:03d}": self.options.file}, {})
        return cells.cells(study, self.folder, 1 + BEST, (*self.overrides, *make_flags(values)))

    def cells_of(self, trial: FrozenTrial) -> list[cells.Cell]:
        """Returns the runs of a trial: of seed 0 and fresh seeds; none if it is refused or cut."""
        if trial.number not in self.cells:
            self.cells[trial.number] = []
            with contextlib.suppress(SystemExit):
                if trial.params.keys() == self.space.keys():  # unless a kill cut its choice short
                    self.cells[trial.number] = self.make(trial.number, trial.params)
        return self.cells[trial.number]

    def run(self, run_each: RunEach) -> int:
        """Runs all trials, and the best on fresh seeds; returns the number of failed runs."""
        self.look()
        with Path(self.path).open("r+b") as file:  # without the half line of a killed process
            file.truncate(file.read().rfind(b"\n") + 1)
        self.study = optuna.create_study(direction=self.direction, load_if_exists=True, **self.kept)
        self.study.set_user_attr("about", self.about)
        while group := self.next_group():
            for trial in (one for one in group if not self.cells_of(one)):
                self.study.tell(trial.number, state=TrialState.PRUNED)
            ready = [cell for trial in group for cell in self.cells_of(trial)[:1]]
            text = f"trials to {group[-1].number} of {self.options.trials}"
            if num_failed := command.run_cells(ready, text, self.end, run_each):
                return num_failed
        if not (fresh := self.fresh()):
            raise ConfigError(f"no trial has a finite {self.number}: search smaller ranges.")
        num_failed = command.run_cells(fresh, f"best on {BEST} fresh seeds", self.end, run_each)
        print((self.folder / "table.md").read_text(), end="")
        return num_failed

    def look(self) -> None:
        """Finds trials in the folder; WorkdirError, and no change, for those of another search."""
        check_links(self.folder)
        backend = journal.JournalFileBackend(self.path, journal.JournalFileOpenLock(self.path))
        try:
            storage = optuna.storages.JournalStorage(backend)
            self.kept: Any = {"study_name": "search", "storage": storage}
            if storage.get_all_studies():
                self.check(optuna.load_study(**self.kept))
        except Exception as error:  # of Optuna, too, which takes the journal as it is
            raise WorkdirError(" ".join(f"it holds another search: {error}".split())) from error

    def check(self, study: optuna.Study) -> None:
        """Raises ValueError unless the folder's trials are of this search: fields and values."""
        about = study.user_attrs.get("about", self.about)
        if (about, study.direction.name.lower()) != (self.about, self.direction):
            raise ValueError(about)
        for one in study.trials:
            wrong = [k for k, v in one.distributions.items() if v != self.space.get(k)]
            if wrong := wrong or one.system_attrs.get("fixed_params"):
                raise ValueError(f"trial {one.number} has {trim(wrong)}, which --space has not.")
            kept = self.space if one.state == TrialState.COMPLETE else one.distributions
            create_trial(state=one.state, value=one.value, params=one.params, distributions=kept)
            for cell in self.cells_of(one):
                cell.check()

    def next_group(self) -> list[FrozenTrial]:
        """Returns the trials that run next: those that a killed search left, or new ones."""
        running = (TrialState.RUNNING,)
        if not self.study.get_trials(states=running):
            first, most = len(self.study.trials), self.options.trials
            for number in range(first, min(first + (self.options.jobs or 1), most)):
                self.study.sampler = optuna.samplers.TPESampler(seed=number)
                self.study.ask(self.space)
        return self.study.get_trials(states=running)

    def end(self, cell: cells.Cell) -> None:
        """Ends the trial of a run, and writes the table. A run that recovered has no number."""
        if cell.seed == 0 and cell.status != "missing":
            numbers = flatten(cell.numbers()) if cell.status == "done" else {}
            if numbers and self.number.rpartition(".")[2] not in str(numbers):
                raise ConfigError(f"{cell.folder} reports no number {self.number!r}.")
            number = None if numbers.get("recoveries") else numbers.get(self.number)
            state = TrialState.PRUNED if number is None else TrialState.COMPLETE
            self.study.tell(int(cell.label.split()[1]), number, state=state)
        self.write()

    def fresh(self) -> list[cells.Cell]:
        """Returns the runs of the best trials, the best first, on seeds that chose none."""
        known = self.study.get_trials(states=(TrialState.COMPLETE,))
        known.sort(key=lambda trial: trial.values[0], reverse=self.direction == "maximize")
        return [cell for trial in known[:BEST] for cell in self.cells_of(trial)[1:]]

    def write(self) -> None:
        """Writes the table: all trials, and the best on fresh seeds."""
        fresh, rows = self.fresh(), []
        for one in self.study.trials:
            end = next((cell.status for cell in self.cells_of(one)), "refused")
            rows.append([*map(str, (one.number, *map(one.params.get, self.space), one.value, end))])
        lines = markdown_table(["trial", *self.space, self.number, "how it ended"], rows)
        if fresh:
            columns = {self.number: (self.number, 1.0, 4)}
            best = Study({cell.label: self.options.file for cell in fresh}, columns)
            lines += [f"\nThe best on {BEST} fresh seeds:\n", as_markdown(best, table(best, fresh))]
        for cell in fresh[::BEST]:
            words = cell.command[cell.command.index("run") : -3]
            lines.append(f"\n{cell.label}: `{shlex.join(['ebmjax', *words, '--mode=all'])}`")
        write_whole(self.folder / "table.md", "\n".join(lines) + "\n")


def main() -> None:
    """Reads the command line, checks everything and runs; ends as ``command.start``."""
    parser = make_parser(__doc__, "ebmjax search")
    parser.add_argument("--config", dest="file", required=True, help="configuration, with :VARIANT")
    aim = parser.add_mutually_exclusive_group(required=True)
    for direction in ("minimize", "maximize"):
        aim.add_argument(f"--{direction}", metavar="NUMBER", help="number of held-out images")
    parser.add_argument("--space", action="append", required=True, metavar="FIELD=RANGE")
    parser.add_argument("--trials", type=command.count, default=40, help="in all (default 40)")
    command.start(parser, "searches", lambda *given: Search(*given).run)
