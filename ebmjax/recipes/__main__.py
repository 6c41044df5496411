"""The command ``ebmjax``: trains, makes studies, uses what was trained, and shows fields."""

import importlib
import os
import signal
import sys
from types import ModuleType

from ebmjax.recipes.core.fields import REFUSED, stop

COMMANDS = {
    "run": "ebmjax.recipes.core.run",
    "study": "ebmjax.recipes.study.command",
    "fields": "ebmjax.recipes.core.show_fields",
    "list": "ebmjax.recipes.core.show_configs",
    **dict.fromkeys(("sample", "score", "export"), "ebmjax.recipes.core.use"),
}

USAGE = """usage: ebmjax COMMAND ...

  ebmjax run --config=FILE       trains one configuration and fills a folder with its results
  ebmjax study --study=FILE      runs a table of configurations over several seeds
  ebmjax sample --workdir=RUN    draws new images from the model of a finished run
  ebmjax score --workdir=RUN     scores your own images by it
  ebmjax export --workdir=RUN    writes its parameters to a file
  ebmjax fields CONFIG           prints every field of a configuration, with its text and range
  ebmjax list                    prints the configurations and their variants

ebmjax COMMAND --help says more."""


def command(name: str) -> ModuleType:
    """Imports the module of one of ``COMMANDS``; ends the program if an extra is missing."""
    try:
        return importlib.import_module(COMMANDS[name])
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ebmjax"):
            raise
        stop(f'ebmjax {name} needs {error.name}: pip install "ebmjax[experiments]".', REFUSED)


def main() -> None:
    """Hands the command line over to one of ``COMMANDS``."""
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("--help", "-h"):
        print(USAGE)
        sys.exit(0)
    if name not in COMMANDS:
        stop(f"unknown command {name!r}; there are {', '.join(COMMANDS)}.", REFUSED)
    module = command(name)
    sys.argv[:] = [f"ebmjax {name}", *arguments]  # read by the command, and shown to continue it
    try:
        module.main()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has gone, as in ``ebmjax list | head``
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)


if __name__ == "__main__":
    main()
