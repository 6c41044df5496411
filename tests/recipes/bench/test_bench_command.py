"""``ebmjax bench``: what it refuses and leaves out, what it writes, and another Python."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import files

from ebmjax.recipes.bench import command, exam, libraries

ADAPTER = """
import numpy as np

PACKAGE = "{package}"
TASKS = {{"sample": {{"good": "exact", "bad": "exact"}}, "logz": {{"plain": ""}}}}


def sample(target, method, starts, step_size, num_gradients, num_kept, seed):
    if method == "bad":
        raise ValueError("no such luck")
    draws = target.draw(np.random.default_rng(seed), starts[..., 0].size * num_kept)
    return draws.reshape(*starts.shape[:2], num_kept, -1), num_gradients


def logz(target, method, num_seeds):
    return np.full(num_seeds, target.log_z), None, 100.0
"""
TARGET = """
from ebmjax.recipes.bench.targets import gaussian


def mine():
    return gaussian(3, 0.1)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("NUM_EXACT", "NUM_CHAINS"):
        monkeypatch.setattr(exam, name, 16)
    monkeypatch.setattr(exam, "NUM_REFERENCE", 1000)
    exam.reference.cache_clear()
    (tmp_path / "adapter.py").write_text(ADAPTER.format(package="numpy"))
    (tmp_path / "elsewhere.py").write_text(ADAPTER.format(package="no_such_package"))
    (tmp_path / "target.py").write_text(TARGET)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def bench(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["ebmjax bench", *arguments])
    command.main()


@pytest.mark.slow
def test_results_and_page(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    arguments = ["--targets=target.py:mine,gaussian2", "--libraries=adapter.py,elsewhere.py"]
    bench(monkeypatch, *arguments, "--seeds=2", "--out=out", f"--python={sys.executable}")
    printed = capsys.readouterr().out
    assert "elsewhere.py is left out: no_such_package is not installed here, nor in" in printed
    assert "6 cells of 2 seeds" in printed
    found = json.loads((folder / "out" / "results.json").read_text())
    assert [row["method"] for row in found["cells"]] == ["good", "bad"] * 2 + ["plain"] * 2
    good, bad, *_, last = found["cells"]
    assert good["verdict"] == "right"
    assert bad["failed"] == "ValueError: no such luck"
    assert last["error"]["mean"] == 0.0
    about = found["about"]
    assert about["machine"]["cores"] >= 1
    assert about["versions"]["adapter.py"] == np.__version__
    page = (folder / "out" / "report.html").read_text()
    for text in ("log Z", "target.py:mine", "no such luck", "<svg", "right"):
        assert text in page
    with pytest.raises(SystemExit, match="--out=out holds results"):
        bench(monkeypatch, *arguments, "--out=out")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            "--targets=gausian2",
            r"--targets must be names .* got 'gausian2'. Did you mean 'gaussian",
        ),
        ("--targets=none.py:f", "--targets=none.py:f cannot be used"),
        ("--tasks=sampling", r"--tasks must be .* Did you mean 'sample'"),
        ("--libraries=", "--libraries must be names with commas"),
        ("--python=/no/such", "--python must be the path of a Python, got '/no/such'"),
        ("--seeds=1", "--seeds must be at least 2, got 1"),
        ("--libraries=elsewhere.py", "there is nothing to do"),
    ],
)
def test_refusals(
    folder: Path, monkeypatch: pytest.MonkeyPatch, argument: str, message: str
) -> None:
    with pytest.raises(SystemExit, match=message) as ending:
        bench(monkeypatch, argument, "--out=out")
    assert ending.value.code == 2
    assert not (folder / "out").exists()


def test_a_folder_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"--out adapter.py/out cannot be used: .* Name") as ending:
        bench(monkeypatch, "--libraries=adapter.py", "--targets=gaussian2", "--out=adapter.py/out")
    assert ending.value.code == 2


@pytest.mark.slow
def test_the_target_and_the_library_of_the_page(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("my_target.py", "my_library.py"):
        (folder / name).write_text(files()[name])
    monkeypatch.setattr(exam, "NUM_CHAINS", 64)
    monkeypatch.setattr(exam, "NUM_EXACT", 512)
    bench(monkeypatch, "--targets=my_target.py:laplace", "--libraries=my_library.py", "--out=out")
    (row,) = json.loads((folder / "out" / "results.json").read_text())["cells"]
    assert row["verdict"] == "right"
    assert row["error"]["mean"] < 0.2 * row["start_error"]["mean"]


@pytest.mark.slow
def test_another_python_returns_what_this_one_does(folder: Path) -> None:
    other = f"{Path(sys.executable).parent}/./{Path(sys.executable).name}"
    cell = "logz", "gaussian2", "adapter.py", "plain", "2"
    here, there = (exam.examine(python, *cell) for python in (sys.executable, other))
    assert here["seconds"] != there.pop("seconds")
    assert there == {name: getattr(here[name], "tolist", lambda: 100.0)() for name in there}
    with pytest.raises(RuntimeError, match="no such luck"):
        exam.examine(other, "sample", "gaussian2", "adapter.py", "bad", "2")


def test_adapters_have_a_function_for_each_task() -> None:
    for library in command.LIBRARIES:
        adapter = libraries.load(library)
        assert all(callable(getattr(adapter, task)) for task in adapter.TASKS), library
        lines = Path(adapter.__file__).read_text().count("\n")
        assert library == "ours" or lines <= 40, library


@pytest.mark.slow
def test_nothing_loads_jax_before_a_cell_runs() -> None:
    code = "import sys, ebmjax.recipes.bench.command; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
