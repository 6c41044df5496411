"""The command ``ebmjax``: trains, makes studies, uses what was trained, and shows fields."""

import argparse
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import NoReturn

import ebmjax
from ebmjax._versions import versions
from ebmjax.recipes.config.errors import REFUSED, did_you_mean, stop

COMMANDS = {
    "run": "ebmjax.recipes.run.command",
    "study": "ebmjax.recipes.study.command",
    "fields": "ebmjax.recipes.config.show_fields",
    "list": "ebmjax.recipes.study.show",
    "report": "ebmjax.recipes.report.of_run",
    **dict.fromkeys(("sample", "score", "export"), "ebmjax.recipes.run.use"),
}

STOPS_WITH_STDIN = "EBMJAX_STOPS_WITH_STDIN"
"""Variable of the environment that makes the command stop when its stdin is closed."""

USAGE = """usage: ebmjax COMMAND ...

  ebmjax run --config=FILE       trains one configuration and fills a folder with its results
  ebmjax study --study=FILE      runs a table of configurations over several seeds
  ebmjax sample --workdir=RUN    draws new images from the model of a finished run
  ebmjax score --workdir=RUN     scores your own images by it
  ebmjax export --workdir=RUN    writes its parameters to a file
  ebmjax report RUN              writes the report of a run again
  ebmjax fields CONFIG           prints every field of a configuration, with its text and range
  ebmjax list [FILE]             prints the configurations and studies, or the rows of a study
  ebmjax --version               prints the versions of ebmjax, JAX and Python

ebmjax COMMAND --help says more."""


class Parser(argparse.ArgumentParser):
    """Reads arguments; a mistake ends the program in one line."""

    def error(self, message: str) -> NoReturn:
        stop(f"{message}. {self.prog} --help says more.")


def make_parser(text: str | None, program: str | None = None) -> argparse.ArgumentParser:
    """Returns a reader of arguments whose --help is ``text``; ``program`` is the command's name."""
    as_it_is = argparse.RawDescriptionHelpFormatter
    return Parser(program, description=text, formatter_class=as_it_is, allow_abbrev=False)


def command(name: str) -> ModuleType:
    """Imports the module of one of ``COMMANDS``; ends the program if an extra is missing."""
    try:
        return importlib.import_module(COMMANDS[name])
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ebmjax"):
            raise
        stop(f'ebmjax {name} needs {error.name}: pip install "ebmjax[experiments]".', REFUSED)


def quietly(work: Callable[[], None]) -> None:
    """Does ``work``; ends without a word if whoever reads the output has gone (``| head``)."""
    gc.set_threshold(50_000, 20, 20)  # tracing makes many objects and few cycles
    try:
        try:
            work()
        finally:
            sys.stdout.flush()
            gc.freeze()  # Python would look at all objects once more before it ends
    except BrokenPipeError:
        _silence()
        sys.exit(128 + signal.SIGPIPE)


def stop_with_stdin() -> None:
    """Waits until stdin is closed, then stops as by a SIGTERM, silent as its reader has gone."""
    os.read(sys.stdin.fileno(), 1)
    _silence()
    os.kill(os.getpid(), signal.SIGTERM)


def _silence() -> None:
    for stream in (sys.stdout, sys.stderr):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def main() -> None:
    """Hands the command line over to one of ``COMMANDS``."""
    quietly(_hand_over)


def _hand_over() -> None:
    if os.environ.pop(STOPS_WITH_STDIN, ""):
        threading.Thread(target=stop_with_stdin, daemon=True).start()
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("--help", "-h"):
        print(USAGE)
    elif name == "--version":
        found = versions()
        print(f"ebmjax {ebmjax.__version__}, JAX {found['jax']}, Python {found['python']}")
    elif name in COMMANDS:
        module = command(name)
        sys.argv[:] = [f"ebmjax {name}", *arguments]  # read by the command, shown to continue it
        module.main()
    else:
        hint = did_you_mean(name, COMMANDS)
        stop(f"unknown command {name!r}.{hint} There are {', '.join(COMMANDS)}.")


if __name__ == "__main__":
    main()
