"""Searches: the trials that they make, what they refuse, and what they leave behind."""

import json
import math
import os
import random
import subprocess
import sys

import pytest
import search_runs
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial
from search_runs import fake, interrupt, run, trials_of

from ebmjax.recipes.config import command_line, families
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.study.checks import check_direction, check_held_out
from ebmjax.recipes.study.search_space import Space, read_space
from ebmjax.recipes.study.search_trials import Search, draw

FIELDS = families.all_fields("joint")
STEP, RATE, STEPS = "sampler.sgld.step_size", "optimizer.learning_rate", "sampler.num_steps"


def test_ranges_come_from_the_fields_and_the_command_narrows_them():
    texts = [
        "sampler.buffer.reinit_prob",
        "data.flip",
        "sampler.box",
        f"config.{STEP}=0.01..1",
        "loss.energy_l2=0..1",
        f"{STEPS}=5..100",
        "train.batch_size=16..32",
        "sampler.max_score=None,1.0",
    ]
    space = read_space(texts, FIELDS)
    assert [*space.fields.values()] == [
        FloatDistribution(0.0, 1.0),
        CategoricalDistribution(("False", "True")),
        CategoricalDistribution(("none", "clamp", "reflect", "reject")),
        FloatDistribution(0.01, 1.0, log=True),
        FloatDistribution(0.0, 1.0),
        IntDistribution(5, 100, log=True),
        IntDistribution(16, 32),
        CategoricalDistribution(("None", "1.0")),
    ]
    assert space.traced == {"sampler.buffer.reinit_prob", STEP, "loss.energy_l2"}
    assert space.describe()[3:6] == [
        f"  {STEP}: 0.01 to 1, on a log scale",
        "  loss.energy_l2: 0 to 1",
        f"  {STEPS}: 5 to 100, on a log scale; compiles for every value",
    ]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([STEP], "needs a range, since .* may be any value that is positive .*=LOW..HIGH"),
        (["sampler.sgld.step_sise=1..2"], "is no field that can be searched. Did you mean"),
        (["seed=1..2"], "config.seed is no field that can be searched"),
        ([f"{STEP}=1..2", STEP], "is given twice"),
        ([f"{STEP}=0..2"], "config.sampler.sgld.step_size must be positive and finite, got 0.0"),
        ([f"{STEP}=2..1"], "numbers with LOW below HIGH"),
        ([f"{STEPS}=1.5..3"], "whole numbers with LOW below HIGH"),
        ([f"{STEP}=1"], "one value is set by --config.sampler.sgld.step_size=VALUE"),
        ([f"{STEP}=1,,2"], "two different values or more"),
    ],
)
def test_a_wrong_range_is_refused(texts, message):
    with pytest.raises(ConfigError, match=message):
        read_space(texts, FIELDS)


@pytest.mark.parametrize(
    ("config", "arguments", "name", "message"),
    [
        ("jem_digits", ["data.holdout=0.2"], "classification.nll", None),
        ("jem_digits", ["data.holdout=0.2"], "ood.sets.noise.log_density.auroc", None),
        ("thermo_digits", ["data.holdout=0.2"], "evidence.ais.mean", None),
        ("toy_beta", [], "density.density_tv", None),
        ("toy_beta", [], "energy_gap", "cannot compare trials by 'energy_gap'"),
        ("jem_digits", [], "classification.nll", "config.data.holdout must hold out .* got None"),
        ("jem_digits", ["data.holdout=0.2"], "loss", "must be a number of held-out images"),
        ("jem_digits", ["data.holdout=0.2"], "generation.fresh.fid", "of their distance from"),
        (
            "jem_digits",
            ["data.holdout=0.2", "eval.use_test_split=True"],
            "classification.nll",
            "config.eval.use_test_split must be False",
        ),
        ("igebm_digits", ["data.holdout=0.2"], "test_energy", "nor of energies"),
        (
            "igebm_digits",
            ["data.holdout=0.2", "eval.functions=mine.py:number"],
            "mine",
            None,
        ),
    ],
)
def test_only_numbers_of_held_out_images_compare_trials(config, arguments, name, message):
    flags = [f"--config.{argument}" for argument in arguments]
    found = command_line.read(config, flags, is_checked=False)
    if message is None:
        check_held_out(name, found)
    else:
        with pytest.raises(ConfigError, match=message):
            check_held_out(name, found)


REAL = subprocess.Popen


def find(search, value_of):
    """The values of all trials, each told its number."""
    trials = []
    for _ in range(search.num_trials):
        values = draw(search, trials)
        told = {"params": values, "distributions": dict(search.space.fields)}
        trials.append(create_trial(value=value_of(values), **told))
    return [trial.params for trial in trials]


LOG = FloatDistribution(1e-4, 1.0, log=True)


def test_fields_that_compile_anew_change_least_often_and_all_their_values_are_tried():
    names = CategoricalDistribution(("2", "4", "8"))
    search = Search(Space({STEP: LOG, STEPS: names}, frozenset({STEP})), "x", "minimize", 0, 12)
    made = find(search, lambda values: values[STEP])
    blocks = [{values[STEPS] for values in made[start : start + 3]} for start in range(0, 12, 3)]
    assert [len(block) for block in blocks] == [1, 1, 1, 1]
    assert set.union(*blocks[:3]) == {"2", "4", "8"}
    assert search.num_programs == 3
    many = Space({STEP: LOG, STEPS: IntDistribution(1, 99)}, frozenset({STEP}))
    search = Search(many, "x", "minimize", 0, 16)
    assert search.num_programs == 4
    made = find(search, lambda values: values[STEP])
    assert all(len({values[STEPS] for values in made[i : i + 4]}) == 1 for i in (0, 4, 8, 12))
    assert Search(Space({STEP: LOG}, frozenset({STEP})), "x", "minimize", 0, 9).num_programs == 1


def test_no_trial_is_made_twice_and_a_seed_gives_the_same_trials():
    fields = {name: CategoricalDistribution(("a", "b", "c")) for name in "xy"}
    search = Search(Space(fields, frozenset()), "x", "maximize", 1, 9)
    made = find(search, lambda values: values["x"] == "b")
    assert len({(values["x"], values["y"]) for values in made}) == 9
    assert search.num_programs == 9
    ten = Space({"x": CategoricalDistribution(tuple("abcdefghij"))}, frozenset("x"))
    for seed in range(3):
        made = find(Search(ten, "x", "minimize", seed, 7), lambda values: ord(values["x"]))
        assert len({values["x"] for values in made}) == 7
    space = Space({STEP: LOG}, frozenset({STEP}))
    first, again, other = (
        find(Search(space, "x", "minimize", seed, 12), lambda values: values[STEP])
        for seed in (0, 0, 1)
    )
    assert first == again != other
    assert all(float(f"{values[STEP]:.4g}") == values[STEP] for values in first)


@pytest.mark.slow
def test_a_planted_optimum_is_found_within_40_trials():
    """Both of two numbers over four decades within a factor of 3, for 95 of 100 seeds."""
    fields = {STEP: LOG, RATE: FloatDistribution(1e-5, 0.1, log=True)}
    space, num_found = Space(fields, frozenset(fields)), 0
    for seed in range(100):
        rng = random.Random(seed)
        best = {
            name: 10 ** rng.uniform(math.log10(one.low) + 0.5, math.log10(one.high) - 0.5)
            for name, one in fields.items()
        }

        def distance(values, best=best):
            return sum(math.log10(values[name] / best[name]) ** 2 for name in best)

        found = min(find(Search(space, "x", "minimize", seed, 40), distance), key=distance)
        num_found += all(1 / 3 < found[name] / best[name] < 3 for name in best)
    assert num_found >= 95


@pytest.fixture
def fakes(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", fake)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return monkeypatch


@pytest.mark.slow
def test_a_search_leaves_tables_a_report_and_the_command_of_the_best(fakes, tmp_path, capsys):
    folder = tmp_path / "found"
    assert run("--trials=9", f"--folder={folder}") == 0
    said = capsys.readouterr().out
    assert "9 trials to minimize classification.nll; they compile 2 training steps at most" in said
    made = json.loads((folder / "search.json").read_text())
    assert len(made["trials"]) == 9
    ends = {trial["state"] for trial in made["trials"]}
    assert ends == {"done", "pruned"}
    lost = [trial for trial in made["trials"] if trial["state"] == "pruned"]
    assert {trial["diverged_at"] for trial in lost} == {812}
    best = min((t for t in made["trials"] if t["value"] is not None), key=lambda t: t["value"])
    assert made["best"]["trial"] == best["trial"]
    assert f"trial {best['trial']:03d}" in made["fresh_seeds"]
    assert [row["finished"] for row in made["fresh_seeds"].values()] == [3, 3, 3]
    assert f"--config.{STEP}={best['fields'][STEP]}" in made["best"]["command"]
    text = (folder / "table.md").read_text()
    assert text in said
    assert text.splitlines()[-1] == made["best"]["command"]
    assert "diverged at step 812" in text
    assert (folder / "search.png").exists()
    assert made["best"]["command"] in (folder / "report.html").read_text().replace("&#x27;", "'")
    # The same command goes on with more trials, and keeps those that it has.
    before = trials_of(folder)
    assert run("--trials=12", f"--folder={folder}") == 0
    assert trials_of(folder)[:9] == before
    assert len(trials_of(folder)) == 12


class KilledError(BaseException):
    """Ends a search at once, as a kill does."""


def kill():
    raise KilledError


@pytest.mark.slow
@pytest.mark.parametrize("num_jobs", [1, 2])
def test_a_search_that_is_killed_at_any_moment_ends_with_the_same_trials(fakes, tmp_path, num_jobs):
    arguments = ["--trials=4", f"--jobs={num_jobs}"]
    with fakes.context() as patch:
        seen = interrupt(kill, -2, patch.setattr)
        assert run(*arguments, f"--folder={tmp_path}/whole") == 0
    expected = trials_of(tmp_path / "whole")
    places = sorted({round(i * (len(seen) - 1) / 19) for i in range(20)})
    assert len(places) == 20
    for at in places if num_jobs == 1 else places[::5]:
        folder = tmp_path / f"killed{at}"
        with fakes.context() as patch:
            interrupt(kill, at, patch.setattr)
            with pytest.raises(KilledError):
                run(*arguments, f"--folder={folder}")
        assert run(*arguments, f"--folder={folder}") == 0
        assert trials_of(folder) == expected, at


@pytest.mark.slow
def test_a_search_that_sigkill_ends_goes_on_with_the_same_trials(fakes, tmp_path):
    arguments = ["--trials=4"]
    assert run(*arguments, f"--folder={tmp_path}/whole") == 0
    for at in (3, 9, 20):
        folder = tmp_path / f"killed{at}"
        command = [sys.executable, search_runs.__file__, *arguments, f"--folder={folder}"]
        path = os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"KILL_AT": str(at), "PYTHONPATH": path}
        with fakes.context() as patch:
            patch.setattr(subprocess, "Popen", REAL)
            killed = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert killed.returncode == -9, killed.stderr
        with (folder / "journal.log").open("ab") as file:
            file.write(b'{"op_code":4,"work')  # a line that a kill cut off
        assert run(*arguments, f"--folder={folder}") == 0
        assert trials_of(folder) == trials_of(tmp_path / "whole")


def test_a_dry_run_makes_nothing(fakes, tmp_path, capsys):
    assert run("--dry_run", f"--folder={tmp_path}/none") == 0
    assert "40 trials to minimize" in capsys.readouterr().out
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trials=0"], "--trials must be at least 1, got 0"),
        ([f"--config.{STEP}=1"], f"--space={STEP} and --config.{STEP} exclude each other"),
        (["--space=sampler.mala.step_size=1..2"], "config.sampler.mala.step_size has no effect"),
        (["--space=loss.smoothing=0.5..x"], "numbers with LOW below HIGH"),
        (["--space=train.batch_size=0..8"], "config.train.batch_size must be an integer of at"),
        (["--space=sampler.buffer.size=1,2"], "config.sampler.buffer.size must be at least"),
        (["--space=sampler.box=none,open"], "config.sampler.box must be one of"),
        (["--folder=study"], "it holds a study or another search"),
        (["--slurm.time=3"], "--slurm.time=3 has no effect without --executor=slurm"),
    ],
)
def test_mistakes_end_in_one_line_before_anything_runs(fakes, tmp_path, capsys, arguments, message):
    fakes.chdir(tmp_path)
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "table.json").write_text("{}")
    assert run(*arguments) == 2
    told = capsys.readouterr().err
    assert message in told
    assert len(told.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["study", "table.json"]


def test_a_folder_holds_one_search_and_a_failed_run_is_tried_again(fakes, tmp_path, capsys):
    folder = f"--folder={tmp_path}/one"
    fakes.setattr(subprocess, "Popen", lambda *_, **__: search_runs.Finished(1, "no memory"))
    assert run("--trials=1", folder) == 1
    assert "1 run failed. The same command tries again." in capsys.readouterr().err
    assert [trial[1] for trial in trials_of(tmp_path / "one")] == ["RUNNING"]
    assert run("--trials=1", folder, "--seed=3") == 2
    assert "it holds a search with another seed, 0 and not 3" in capsys.readouterr().err
    fakes.setattr(subprocess, "Popen", fake)
    assert run("--trials=1", folder) == 0
    assert [trial[1] for trial in trials_of(tmp_path / "one")] == [TrialState.COMPLETE.name]


@pytest.mark.parametrize(
    ("wrong", "right"), [("--minimize=test_accuracy", "maximize"), ("--maximize=ece", "minimize")]
)
def test_a_search_refuses_to_make_a_number_worse(wrong, right):
    direction, name = wrong.removeprefix("--").split("=")
    with pytest.raises(ConfigError, match=f"name it --{right}={name}"):
        check_direction(name, direction)
    check_direction(name, right)
    check_direction("loss_of_my_own", direction)


def test_a_number_that_no_run_reports_ends_the_search(fakes, tmp_path, capsys):
    fakes.setattr(
        search_runs,
        "ARGUMENTS",
        (*search_runs.ARGUMENTS[:2], "--minimize=test_nll", *search_runs.ARGUMENTS[3:]),
    )
    assert run("--trials=2", f"--folder={tmp_path}/one") == 2
    assert "reports no number 'test_nll'" in capsys.readouterr().err


def test_a_recovered_run_has_no_number_because_its_settings_are_not_the_trials(fakes, tmp_path):
    def recovers(command, **options):
        process = fake(command, **options)
        folder = next(part[10:] for part in command if part.startswith("--workdir="))
        if process.returncode == 0:
            report = {"recoveries": [{"diverged_at": 7}]}
            search_runs.write_json(search_runs.Path(folder) / "summary.json", report)
        return process

    fakes.setattr(subprocess, "Popen", recovers)
    assert run("--trials=2", f"--folder={tmp_path}/one") == 2
    assert [trial[4] for trial in trials_of(tmp_path / "one")] == [
        {"diverged_at": 7},
        {"diverged_at": 812},
    ]


def test_a_refused_combination_has_no_number_and_the_others_are_all_tried(fakes, tmp_path, capsys):
    """Each value is fine beside the configuration's other fields."""
    fields = ["--space=mesh.num_shards=1,2", "--space=train.batch_size=15,16"]
    fixed = [f"--config.{STEP}=0.5", f"--config.{STEPS}=4"]
    fakes.setattr(search_runs, "ARGUMENTS", (*search_runs.ARGUMENTS[:3], *fields, *fixed))
    assert run(f"--folder={tmp_path}/one") == 0
    said, errors = capsys.readouterr()
    assert errors == ""
    assert "4 trials (all that there are) to minimize" in said
    notes = {
        (t[2]["mesh.num_shards"], t[2]["train.batch_size"]): t for t in trials_of(tmp_path / "one")
    }
    assert len(notes) == 4
    refused = notes.pop(("2", "15"))
    assert refused[1] == "PRUNED"
    assert "must be a multiple of config.mesh.num_shards=2, got 15" in refused[4]["why"]
    assert {t[1] for t in notes.values()} == {"COMPLETE"}


@pytest.mark.slow
def test_trials_may_be_kept_in_a_database(fakes, tmp_path, capsys):
    place = f"--storage=sqlite:///{tmp_path}/trials.db"
    for _ in range(2):
        assert run("--trials=2", place, f"--folder={tmp_path}/one") == 0
    assert not (tmp_path / "one" / "journal.log").exists()
    made = json.loads((tmp_path / "one" / "search.json").read_text())
    assert [trial["state"] for trial in made["trials"]] == ["done", "pruned"]
    capsys.readouterr()
    assert run("--trials=2", "--storage=nowhere://x", f"--folder={tmp_path}/two") == 2
    assert "--storage=nowhere://x cannot be used" in capsys.readouterr().err
