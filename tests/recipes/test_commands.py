"""Every command that a page or a file's head shows passes the checks that precede its work.

bash runs a block with programs that only note their arguments. So loops, variables and quotes mean
here what they mean in a terminal. Each command then goes through its own reader of arguments.
"""

import argparse
import ast
import contextlib
import importlib
import inspect
import os
import re
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from experiment_runs import REPOSITORY
from pages import TEXTS, blocks, files

from ebmjax import data
from ebmjax.recipes import __main__ as program
from ebmjax.recipes.config import command_line
from ebmjax.recipes.run import use
from ebmjax.recipes.run.command import read_arguments
from ebmjax.recipes.study import command as study_command

SCRIPTS = [
    path
    for room in ("benchmarks", "experiments", "ebmjax/recipes", "docs", "tests")
    for path in sorted((REPOSITORY / room).rglob("*.py"))
]
NAMED_ONLY = re.compile(r"\.\.\.|=$|^ebmjax \w+$")
PROGRAM = r"(?:\w+=\S+ )*(?:python|ebmjax|pip|pytest) "
NAME_AND_EXTRAS = r"([\w.-]+?)((?:\[[\w-]+\])?)(?:[<>=].*)?$"
NOTE = """#!/bin/sh
printf '%s\\037' "${0##*/}" "$@" >> "$NOTES"
printf '\\036' >> "$NOTES"
"""


def inline(text: str) -> Iterator[str]:
    """Commands with arguments between backticks."""
    outside = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    for span in re.findall(r"`([^`]+)`", outside):
        line = " ".join(span.split())
        if re.match(PROGRAM, line) and not NAMED_ONLY.search(line):
            yield line


def among_output(text: str) -> Iterator[str]:
    """Commands in blocks of no language, which show output, too."""
    for block in blocks(text, ""):
        for line in block.splitlines():
            if re.match(PROGRAM, line):
                yield line


def in_docstring(text: str) -> Iterator[str]:
    """Commands that stand on lines of their own in a file's first docstring or its USAGE."""
    for node in ast.parse(text).body:
        match node:
            case ast.Expr(ast.Constant(str() as words)):
                pass
            case ast.Assign([ast.Name("USAGE")], ast.Constant(str() as words)):
                pass
            case _:
                continue
        for line in words.splitlines():
            command = re.split(r"\s{3,}", line.strip())[0]
            if re.match(PROGRAM, command) and not re.search(r"\.\.\.|[A-Z]{3}|\[", command):
                yield command


def noted(shell: str, folder: Path) -> list[tuple[str, ...]]:
    """Commands that a bash script runs, each a tuple of its program and arguments."""
    bins = [folder / "bin", folder / "ENVIRONMENT" / "bin"]
    for place in bins:
        place.mkdir(parents=True, exist_ok=True)
        for name in ("python", "ebmjax", "pip", "pytest", "sphinx-build"):
            (place / name).write_text(NOTE)
            (place / name).chmod(0o755)
    notes = folder / "notes"
    notes.write_text("")
    environment = {"PATH": f"{bins[0]}:/usr/bin:/bin", "NOTES": str(notes)}
    subprocess.run(["bash", "-euc", shell], check=True, cwd=folder, env=environment)
    return [tuple(one.split("\x1f")[:-1]) for one in notes.read_text().split("\x1e")[:-1]]


@cache
def commands() -> dict[tuple[str, ...], str]:
    """Every command, and the first place that shows it."""
    found: dict[tuple[str, ...], str] = {}
    shells = {
        page: "\n".join([*blocks(text, "bash"), *among_output(text), *inline(text)])
        for page, text in TEXTS.items()
        if not blocks(text, "diff")  # tests/recipes/test_adding.py makes the changes first
    }
    for path in SCRIPTS:
        shells[str(path.relative_to(REPOSITORY))] = "\n".join(in_docstring(path.read_text()))
    with tempfile.TemporaryDirectory() as folder:
        for place, shell in shells.items():
            for command in noted(shell, Path(folder)) if shell else []:
                found.setdefault(command, place)
    return found


PARSE = argparse.ArgumentParser.parse_args


class Accepted(Exception):  # noqa: N818
    """A command has passed its checks, and its work would begin now."""


@pytest.fixture
def at_work(tmp_path, monkeypatch):
    """A folder with the files that pages ask for; what would do the work raises ``Accepted``."""

    def accepted(*_, **__):
        raise Accepted

    def parse(parser, *arguments):
        PARSE(parser, *arguments)
        raise Accepted

    monkeypatch.setattr(study_command, "run_all", accepted)
    monkeypatch.setattr(use, "_check_arguments", accepted)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    for room in ("experiments", "benchmarks"):
        monkeypatch.syspath_prepend(str(REPOSITORY / room))
    monkeypatch.chdir(tmp_path)
    Path("tests").symlink_to(REPOSITORY / "tests")
    Path("FOLDER").mkdir()  # data that a command names
    Path("FILE").touch()
    for name, text in files().items():
        Path(name).write_text(text)
    return monkeypatch


def run(arguments: tuple[str, ...], at_work: pytest.MonkeyPatch) -> None:
    """Checks a command line of ``ebmjax run``."""
    if "--help" in arguments:
        return
    at_work.setattr(argparse.ArgumentParser, "parse_args", PARSE)
    options = read_arguments(arguments)
    assert options.mode != "eval" or options.workdir
    command_line.read(options.config, options.fields)


def study(arguments: tuple[str, ...], at_work: pytest.MonkeyPatch) -> None:
    """Checks a command line of ``ebmjax study`` and all rows of its study."""
    Path("srun").touch(0o755)  # a machine that submits jobs
    at_work.setenv("PATH", str(Path.cwd()), prepend=os.pathsep)
    at_work.setattr(sys, "argv", ["study.py", *arguments])
    with pytest.raises(Accepted):
        study_command.main()


def script(path: Path, arguments: tuple[str, ...], at_work: pytest.MonkeyPatch) -> None:
    """Checks the command line of a script; one without a reader of arguments takes none."""
    name = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
    main = importlib.import_module(name).main
    if "parser" not in inspect.getsource(main):
        assert not arguments
        return
    for method in ("parse_known_args", "parse_known_intermixed_args"):
        if method not in inspect.getsource(main):
            continue  # fields of runs follow its own arguments

        plain = getattr(argparse.ArgumentParser, method)

        def parse(parser, read=plain):
            assert all(one.startswith("--config.") for one in read(parser)[1])
            raise Accepted

        at_work.setattr(argparse.ArgumentParser, method, parse)
    at_work.setattr(sys, "argv", [str(path), *arguments])
    with pytest.raises(Accepted):
        main()


def configuration(name: str, arguments: tuple[str, ...], at_work: pytest.MonkeyPatch) -> None:
    """Checks a command line of a benchmark that takes the arguments of ``ebmjax run``."""
    module = importlib.import_module(name)
    command = module if hasattr(module, "main") else importlib.import_module("run")

    def accepted(*_):
        raise Accepted

    at_work.setattr(module, OF_CONFIGURATIONS[name], accepted)
    at_work.setattr(sys, "argv", ["run.py", *arguments])
    with pytest.raises(Accepted):
        command.main()


def python(arguments: tuple[str, ...], at_work: pytest.MonkeyPatch) -> None:
    """Checks a command line of Python."""
    first, *rest = arguments
    if first == "-c":
        asks = inspect.signature(data.prepare_tfds).bind
        at_work.setattr(data, "prepare_tfds", asks)
        exec(*rest, {})
    elif first == "-m":
        importlib.import_module(rest[0])
    elif first in files():
        compile(files()[first], first, "exec")
    elif first in ("experiments/run.py", "experiments/study.py"):
        CHECKS[Path(first).stem](tuple(rest), at_work)
    elif first == "benchmarks/run.py" and rest and rest[0] in OF_CONFIGURATIONS:
        configuration(rest[0], tuple(rest), at_work)
    elif Path(first).stem in OF_CONFIGURATIONS:
        configuration(Path(first).stem, tuple(rest), at_work)
    else:
        script(REPOSITORY / first, tuple(rest), at_work)


def ebmjax(arguments: tuple[str, ...], at_work: pytest.MonkeyPatch) -> None:
    """Checks a command line of the console command."""
    name, *rest = arguments
    if name in CHECKS:
        CHECKS[name](tuple(rest), at_work)
    else:
        at_work.setattr(sys, "argv", ["ebmjax", *arguments])
        with contextlib.suppress(Accepted):
            program.main()


def pip(arguments: tuple[str, ...], at_work: pytest.MonkeyPatch) -> None:
    """Checks what a command installs: extras that exist, and packages as the tests install them."""
    known = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = known["optional-dependencies"]
    known_there = [*extras["test"], *extras["examples"]]
    of_tests = dict(re.match(NAME_AND_EXTRAS, one).groups() for one in known_there)
    of_tests["jax-cuda12-plugin"] = "[with-cuda]"  # a compiler, which no test installs
    for name, asked in (re.match(NAME_AND_EXTRAS, one).groups() for one in arguments[1:]):
        assert name != "ebmjax", "pip install CLONE[EXTRA]"
        if name in (".", "CLONE"):
            assert asked.strip("[]") in extras
        else:
            assert asked == of_tests.get(name, ""), "as the extra test has it"


def pytest_paths(arguments: tuple[str, ...], at_work: pytest.MonkeyPatch) -> None:
    """Checks that the files of tests exist."""
    paths = [one.partition("::")[0] for one in arguments if one.startswith("tests/")]
    assert all((REPOSITORY / path).exists() for path in paths)


def sphinx_build(arguments: tuple[str, ...], at_work: pytest.MonkeyPatch) -> None:
    """Checks that the site has a configuration where the command looks for it."""
    assert (REPOSITORY / arguments[-2] / "conf.py").exists()


OF_CONFIGURATIONS = {"configuration": "measure", "compile_for": "find_devices"}
CHECKS = {"run": run, "study": study}
PROGRAMS = {"python": python, "ebmjax": ebmjax, "pip": pip, "pytest": pytest_paths}
PROGRAMS["sphinx-build"] = sphinx_build


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_a_command_passes_its_checks(command, at_work):
    name, *arguments = command
    PROGRAMS[name](tuple(arguments), at_work)
