"""Trains one configuration, from the start or after an interruption, and evaluates it."""

import logging
import os
import signal
import sys

from absl import app, flags
from absl import logging as absl_logging

from ebmjax._phases import phase, tell_phases
from ebmjax.recipes.config import command_line, files
from ebmjax.recipes.config.errors import FAILED, REFUSED, PlainWarnings, stop
from ebmjax.recipes.run import processes
from ebmjax.recipes.run.compilation import cpu_flags, quick_flags

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

--max_steps=N trains N steps, in place of config.train.num_epochs.

=None unsets a field that may be without a value. The folder (--workdir, default
runs/<config>/<time>-<process>) gets config.json, metrics.jsonl, summary.json, checkpoints/, plots/
and TensorBoard event files. Interrupt with Ctrl-C; the same command with the same --workdir
continues, bit for bit. For a data set of tensorflow-datasets, --config.data.path= is the folder of
prepared ones.

--mode=eval evaluates the run of --workdir in full: evaluation.json and, but for latent EBMs and
toy_beta, evaluation.npz and plots/eval_*. Of an unfinished run it takes the newest checkpoint; with
--step=STEP, that of any saved step.
--mode=all trains and then evaluates; the default is --mode=train. The fields of --config.evals may
differ from those the run was trained with.

A CPU is one device for each of its cores, and a run uses as many as divide config.mesh.num_shards.
--num_cpu_devices=N makes it N devices.

--profile writes a trace of the sitting into the run's profile/; --max_steps keeps it short.

--track=wandb or --track=trackio also sends the configuration, the numbers and the pictures of each
step there. The same command continues the same tracked run.

Several processes share a run, each with its devices. Start the same command on each machine with
--coordinator_address=HOST:PORT --num_processes=N --process_id=0 (1, ..., N-1), or the variables
JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID. Under Slurm or on a Cloud TPU,
--distributed alone finds them."""

CONFIG = flags.DEFINE_string("config", None, "Configuration file, with :VARIANT.")
WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run; the same one continues it.")
MODE = flags.DEFINE_enum("mode", "train", ["train", "eval", "all"], "Train, evaluate, or both.")
PROCESSES = {
    "coordinator_address": flags.DEFINE_string(
        "coordinator_address", None, "HOST:PORT of process 0, if several processes share the run."
    ),
    "num_processes": flags.DEFINE_integer("num_processes", None, "Number of these processes."),
    "process_id": flags.DEFINE_integer("process_id", None, "Number of this one, from 0 on."),
    "distributed": flags.DEFINE_bool(
        "distributed", False, "Let Slurm, a Cloud TPU or another cluster tell the three above."
    ),
}

NUM_CPU_DEVICES = flags.DEFINE_integer(
    "num_cpu_devices", None, "Devices that a CPU is; its cores by default.", lower_bound=1
)
STEP = flags.DEFINE_integer("step", None, "Saved step that --mode=eval evaluates.", lower_bound=0)
PROFILE = flags.DEFINE_bool("profile", False, "Write a trace of the training.")
TRACK = flags.DEFINE_enum("track", None, ["wandb", "trackio"], "Send numbers and pictures there.")


def main() -> None:
    """Reads the command line of the process and runs."""
    app.run(execute, flags_parser=parse)


def execute(argv: list[str]) -> None:
    """Runs the configuration of the command line, and ends with the exit code."""
    if len(argv) > 1:
        stop(f"unexpected arguments {argv[1:]}; every option begins with --.")
    absl_logging.set_verbosity(absl_logging.WARNING)  # orbax reports every rename as an info
    logging.getLogger().handlers[:] = [PlainWarnings()]
    config_argument = _config_argument()
    is_smoke = config_argument.endswith(":smoke")
    flags_of_xla = quick_flags(os.environ.get("XLA_FLAGS", "")) if is_smoke else cpu_flags()
    try:
        asked = processes.read_request(**{name: flag.value for name, flag in PROCESSES.items()})
        os.environ["XLA_FLAGS"] = flags_of_xla
        os.environ.update(processes.cpu_devices(NUM_CPU_DEVICES.value, asked))
    except ValueError as error:
        stop(error)
    with processes.join_processes(asked):
        # Only now: --help and mistakes in the command line answer without JAX's second.
        with tell_phases("stdout"), phase("loading JAX"):
            from ebmjax.recipes.run.explain import BROKE_OFF, USER_ERRORS
            from ebmjax.recipes.run.launch import launch

        try:
            signum = launch(
                CONFIG.value,
                config_argument,
                WORKDIR.value,
                MODE.value,
                PROFILE.value,
                STEP.value,
                TRACK.value,
            )
        except USER_ERRORS as error:
            stop(error, FAILED if isinstance(error, BROKE_OFF) else REFUSED)
        except KeyboardInterrupt:
            print("Interrupted outside of training: nothing trained is lost.", file=sys.stderr)
            sys.exit(128 + signal.SIGINT)
        sys.exit(128 + signum if signum else 0)


def _config_argument() -> str:
    """Returns --config as shown: from here or from the project's folder if the file lies below."""
    name = command_line.split(sys.argv)[0] or ""
    path, colon, variant = name.partition(":")
    path = str(files.find(path, "configs", "configuration"))
    for folder in (os.curdir, files.PROJECT):
        relative = os.path.relpath(path, folder)
        if not relative.startswith(".."):
            return relative + colon + variant
    return path + colon + variant


def parse(argv: list[str]) -> list[str]:
    """Parses flags from the command line; reports mistakes in one line."""
    if "--help" in argv or "-h" in argv or len(argv) == 1:
        print(USAGE)
        sys.exit(0)
    return command_line.parse(flags.FLAGS, argv)
