"""Uses the model of a run: ``ebmjax sample``, ``ebmjax score``, ``ebmjax export``."""

import argparse
import csv
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax._phases import phase, tell_phases
from ebmjax._ranges import MAX_INTEGER, MAX_SEED
from ebmjax._shown import SEE_FAQ
from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.config.errors import ConfigError, WorkdirError, stop
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.folder.workdir import check_writable, write_arrays
from ebmjax.recipes.run.compilation import use_compilation_cache, xla_flags
from ebmjax.recipes.run.processes import cpu_devices
from ebmjax.recipes.run.scores import HELD_OUT, score, source_of

USAGE = """Uses the model of a run. The data that it was trained on must still be there. The folder
stays as it is.

  ebmjax sample --workdir=RUN --num=64 --out=samples.png     draws new images (or points)
  ebmjax score --workdir=RUN --data=FILE --out=scores.csv    scores your images, one row each
  ebmjax export --workdir=RUN --out=params.safetensors       writes the parameters

score reads an .npz or .npy file, a folder of images or of .npy files, what datasets.save_to_disk
wrote, or FILE.py:FUNCTION, and writes log density or log evidence, and the probabilities of classes
where there are any. Rows are in the order of the source; those of a folder name their files. Rows
of --against come last and have is_against = 1; it prints how well each score tells the two apart.

An unfinished run is used at its newest checkpoint. --config.evals.checkpoint=best takes the best
state, --config.data.path=PLACE says where the data lie now. Code from outside ebmjax that the
folder names (your own network or sampler, a function that reads the data) is run only if you name
it again, as --config.model.factory=FILE.py:FUNCTION, or trust it with --allow_code.
"""


def main() -> None:
    """Does what the command line (``ebmjax sample ...``) says; ends with code 2 after a mistake."""
    command = sys.argv[0].split()[-1]
    arguments = read_arguments(command, sys.argv[1:])
    try:
        _check_arguments(command, arguments)
    except (ConfigError, WorkdirError) as error:
        stop(error)
    os.environ.update(cpu_devices() | xla_flags())
    # Only now: mistakes that one look tells are answered without JAX's second.
    from ebmjax.recipes.run import trained
    from ebmjax.recipes.run.run import USER_ERRORS

    use_compilation_cache()
    use = {"sample": _draw_samples, "score": score, "export": _name_parameters}[command]
    options = {"step": arguments.step, "allow_code": arguments.allow_code, **arguments.fields}
    try:
        with tell_phases("stdout"):
            arrays = use(trained.load(arguments.workdir, **options), arguments)
        write(arguments.out, arrays)
    except (*USER_ERRORS, OSError) as error:
        stop(error)
    shapes = ", ".join(f"{name} {array.shape}" for name, array in list(arrays.items())[:6])
    print(f"{arguments.out}: {shapes}{', ...' * (len(arrays) > 6)}")


def read_arguments(command: str, argv: list[str]) -> argparse.Namespace:
    """Returns the arguments of "sample", "score" or "export"; ``fields`` are those of --config."""
    made = make_parser(USAGE, f"ebmjax {command}")
    add = made.add_argument
    add("--workdir", required=True, type=_path, help="folder of the run")
    endings = " or ".join(OUTPUTS[command])
    add("--out", required=True, type=_path, help=f"new file to write, {endings}")
    add("--step", type=_integer(0), help="saved step to use (default: the newest)")
    add("--allow_code", action="store_true", help="run code that the folder names (default: no)")
    if command == "sample":
        add("--num", type=_integer(1), default=64, help="number of samples (default: %(default)s)")
        add("--num_steps", type=_integer(1), help="steps of each chain (default: as the run says)")
        add("--seed", type=_integer(0, MAX_SEED), default=0, help="seed (default: %(default)s)")
    if command == "score":
        add("--data", help="your images: file, folder or function (default: the run's own data)")
        add("--split", help=f"split of --data alone (default: test, else {HELD_OUT}, else train)")
        text = "also write log p(x) in nats, with log Z by so many powers (default: the run's)"
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


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _integer(low: int, high: int = MAX_INTEGER) -> Callable[[str], int]:
    def integer(text: str) -> int:
        number = int(text)
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"must be from {low} to {high}, got {number}")
        return number

    return integer


def _check_arguments(command: str, arguments: argparse.Namespace) -> None:
    """Refuses what one look tells: no run, no data, or a file that cannot be written."""
    workdir, out, endings = arguments.workdir, arguments.out, OUTPUTS[command]
    family = run_folder.config_of(workdir).family
    if command == "score" and arguments.nats is not None and family == "latent":
        raise ConfigError("--nats: the scores of a latent model are log evidences already.")
    for option in ("data", "against") if command == "score" else ():
        if place := getattr(arguments, option):
            source_of(place, option)
    if out.suffix not in endings:
        raise ConfigError(f"--out must end in {' or '.join(endings)}, got '{out}'.")
    if not out.absolute().parent.is_dir():
        raise ConfigError(f"--out must lie in a folder that exists, got '{out}'.")
    if out.resolve().is_relative_to(workdir.resolve()):
        raise ConfigError(f"--out must not lie in the run's folder, which stays as it is: '{out}'.")
    if os.path.lexists(out):
        raise ConfigError(f"--out={out} exists: choose another name, or remove it.")
    check_writable(out.absolute().parent, "--out: the folder")


def _draw_samples(run: Any, arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    import jax

    is_picture = arguments.out.suffix == ".png"
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


def write(out: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a file whole or not at all, in the format that its ending names."""
    temporary = out.with_name(f"{out.stem}.{os.getpid()}{out.suffix}")
    try:
        WRITERS[out.suffix](temporary, arrays)
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)


def _png(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    from ebmjax.recipes.evaluators.samples import draw_sheet

    panels = {"samples": arrays["images"], "where their chains started": arrays["start_images"]}
    draw_sheet(path, panels, arrays.get("labels"))


def _csv(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    columns: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.ndim == 1:
            columns[name] = array
        else:
            columns |= {f"{name}_{i}": column for i, column in enumerate(array.T)}
    # Names of files may be any bytes; they are written as they are.
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file)
        writer.writerow(["image", *columns])
        rows = zip(*columns.values(), strict=True)
        writer.writerows([index, *row] for index, row in enumerate(rows))


def _safetensors(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    from safetensors.numpy import save_file

    save_file(dict(arrays), path)


WRITERS = {".png": _png, ".npz": write_arrays, ".csv": _csv, ".safetensors": _safetensors}
OUTPUTS = {
    "sample": (".png", ".npz"),
    "score": (".csv", ".npz"),
    "export": (".safetensors", ".npz"),
}
"""Endings of the files that a command writes."""
