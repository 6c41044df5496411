"""Trains one configuration and fills a folder with its results.

  ebmjax run --config=configs/joint.py --config.data.name=npz --config.data.path=mine.npz
  ebmjax run --config=configs/thermo_digits.py:smoke --config.loss.exponent=1.0

A configuration file is looked for from the current directory, then among the project's ("ebmjax
list" prints them). joint.py, image.py and latent.py are for your own images: --config.data.name is
npz, folder, huggingface or FILE.py:FUNCTION. Append :VARIANT for a variant; :smoke takes a few
steps on few images. Change any field ("ebmjax fields CONFIG" prints them; =None unsets one).
--max_steps=N trains N steps, in place of config.train.num_epochs.

The folder (--workdir, default runs/<config>/<time>-<process>) gets all that the run leaves.
Interrupt with Ctrl-C; the same command with the same --workdir continues, bit for bit. --mode=eval
evaluates the run in full. The fields of --config.evals may differ from those of training.
"""

import logging
import os
import signal
import sys
from typing import Any

from ebmjax._phases import phase, tell_phases
from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.config import command_line
from ebmjax.recipes.config.errors import FAILED, REFUSED, PlainWarnings, stop
from ebmjax.recipes.run.machine import variables


def read_arguments(argv: list[str]) -> Any:
    """Returns the options of a command line; ``config`` is the argument, ``fields`` those set."""
    parser = make_parser(__doc__, "ebmjax run")
    add = parser.add_argument
    add("--config", metavar="FILE[:VARIANT]", help="configuration file (required)")
    add("--workdir", help="folder of the run; the same one continues it")
    add("--mode", choices=["train", "eval", "all"], default="train", help="train, evaluate or both")
    add("--step", type=int, help="saved step that --mode=eval evaluates (default: the newest)")
    config, fields, rest = command_line.split(["", *(argv or ["--help"])])
    options = parser.parse_args(rest[1:])
    if config is None:
        stop("--config is missing. Try --config=configs/joint.py, or --help.")
    options.config, options.fields = config, fields
    return options


def main() -> None:
    """Reads the command line of the process, runs, and ends with the exit code."""
    asked = read_arguments(sys.argv[1:])
    config = command_line.read(asked.config, asked.fields)
    logging.getLogger("absl").setLevel(logging.WARNING)  # orbax reports every rename as an info
    logging.getLogger().handlers[:] = [PlainWarnings()]
    os.environ.update(variables(asked.config.endswith(":smoke")))
    # Only now: --help and mistakes in the command line answer without JAX's second.
    with tell_phases("stdout"), phase("loading JAX"):
        from ebmjax.recipes.run.run import BROKE_OFF, USER_ERRORS, launch

    try:
        signum = launch(config, asked.config, asked.workdir, asked.mode, asked.step)
    except USER_ERRORS as error:
        stop(error, FAILED if isinstance(error, BROKE_OFF) else REFUSED)
    except KeyboardInterrupt:
        print("Interrupted outside of training: nothing trained is lost.", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    sys.exit(128 + signum if signum else 0)
