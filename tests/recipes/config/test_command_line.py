import re
import runpy
import sys
from types import SimpleNamespace

import pytest
from experiment_runs import EXPERIMENTS, REPOSITORY, run_script

from ebmjax.recipes.config import command_line
from ebmjax.recipes.config.errors import WorkdirError
from ebmjax.recipes.run import command as run_command
from ebmjax.recipes.run import run
from ebmjax.recipes.study import command as study
from ebmjax.training import DivergenceError

SMOKE = "--config=configs/thermo_digits.py:smoke"
DIGITS = EXPERIMENTS / "configs" / "thermo_digits.py"


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        (REPOSITORY, "configs/thermo_digits.py"),
        (REPOSITORY, "experiments/configs/thermo_digits.py"),
        (EXPERIMENTS, "configs/thermo_digits"),
        ("/", "thermo_digits.py"),
        ("/", "thermo_digits"),
        ("/", str(DIGITS)),
    ],
)
def test_a_config_is_found_from_anywhere(folder, path, monkeypatch):
    monkeypatch.chdir(folder)
    assert command_line.read(f"{path}:smoke", []).train.num_epochs == 5


def test_the_current_directory_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").mkdir()
    own = tmp_path / "configs" / "thermo_digits.py"
    own.write_text(ONE_LINE.format({"seed": 5}))
    assert command_line.read("configs/thermo_digits.py", []).seed == 5


def test_other_arguments_are_left_alone():
    argv = ["run.py", "--workdir=configs/thermo_digits.py", "--configs=x", "--mode", "eval", "more"]
    assert command_line.split([*argv, "--config.seed=3"]) == (None, ["--config.seed=3"], argv)


ONE_LINE = """
from functools import partial
from ebmjax.recipes.models.energy.fields import configure_joint as configure
get_config = partial(configure, base={}, variants={{}})
"""


def parse(*arguments):
    """The options of a command line, with its configuration."""
    options = run_command.read_arguments(arguments)
    options.config = command_line.read(options.config, options.fields)
    return options


def main(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["ebmjax run", *arguments])
    run_command.main()


@pytest.mark.parametrize("config", [[SMOKE], SMOKE.split("=")])
@pytest.mark.parametrize("seed", [["--config.seed=7"], ["--config.seed", "7"]])
def test_values_may_follow_a_space(config, seed):
    options = parse(*config, *seed, "--workdir", "somewhere")
    assert options.config.seed == 7
    assert options.config.train.num_epochs == 5
    assert options.workdir == "somewhere"


@pytest.mark.parametrize("given", [["--max_steps=7"], ["--max_steps", "7"]])
def test_a_length_in_steps_has_a_short_form(given):
    assert parse(SMOKE, *given).config.train.max_steps == 7


@pytest.mark.parametrize(
    ("values", "expected"), [(["0.2", "None"], None), (["None", "0.2"], 0.2), (["None"] * 2, None)]
)
def test_of_two_values_the_last_counts(values, expected):
    fields = [f"--config.optimizer.rho={v}" for v in values]
    assert (
        parse("--config=configs/jem_digits.py:sam", *fields).config.optimizer.get("rho") == expected
    )


def test_help_teaches_and_ends_well(tmp_path):
    for arguments in (["--help"], []):
        finished = run_script(*arguments, cwd=tmp_path)
        assert (finished.returncode, finished.stderr) == (0, "")
        for word in ("configs/thermo_digits.py", ":smoke", "--workdir", "Ctrl-C", "data.path"):
            assert word in finished.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            [SMOKE, "--config.sed=1"],
            "config.sed is no field. Did you mean 'seed'? "
            "`ebmjax fields configs/thermo_digits.py:smoke` prints all.",
        ),
        ([SMOKE, "--config.xyzzy=1"], "config.xyzzy is no field. `ebmjax fields configs/"),
        ([SMOKE, "--config.model=3"], "config.model is a section and keeps its fields"),
        ([SMOKE, "--config.sampler.prior", "{}"], "--config.sampler.prior.FIELD=VALUE"),
        (["--config=configs/thermo_digits.py:smoky"], "unknown variant 'smoky'; there are smoke"),
        (["--config=configs/nowhere.py"], "no configuration file 'configs/nowhere.py'"),
        (["--config=jont"], "Did you mean 'joint'? `ebmjax list` prints all."),
        (["--config.seed=1"], "--config is missing"),
        ([SMOKE, "--work_dir=run"], "unrecognized arguments: --work_dir=run"),
        ([SMOKE, "run"], "unrecognized arguments: run"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_in_the_command_line(arguments, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "launch", pytest.fail)
    with pytest.raises(SystemExit) as ended:
        main(monkeypatch, *arguments)
    told = capsys.readouterr()
    finished = SimpleNamespace(returncode=ended.value.code, stdout=told.out, stderr=told.err)
    assert_told_in_a_paragraph(finished, expected)
    assert not list(tmp_path.iterdir())


FILES = {
    ONE_LINE.format({"sampler.num_steps": "a"}): "config.sampler.num_steps must be an integer of",
    "import nowhere": "own.py, line 1: ModuleNotFoundError: No module named 'nowhere'",
    "x = 1\ndef get_config(v='):": "own.py, line 2: SyntaxError: unterminated string",
    "def get_config(v=''):\n  return {}['a']": "own.py, line 2: KeyError: 'a'",
    "import sys\nsys.exit(3)": "own.py, line 2: SystemExit: 3",
    "def get_config(v=''):\n  pass": "must return a configuration, got None",
    "get = 3": "own.py must define get_config(variant)",
    "def get_config(v=''):\n  return {'seed': 1}": "must return a configuration, got",
}


@pytest.mark.parametrize("text", FILES)
@pytest.mark.parametrize("arguments", [[], ["--config.seed=3"]])
def test_mistakes_in_a_configuration_file(text, arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(SystemExit) as ended:
        command_line.read("own.py", arguments)
    assert ended.value.code == 2
    assert FILES[text] in str(ended.value)
    assert "Error: config" not in str(ended.value)
    assert capsys.readouterr().err.splitlines()[-1] == str(ended.value)


def assert_told_in_a_paragraph(finished, expected):
    assert finished.returncode == 2
    assert expected in finished.stderr
    assert finished.stderr.startswith("error: ")
    assert finished.stderr.count("\n") == 1
    assert finished.stdout == ""


@pytest.mark.parametrize(("error", "code"), [(WorkdirError, 2), (DivergenceError, 1)])
def test_the_exit_code_tells_a_refusal_from_a_run_that_broke_off(error, code, monkeypatch, capsys):
    def end(*_):
        raise error("because.")

    monkeypatch.setattr(run, "launch", end)
    with pytest.raises(SystemExit) as ended:
        main(monkeypatch, SMOKE)
    assert ended.value.code == code
    assert capsys.readouterr().err == f"error: {error('because.')}\n"


def test_a_folder_of_other_things_ends_the_process(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").touch()
    finished = run_script(SMOKE, "--workdir=photos", cwd=tmp_path)
    finished.stdout = re.sub(r"loading JAX.*\n", "", finished.stdout)  # and reminders of it
    assert_told_in_a_paragraph(finished, "--workdir photos holds files but no config.json")
    assert [path.name for path in tmp_path.rglob("*")] == ["photos", "cat.png"]


@pytest.mark.parametrize(
    ("script", "module"),
    [("run", run_command), ("study", study)],
)
def test_the_scripts_run_the_commands_of_the_package(script, module):
    assert runpy.run_path(str(EXPERIMENTS / f"{script}.py"))["main"] is module.main
