"""Uses the model of a run: ``ebmjax sample``, ``ebmjax score``, ``ebmjax export``."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax._phases import phase, tell_phases
from ebmjax._ranges import MAX_INTEGER, MAX_SEED
from ebmjax._shown import SEE_FAQ
from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.config.errors import ConfigError, WorkdirError, stop
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.run.compilation import cpu_flags, use_compilation_cache
from ebmjax.recipes.run.outputs import OUTPUTS, check_out, write
from ebmjax.recipes.run.processes import cpu_devices
from ebmjax.recipes.run.scores import HELD_OUT, check_rate, is_own, score_and_flag, source_of

USAGE = f"""Uses the model of a run. The data that it was trained on must still be there. The folder
stays as it is.

  ebmjax sample --workdir=RUN --num=64 --out=samples.png     draws new images (or points)
  ebmjax score --workdir=RUN --data=FILE --out=scores.csv    scores your images, one row each
  ebmjax export --workdir=RUN --out=params.safetensors       writes the parameters

sample writes .png (samples beside their chains' starts, of a joint model with their most probable
classes) or .npz (arrays). score reads an .npz or .npy file, a folder
of images or of .npy files, what datasets.save_to_disk wrote, or FILE.py:FUNCTION. It writes .csv or
.npz: log density or log evidence, and the probabilities of classes where there are any. Rows are in
the order of the source; those of a folder name their files. --split={HELD_OUT} scores images
that the run held out (config.data.holdout), in the run's order; so does a run's own data without a
test split. Without --data the run's own data are scored. export writes .safetensors or .npz, a
name for each array.

score --nats adds log p(x) in nats with its interval, and bits per dimension of images: log Z is
found from below and from above. --nats=N takes N powers (default: evals.nats.num_powers).

score --against=OTHER scores other images, too: their rows come last and have is_against = 1. It
prints how well each score tells the two apart, and draws both histograms beside --out, as .png.

score --false_alarm_rate=0.05 adds is_out_of_distribution: 1 where the log density is lower than
that of all but 5 % of the images held out (config.data.holdout). It prints the threshold and what
share of the run's own kind of images it flags, each with its interval.

An unfinished run is used at its newest checkpoint, or at --step. The first line says which.
--config.evals.checkpoint=best takes the best state, --config.data.path=PLACE says where the data
lie now.

Code from outside ebmjax that the folder names (your own network or sampler, a function that reads
the data) is run only if you name it again, as --config.model.factory=FILE.py:FUNCTION, or trust it
with --allow_code.
"""


def main() -> None:
    """Does what the command line (``ebmjax sample ...``) says; ends with code 2 after a mistake."""
    command = sys.argv[0].split()[-1]
    arguments = read_arguments(command, sys.argv[1:])
    out = Path(arguments.out).expanduser()
    try:
        _check_arguments(command, out, arguments)
    except (ConfigError, WorkdirError) as error:
        stop(error)
    os.environ.update(cpu_devices(None, None), XLA_FLAGS=cpu_flags())
    # Only now: mistakes that one look tells are answered without JAX's second.
    from ebmjax.recipes.run.explain import USER_ERRORS
    from ebmjax.recipes.run.trained import load

    use_compilation_cache()
    use = {"sample": _draw_samples, "score": score_and_flag, "export": _name_parameters}[command]
    options = {"step": arguments.step, "allow_code": arguments.allow_code, **arguments.fields}
    try:
        with tell_phases("stdout"):
            arrays = use(load(arguments.workdir, **options), arguments)
        write(out, arrays)
    except (*USER_ERRORS, OSError) as error:
        stop(error)
    shapes = ", ".join(f"{name} {array.shape}" for name, array in list(arrays.items())[:6])
    print(f"{out}: {shapes}{', ...' * (len(arrays) > 6)}")


def read_arguments(command: str, argv: list[str]) -> argparse.Namespace:
    """Returns the arguments of "sample", "score" or "export"; ``fields`` are those of --config."""
    made = make_parser(USAGE, f"ebmjax {command}")
    add = made.add_argument
    add("--workdir", required=True, help="folder of the run")
    add("--out", required=True, help=f"file to write, {' or '.join(OUTPUTS[command])}")
    add("--overwrite", action="store_true", help="replace the file if it exists (default: refuse)")
    add("--step", type=_integer(0), help="saved step to use (default: the newest)")
    add("--allow_code", action="store_true", help="run code that the folder names (default: no)")
    if command == "sample":
        add("--num", type=_integer(1), default=64, help="number of samples (default: %(default)s)")
        add("--num_steps", type=_integer(1), help="steps of each chain (default: as the run says)")
        add("--seed", type=_integer(0, MAX_SEED), default=0, help="seed (default: %(default)s)")
    if command == "score":
        add("--data", help="your images: file, folder or function (default: the run's own data)")
        text = f"split of --data alone (default: test, else {HELD_OUT}, else train)"
        add("--split", help=text)
        text = "flag what is less likely than this share of the data held out (default: no flags)"
        add("--false_alarm_rate", type=float, metavar="SHARE", help=text)
        text = "also write log p(x) in nats, by so many powers (default: as the run says)"
        add("--nats", type=_integer(2), nargs="?", const=0, help=text)
        add("--against", help="other images, such as those the run has never seen (default: none)")
    arguments, rest = made.parse_known_args(argv)
    arguments.fields = {}
    for one in rest:
        name, equals, value = one.partition("=")
        if not (name.startswith("--config.") and equals):
            made.error(f"unrecognized arguments: {one}; fields are given as --config.NAME=VALUE")
        arguments.fields[name.removeprefix("--config.")] = value
    return arguments


def _integer(low: int, high: int = MAX_INTEGER) -> Any:
    def integer(text: str) -> int:
        number = int(text)
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"must be from {low} to {high}, got {number}")
        return number

    return integer


def _check_arguments(command: str, out: Path, arguments: argparse.Namespace) -> None:
    """Refuses a file that cannot be written, and one that something else needs, at once."""
    if arguments.step is not None and arguments.fields.get("evals.checkpoint") == "best":
        raise ConfigError("--step and --config.evals.checkpoint=best exclude each other.")
    workdir = Path(arguments.workdir).expanduser()
    config = run_folder.config_of(workdir)
    places = [arguments.fields.get("data.path") or config.get("data", {}).get("path", "")]
    outs = [(out, OUTPUTS[command])]
    if command == "score":
        if arguments.split == HELD_OUT and not is_own(places[0], arguments.data):
            raise ConfigError(
                f"--split={HELD_OUT} is of the run's own data: leave out --data={arguments.data}."
            )
        for option in ("data", "against"):
            if place := getattr(arguments, option):
                source_of(place, option)
                places.append(place)
        if arguments.against:
            outs.append((out.with_suffix(".png"), (".png",)))
    for one, endings in outs:
        check_out(one, endings, workdir, places, arguments.overwrite)
    if command == "score":
        check_rate(arguments.false_alarm_rate, config)
        if arguments.nats is not None and config.get("family") == "latent":
            raise ConfigError(
                "--nats needs an energy or a joint model, got a latent one: its scores are log "
                "evidences already. Leave --nats out."
            )


def _draw_samples(run: Any, arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    import jax

    is_picture = arguments.out.endswith(".png")
    if len(run.input_shape) == 1 and is_picture:
        raise ConfigError("--out must end in .npz for points, which are no images.")
    with phase(f"drawing {arguments.num:,} samples"):
        arrays = run.sample(jax.random.key(arguments.seed), arguments.num, arguments.num_steps)
    num_found = len(next(iter(arrays.values())))
    if num_found < arguments.num:
        print(f"{arguments.num - num_found} chains diverged and are left out. {SEE_FAQ}")
    if not num_found:
        raise ConfigError(f"every chain diverged, so there is nothing to write. {SEE_FAQ}")
    if is_picture and run.config.family == "joint":
        arrays["labels"] = run.score(arrays["images"])["class_probability"].argmax(axis=1)
    return arrays


def _name_parameters(run: Any, arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    import jax

    return {
        jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf, order="C")
        for path, leaf in jax.tree_util.tree_leaves_with_path(run.params)
    }
