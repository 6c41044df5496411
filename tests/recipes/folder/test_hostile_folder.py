"""A run's folder from a stranger: whatever it names, nothing is run, followed or left behind."""

import json
import os
import re
import sys

import pytest
from experiment_runs import EXPERIMENTS, change, command, contents, launch, readers
from linear_family import linear

from ebmjax import data, recipes
from ebmjax._user_function import user_function
from ebmjax.recipes.config import declare, families
from ebmjax.recipes.config.errors import ConfigError, WorkdirError
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.run import run as runs
from ebmjax.recipes.study.cells import Cell

OUTPUTS = {"sample": "s.png", "score": "s.csv", "export": "p.npz"}
FACTORY = {"model.factory": "evil.py:make"}
ATTACKS = {
    "file": FACTORY,
    "module": {"model.factory": "evil:make"},
    "command": {"model.factory": "os:system", "model.options.command": "touch canary"},
    "built-in": {"model.factory": "builtins:exec", "model.options.source": "open(1)"},
    "package": {
        "model.factory": "ebmjax._user_function:definitions",
        "model.options.path": "evil.py",
    },
    "package-writes": {
        "model.factory": "ebmjax.recipes.folder.run_folder:write_whole",
        "model.options.path": "canary",
        "model.options.text": "written",
    },
    "source-file": {"data.name": "evil.py:make"},
    "source-module": {"data.name": "evil:make", "data.path": "somewhere"},
    "source-namespace": {"data.name": "evil:make/plain"},
}


@pytest.fixture(autouse=True)
def canary(tmp_path, monkeypatch):
    """A file that the code beside the folder makes when it is imported; it must not be there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    found = tmp_path / "canary"
    (tmp_path / "evil.py").write_text(f"open({str(found)!r}, 'w')\nmake = print\n")
    yield found
    assert not found.exists(), "code that the folder names was run"


def write(folder, saved):
    """A run's folder that has no more than this config.json."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(saved))
    return folder


def hostile(folder, family="joint", **changes):
    """The folder of a run of a family, with ``changes`` by dotted field names."""
    config = declare.defaults(families.all_fields(family))
    for field in changes:
        if field.endswith(".kernel"):  # a section that is read where its sampler is named alone
            name = field.split(".")[1]
            many = {"sampler.names": (name,)} if family == "energy" else {"sampler.name": name}
            config.update_from_flattened_dict(many)
        if field.startswith("evals.comparison."):
            config.data.name = "gmm"
    change(config, changes)
    return write(folder, run_folder.as_json(config))


def refusal(call):
    """The one line with which it is refused."""
    with pytest.raises((WorkdirError, ConfigError)) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_reader_runs_code_that_only_the_folder_names(attack, tmp_path, monkeypatch, capsys):
    folder = hostile(tmp_path / "run", **ATTACKS[attack])
    before = contents(tmp_path)
    field, value = next(iter(ATTACKS[attack].items()))
    said = [refusal(lambda: recipes.load(folder))]
    for name, out in OUTPUTS.items():
        data = ["--data=evil.py"] if name == "score" else []
        with pytest.raises(SystemExit) as ended:
            command(monkeypatch, name, folder, out, *data)
        assert ended.value.code == 2
        said.append(capsys.readouterr().err.removeprefix("error: ").strip())
    for message in said:
        assert f"{folder}/config.json names code from outside ebmjax, config.{field}={value!r}" in (
            message
        )
        assert f"--config.{field}=FILE.py:FUNCTION" in message
        assert "--allow_code" in message
    assert contents(tmp_path) == before


NAMING_CODE = [
    (family, name, ("evil.py:make",) if isinstance(one.default, tuple) else "evil.py:make")
    for family in families.FAMILIES
    for name, one in families.all_fields(family).items()
    if one.values.names_code("evil.py:make")
]


WANTED = {"evals.comparison.samplers": {"evals.comparison.every": "end"}}


@pytest.mark.parametrize(("family", "field", "value"), NAMING_CODE)
def test_no_part_that_only_the_folder_names_is_run(
    family, field, value, tmp_path, monkeypatch, capsys
):
    folder = hostile(tmp_path / "run", family, **WANTED.get(field, {}), **{field: value})
    with pytest.raises(SystemExit):
        command(monkeypatch, "sample", folder, "s.npz")
    said = refusal(lambda: recipes.load(folder))
    assert f"names code from outside ebmjax, config.{field}={value!r}" in said
    assert f"--config.{field}=FILE.py:FUNCTION" in capsys.readouterr().err
    # What the user names again is run.
    (tmp_path / "good.py").write_text("raise ValueError('it was run')\n")
    named = ("good.py:make",) if isinstance(value, tuple) else "good.py:make"
    said = refusal(lambda: recipes.load(folder, **{field.replace(".", "_"): named}))
    assert "names code" not in said


class BuiltError(Exception):
    """Raised in place of building, with the configuration that would have been built."""


@pytest.fixture
def built(monkeypatch):
    def build(run, is_training=False):
        raise BuiltError(run.now)

    monkeypatch.setattr(runs.Run, "build", build)


@pytest.fixture
def whole(finished, monkeypatch):
    """Makes a folder look whole: with a state to use, which is never read here."""
    monkeypatch.setattr(run_folder, "find_saved", lambda *_: "a state")


def built_from(folder, **given):
    with pytest.raises(BuiltError) as caught:
        recipes.load(folder, **given)
    return caught.value.args[0]


def test_what_the_caller_names_is_used_in_place_of_what_the_folder_says(tmp_path, built, whole):
    folder = hostile(tmp_path / "run", **FACTORY, **{"data.name": "evil:make"})
    config = built_from(folder, model_factory="moved/net.py:make", data_name="own.py:images")
    assert (config.model.factory, config.data.name) == ("moved/net.py:make", "own.py:images")
    assert built_from(folder, allow_code=True).model.factory == "evil.py:make"
    for path in (3, None, ["a"]):
        said = refusal(lambda path=path: recipes.load(folder, allow_code=True, data_path=path))
        assert said == f"config.data.path must be a path, or empty, got {path!r}."
    half = refusal(lambda: recipes.load(folder, model_factory="net.py:make"))
    assert "config.data.name='evil:make'" in half


@pytest.mark.parametrize("name", ["os:system", "subprocess:run", "builtins:exec", "os.path:join"])
def test_modules_of_python_itself_are_never_imported(name, tmp_path):
    """Not for an ordinary run, and not for a folder that is trusted."""
    with pytest.raises(
        ValueError, match="names a module of Python itself, which is never imported"
    ):
        user_function(name)
    folder = hostile(tmp_path / "run", **{"model.factory": name})
    changed = run_folder.config_of(folder)
    changed.data.update(image_size=8, num_classes=10, max_train=64, max_test=16)
    message = refusal(lambda: launch(changed, "joint.py", str(tmp_path / "new")))
    assert message.startswith(f"config.model.factory={name!r} names a module of Python itself")
    assert not (tmp_path / "new").exists()


def test_an_evaluation_runs_what_the_command_line_names_and_not_the_folder(tmp_path):
    folder = hostile(tmp_path / "run", **FACTORY)
    ours = declare.defaults(families.all_fields("joint"))
    message = refusal(lambda: launch(ours, "joint.py", str(folder), "eval"))
    assert "model.factory was 'evil.py:make' and is now ''" in message


RECOVERY = {
    "diverged_at": 8,
    "first_skipped": 6,
    "reason": "",
    "from_step": 4,
    "changes": {"optimizer.learning_rate": [0.04, 0.02]},
}
OTHER = [
    ("changes", {"model.factory": ["", "evil.py:make"]}),
    ("changes", {"optimizer": [{}, {}]}),
    ("changes", {"optimizer.learning_rate": [0.04, "evil"]}),
    ("changes", {"optimizer.learning_rate": [0.04, -1.0]}),
    ("changes", {"optimizer.learning_rate": 0.02}),
    ("changes", []),
]
TEXTS = [json.dumps({"recoveries": [RECOVERY | {name: value}]}) for name, value in OTHER]
TEXTS += ["[]", "{}", '{"recoveries": 3}', '{"recoveries": [3]}', "nul"]


@pytest.mark.parametrize("text", TEXTS)
def test_recoveries_change_only_what_recoveries_change(text, tmp_path):
    config = linear(**{"train.on_divergence": "recover"})
    folder = write(tmp_path / "run", run_folder.as_json(config))
    (folder / "checkpoints" / "4").mkdir(parents=True)
    (folder / "recoveries.json").write_text(text)
    before = contents(tmp_path)
    for call in readers(folder, config, tmp_path / "new")[:3]:
        assert refusal(call).startswith(f"{folder}/recoveries.json ")
    assert contents(tmp_path) == before


LINKED = ["config.json", "checkpoints", "best", "plots", "metrics.jsonl", "evaluation.json"]


@pytest.mark.parametrize("name", LINKED)
def test_a_link_out_of_the_folder_is_followed_by_nobody(name, tmp_path):
    """A reader would read what it names, and an evaluation would overwrite it."""
    folder = write(tmp_path / "run", run_folder.as_json(linear()))
    outside = tmp_path / "outside"
    if name in ("checkpoints", "best", "plots"):
        outside.mkdir()
    else:
        outside.write_text((folder / "config.json").read_text())
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(outside)
    before = contents(tmp_path)
    for call in readers(folder, linear(), tmp_path / "new"):
        message = refusal(call)
        assert f"{folder / name} is a link that leads out of the run's folder, to {outside}" in (
            message
        )
    assert contents(tmp_path) == before


def test_a_link_to_the_run_and_one_inside_of_it_are_no_links_out(tmp_path):
    folder = write(tmp_path / "run", run_folder.as_json(linear()))
    (folder / "newest").symlink_to("config.json")
    (tmp_path / "linked").symlink_to(folder)
    assert run_folder.config_of(tmp_path / "linked").family == "linear"
    (folder / "newest").unlink()
    (folder / "newest").symlink_to("../run-of-another-name/config.json")
    assert "leads out" in refusal(lambda: run_folder.config_of(tmp_path / "linked"))


def test_a_run_at_work_may_remove_files_while_they_are_looked_at(tmp_path, monkeypatch):
    folder = write(tmp_path / "run", run_folder.as_json(linear()))
    lstat = os.lstat

    def vanish(path, **given):
        if os.path.basename(path) == "4":
            raise FileNotFoundError(path)
        return lstat(path, **given)

    (folder / "checkpoints" / "4").mkdir(parents=True)
    monkeypatch.setattr(os, "lstat", vanish)
    assert run_folder.config_of(folder).family == "linear"


@pytest.mark.parametrize("name", ["config.json", "pipe", "plots/pipe"])
def test_a_pipe_is_not_waited_for(name, tmp_path):
    folder = write(tmp_path / "run", run_folder.as_json(linear()))
    (folder / "plots").mkdir()
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    assert f"{folder / name} is neither a file nor a folder" in refusal(
        lambda: recipes.load(folder)
    )


def test_names_of_checkpoints_are_numbers(tmp_path):
    folder = write(tmp_path / "run", run_folder.as_json(linear()))
    for name in ("..4", "-1", "04", "²", "٣", "4.damaged", "1e3", "9" * 40):
        (folder / "checkpoints" / name).mkdir(parents=True)
    assert "holds no checkpoint to use" in refusal(lambda: recipes.load(folder))


RUNS_CODE = re.compile(
    r"allow_pickle=True|pickle\.loads?\(|\beval\(|\bexec\(|__import__|import_module\(|run_path\("
)
MAY_RUN_CODE = {
    "__init__.py": "rooms of the package by their names",
    "_user_function.py": "what the person at the keyboard names",
    "data/_tfds.py": "modules of tensorflow-datasets",
    "recipes/__init__.py": "parts of the package by their names",
    "recipes/__main__.py": "commands",
    "recipes/config/command_line.py": "configurations",
    "recipes/config/families.py": "families of the package",
    "recipes/config/files.py": "what configurations share",
    "recipes/config/show_fields.py": "configurations",
    "recipes/evaluators/table.py": "evaluators of the package",
    "recipes/study/cells.py": "study files",
}


def test_nothing_else_of_the_package_runs_or_unpickles_what_it_reads():
    package = EXPERIMENTS.parent / "ebmjax"
    files = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    found = {name for name, path in files.items() if RUNS_CODE.search(path.read_text())}
    assert found == set(MAY_RUN_CODE)


def test_an_evaluation_and_a_summary_from_a_stranger_are_data(tmp_path):
    folder = write(tmp_path / "run", run_folder.as_json(linear()))
    for name in ("evaluation.json", "summary.json"):
        (folder / name).write_text('{"a": ' + "[" * 5000 + "]" * 5000 + "}")
        assert "nested more than 32 levels deep" in refusal(lambda: Cell(folder).numbers())
        (folder / name).unlink()
    (folder / "evaluation.json").write_text('{"evals": {"../../evil": 1}}')
    said = refusal(lambda: run_folder.check_evaluated(folder, linear()))
    assert "was made with another config.evals" in said


@pytest.mark.parametrize("data_path", ["", "elsewhere"])
def test_no_reader_fetches_a_data_set_that_the_folder_names(
    data_path, whole, tmp_path, monkeypatch
):
    """It would be written where the folder says, after a download."""

    def fetch(*_):
        raise AssertionError("a data set was to be prepared")

    monkeypatch.setattr(data._tfds, "prepare_tfds", fetch)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    named = {"data.name": "mnist", "data.path": data_path and str(tmp_path / data_path)}
    folder = hostile(tmp_path / "run", "energy", **named)
    with pytest.raises(data.DataUnavailableError, match="mnist is not prepared: there is no"):
        recipes.load(folder)
