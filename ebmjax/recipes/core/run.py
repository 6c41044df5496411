"""Trains one configuration, from the start or after an interruption, and evaluates it."""

import os
import signal
import sys

from absl import app, flags, logging
from ml_collections import config_flags

from ebmjax.recipes.core import command_line
from ebmjax.recipes.core.fields import FAILED, REFUSED, stop
from ebmjax.recipes.core.quick_compilation import quick_flags

# JAX reads this on import: arrays that a program closes over become arguments. So a sweep over
# powers shares compiled programs, and the informative law of CIFAR adds no 377 MB to one.
os.environ.setdefault("JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS", "true")

USAGE = """Trains one configuration and fills a folder with its results.

  ebmjax run --config=configs/joint.py --config.data.name=npz --config.data.path=mine.npz

"python experiments/run.py" of a checkout is the same. A configuration file is looked for from the
current directory, then among the project's ("ebmjax list" prints them). It may be your own, in any
folder. joint.py, image.py and latent.py are for your own images: --config.data.name is npz, folder,
huggingface or FILE.py:FUNCTION. Without it they train on the packaged digits. Append :VARIANT for a
variant, and change any field ("ebmjax fields CONFIG" prints them). :smoke takes a few steps on few
images, and compiles quickly rather than well:

  ebmjax run --config=configs/thermo_digits.py:smoke
  ebmjax run --config=configs/thermo_digits.py --config.loss.exponent=1.0

=None unsets a field that may be without a value. The folder (--workdir, default
runs/<config>/<time>-<process>) gets config.json, metrics.jsonl, summary.json, checkpoints/, plots/
and TensorBoard event files. Interrupt with Ctrl-C; the same command with the same --workdir
continues, bit for bit. For a data set of tensorflow-datasets, --config.data.path= is the folder of
prepared ones.

--mode=eval evaluates the finished run of --workdir in full: evaluation.json and, but for latent
EBMs and toy_beta, evaluation.npz and plots/eval_*.
--mode=all trains and then evaluates; the default is --mode=train. The fields of --config.eval may
differ from those the run was trained with.

--profile=STEPS writes a trace of so many steps, after the first block, into the run's profile/."""

CONFIG = config_flags.DEFINE_config_file("config", None, "Configuration file, with :VARIANT.")
WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run; the same one continues it.")
MODE = flags.DEFINE_enum("mode", "train", ["train", "eval", "all"], "Train, evaluate, or both.")

PROFILE = flags.DEFINE_integer(
    "profile", None, "Write a trace of so many steps of training.", lower_bound=1
)


def main() -> None:
    """Reads the command line of the process and runs."""
    app.run(execute, flags_parser=parse)


def execute(argv: list[str]) -> None:
    """Builds, trains, summarises and draws; or evaluates."""
    if len(argv) > 1:
        stop(f"unexpected arguments {argv[1:]}; every option begins with --.")
    logging.set_verbosity(logging.WARNING)  # orbax reports every rename at the level of info
    config_argument = _config_argument()
    if config_argument.endswith(":smoke"):
        os.environ["XLA_FLAGS"] = quick_flags(os.environ.get("XLA_FLAGS", ""))
    # Only now: --help and mistakes in the command line answer without JAX's second.
    from ebmjax.recipes.core.launch import BROKE_OFF, USER_ERRORS, launch

    try:
        signum = launch(CONFIG.value, config_argument, WORKDIR.value, MODE.value, PROFILE.value)
    except USER_ERRORS as error:
        stop(error, FAILED if isinstance(error, BROKE_OFF) else REFUSED)
    except KeyboardInterrupt:
        print("Interrupted outside of training: nothing trained is lost.", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    sys.exit(128 + signum if signum else 0)


def _config_argument() -> str:
    """Returns --config as shown: the path from here if the file lies below."""
    path, colon, variant = config_flags.get_config_filename(flags.FLAGS["config"]).partition(":")
    relative = os.path.relpath(path)
    return (path if relative.startswith("..") else relative) + colon + variant


def parse(argv: list[str]) -> list[str]:
    """Parses flags from the command line; reports mistakes in one line."""
    if "--help" in argv or "-h" in argv or len(argv) == 1:
        print(USAGE)
        sys.exit(0)
    return command_line.parse(flags.FLAGS, argv)
