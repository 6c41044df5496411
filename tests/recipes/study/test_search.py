"""Searches whose runs are none: they write a number of their fields at once."""

import contextlib
import json
import math
import subprocess
import sys
import threading
from pathlib import Path

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.distributions import distribution_to_json as to_json
from study_problem import Finished, fail_runs

from ebmjax.recipes.config import command_line, families
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.folder.run_folder import as_json, prepare, write_json
from ebmjax.recipes.study import search

STEP, STEPS, NLL = "sampler.sgld.step_size", "sampler.num_steps", "--minimize=classification.nll"
HELD_OUT = "--config.data.holdout=0.2"
SPACE = (f"--space={STEP}=0.01..1000", f"--space={STEPS}=2,4")
LOCK = threading.Lock()  # runs are threads here, and a configuration file is read by one of them


def fake(command, *, stderr, **options):
    """A run that diverges for a step above 8; its number is least for a step of 0.5, 4 steps."""
    given = dict(part.lstrip("-").split("=", 1) for part in command if part.startswith("--"))
    step, folder = float(given.get(f"config.{STEP}", 1.0)), Path(given["workdir"])
    with LOCK:
        fields = [part for part in command if part.startswith("--config.")]
        config = command_line.read(given["config"], fields)
    prepare(folder, config)
    if step > 8.0:
        return Finished(1, "error: Training diverged: the last 20 steps", stderr)
    nll = math.log10(step / 0.5) ** 2 + 0.1 * (given[f"config.{STEPS}"] == "2")
    nll += 1e-3 * int(given["config.seed"])
    report = {"classification": {"nll": nll}, "evals": as_json(config)["evals"]}
    write_json(folder / "evaluation.json", report)
    return Finished(0, "", stderr)


@pytest.fixture(autouse=True)
def fakes(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", fake)
    monkeypatch.setattr(sys, "argv", ["ebmjax"])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return monkeypatch


def run(*arguments, space=SPACE, number=NLL):
    """Runs the command; returns its exit code."""
    sys.argv[:] = ["ebmjax", "--config=jem_digits:smoke", HELD_OUT, number, *space, *arguments]
    with pytest.raises(SystemExit) as ended:
        search.main()
    return ended.value.code


def trials_of(folder):
    """The trials in a folder's journal: states, fields and numbers."""
    backend = optuna.storages.journal.JournalFileBackend(str(folder.absolute() / "journal.log"))
    storage = optuna.storages.JournalStorage(backend)
    trials = optuna.load_study(study_name="search", storage=storage).trials
    return [(t.number, t.state.name, t.params, t.value) for t in trials]


def test_a_range_is_of_the_kind_of_its_field():
    texts = [f"config.{STEP}=0.01..1", "loss.energy_l2=0..1", f"{STEPS}=5..100"]
    texts.append("sampler.box=none,clamp")
    assert [*search.read_space(texts, families.all_fields("joint")).values()] == [
        FloatDistribution(0.01, 1.0, log=True),
        FloatDistribution(0.0, 1.0),
        IntDistribution(5, 100, log=True),
        CategoricalDistribution(("none", "clamp")),
    ]


@pytest.mark.parametrize(
    ("config", "arguments", "number", "message"),
    [
        ("jem_digits", [HELD_OUT], "minimize=classification.nll", None),
        ("thermo_digits", [HELD_OUT], "maximize=evidence.ais.mean", None),
        ("toy_beta", [], "minimize=density.density_tv", None),
        ("toy_beta", [], "minimize=energy_gap", "must name a number of held-out images"),
        ("jem_digits", [], "minimize=classification.nll", "config.data.holdout=0.2"),
        ("jem_digits", [HELD_OUT], "minimize=loss", "must name a number of held-out images"),
    ],
)
def test_only_numbers_of_held_out_images_compare_trials(config, arguments, number, message):
    name = number.partition("=")[2]
    found = command_line.read(config, arguments, is_checked=False)
    with pytest.raises(ConfigError, match=message) if message else contextlib.nullcontext():
        search.check_held_out(name, found)


@pytest.mark.slow
def test_a_search_leaves_tables_and_the_commands_of_the_best(tmp_path, capsys):
    folder = tmp_path / "found"
    assert run("--trials=9", f"--folder={folder}") == 0
    assert "9 trials to minimize classification.nll" in capsys.readouterr().out
    before = trials_of(folder)
    assert {state for _, state, *_ in before} == {"COMPLETE", "PRUNED"}
    text = (folder / "table.md").read_text()
    best = min((one for one in before if one[3] is not None), key=lambda one: one[3])
    assert f"--config.{STEP}={best[2][STEP]}" in text
    assert text.count("--mode=all") == 3
    assert "diverged" in text
    # The same command goes on with more trials, and keeps those that it has.
    assert run("--trials=12", f"--folder={folder}") == 0
    assert trials_of(folder)[:9] == before
    assert len(trials_of(folder)) == 12


class KilledError(BaseException):
    """Ends a search at once, as a kill does."""


@pytest.mark.slow
def test_a_search_that_is_killed_at_any_moment_goes_on(fakes, tmp_path):
    places = [
        (optuna.Study, "set_user_attr"), (optuna.Study, "ask"), (optuna.Study, "tell"),
        (subprocess, "Popen"), (search, "write_whole"), (optuna.Trial, "_suggest"),
    ]  # fmt: skip
    for number, (place, name) in enumerate(places):
        folder, call = tmp_path / f"killed{number}", getattr(place, name)
        arguments = ["--trials=4", f"--jobs={1 + number % 2}", f"--folder={folder}"]

        def killed(*arguments, call=call, **options):
            call(*arguments, **options)
            raise KilledError

        with fakes.context() as patch:
            patch.setattr(place, name, killed)
            sys.argv[:] = ["", "--config=jem_digits:smoke", HELD_OUT, NLL, *SPACE, *arguments]
            with pytest.raises(KilledError):
                search.main()
        before = [one for one in trials_of(folder) if one[1] == "COMPLETE"]
        with (folder / "journal.log").open("ab") as file:
            file.write(b'{"op_code":4,"work')  # a line that the kill cut off
        assert run(*arguments) == 0
        trials = trials_of(folder)
        assert [one for one in trials if one in before] == before
        assert len(trials) == 4
        assert {state for _, state, *_ in trials} <= {"COMPLETE", "PRUNED"}, name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trials=0"], "argument --trials: invalid count value: '0'"),
        (["--space=loss.energy_l2=2..1"], "must be LOW..HIGH"),
        (["--space=seed=1..2"], "--space=seed must be a field that can be searched"),
        ([f"--space={STEP}=1..2"], "can be searched, once"),
        (["--space=train.batch_size=0..8"], "config.train.batch_size must be an integer of at"),
        (["--space=sampler.box=none,open"], "config.sampler.box must be one of"),
        (["--other=3"], "'--other=3' must be --config.FIELD=VALUE"),
    ],
)
def test_mistakes_end_in_one_line_before_anything_runs(fakes, tmp_path, capsys, arguments, message):
    fakes.chdir(tmp_path)
    assert run(*arguments) == 2
    told = capsys.readouterr().err
    assert message in told
    assert len(told.splitlines()) == 1
    assert run("--dry_run", f"--folder={tmp_path}/none") == 0
    assert not [*tmp_path.iterdir()]


def test_a_folder_holds_one_search_and_a_failed_run_is_tried_again(fakes, tmp_path, capsys):
    folder = f"--folder={tmp_path}/one"
    fail_runs(fakes, "no memory")
    assert run("--trials=1", folder) == 1
    assert "1 run failed. The same command tries again." in capsys.readouterr().err
    assert [trial[1] for trial in trials_of(tmp_path / "one")] == ["RUNNING"]
    assert run("--trials=1", folder, space=SPACE[:1]) == 2
    assert "it holds another search" in capsys.readouterr().err
    fakes.setattr(subprocess, "Popen", fake)
    assert run("--trials=1", folder) == 0
    assert [trial[1] for trial in trials_of(tmp_path / "one")] == ["COMPLETE"]


EVIL, RANGE = CategoricalDistribution(["evil.py:make"]), FloatDistribution(0.01, 1e3, log=True)
FORGED = [(name, EVIL, 0) for name in ("evals.functions", "sampler.name", "model.factory", STEPS)]
FORGED += [(STEP, FloatDistribution(0.01, 1e6), 1.0), (STEP, RANGE, 2e3), (STEP, RANGE, "evil.py")]


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETE", "PRUNED", "WAITING"])
@pytest.mark.parametrize(("name", "one", "value"), FORGED)
def test_a_forged_trial_is_refused_by_name(name, one, value, state, fakes, tmp_path, capsys):
    fail_runs(fakes)
    assert run("--trials=1", f"--folder={tmp_path}") == 1
    trial = {"op_code": 4, "worker_id": "", "study_id": 0, "value": 0.5}
    trial |= {"state": optuna.trial.TrialState[state], "datetime_start": None}
    waits = {"system_attrs": {"fixed_params": {name: value}}}
    trial |= waits if state == "WAITING" else {"params": {name: value}}
    trial["distributions"] = {name: to_json(one)}
    with (tmp_path / "journal.log").open("a") as file:
        file.write(json.dumps(trial) + "\n" + '{"op_code":4,"work')
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    fakes.setattr(subprocess, "Popen", None)
    assert [run(one, f"--folder={tmp_path}") for one in ("--trials=3", "--dry_run")] == [2, 2]
    (told,) = {*capsys.readouterr().err.splitlines()[1:]}
    assert name in told or "evil.py" in told
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_a_refused_combination_has_no_number(tmp_path):
    """Each value is fine beside the configuration's other fields."""
    space = ("--space=mesh.num_shards=1,2", "--space=train.batch_size=15,16")
    fixed = [f"--config.{STEP}=0.5", f"--config.{STEPS}=4"]
    assert run(f"--folder={tmp_path}/one", "--trials=12", *fixed, space=space) == 0
    for _, state, fields, _ in trials_of(tmp_path / "one"):
        is_refused = fields == {"mesh.num_shards": "2", "train.batch_size": "15"}
        assert state == ("PRUNED" if is_refused else "COMPLETE")
