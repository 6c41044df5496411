"""Uses the model of a finished run: ``ebmjax sample``, ``ebmjax score``, ``ebmjax export``."""

import argparse
import csv
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax.recipes.core.fields import ConfigError, stop

USAGE = """Uses the model of a finished run. The data that it was trained on must still be there.

  ebmjax sample --workdir=RUN --num=64 --out=samples.png     draws new images (or points)
  ebmjax score --workdir=RUN --data=FILE --out=scores.csv    scores your images, one row each
  ebmjax export --workdir=RUN --out=params.safetensors       writes the parameters

sample writes .png (a sheet of images) or .npz (arrays). score reads an .npz file, a folder of
images, or FILE.py:FUNCTION. It writes .csv or .npz: log density or log evidence, and the
probabilities of classes where there are any. Rows are in the order of the source; those of a folder
name their files. export writes .safetensors or .npz, a name for each array.
"""

OUTPUTS = {
    "sample": (".png", ".npz"),
    "score": (".csv", ".npz"),
    "export": (".safetensors", ".npz"),
}


def main() -> None:
    """Reads the command line of the process (``ebmjax sample ...``) and does it.

    Raises:
      SystemExit: with code 2 after a mistake.
    """
    command = sys.argv[0].split()[-1]
    arguments = _parser(command).parse_args(sys.argv[1:])
    out = Path(arguments.out).expanduser()
    if out.suffix not in OUTPUTS[command]:
        stop(f"--out must end in {' or '.join(OUTPUTS[command])}, got {arguments.out!r}.")
    if not out.absolute().parent.is_dir():
        stop(f"--out must lie in a folder that exists, got {arguments.out!r}.")
    from ebmjax.recipes.core.launch import USER_ERRORS, use_compilation_cache
    from ebmjax.recipes.core.trained import load

    use_compilation_cache()
    try:
        fields = {"eval_checkpoint": arguments.checkpoint} if arguments.checkpoint else {}
        if arguments.data_path:
            fields["data_path"] = arguments.data_path
        run = load(arguments.workdir, **fields)
        arrays = {"sample": _sampled, "score": _scored, "export": _exported}[command](
            run, arguments
        )
        _write(out, arrays)
    except (*USER_ERRORS, OSError) as error:
        stop(error)
    shapes = ", ".join(f"{name} {array.shape}" for name, array in list(arrays.items())[:6])
    print(f"{out}: {shapes}{', ...' * (len(arrays) > 6)}")


def _parser(command: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        f"ebmjax {command}",
        description=USAGE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--workdir", required=True, help="folder of the finished run")
    parser.add_argument("--out", required=True, help="file to write")
    parser.add_argument("--checkpoint", choices=["newest", "best"], help="state to use")
    parser.add_argument("--data_path", help="where the run's data lie now, if they were moved")
    if command == "sample":
        parser.add_argument("--num", type=_at_least_one, default=64, help="number of samples")
        parser.add_argument("--num_steps", type=_at_least_one, help="steps of each chain")
        parser.add_argument("--seed", type=int, default=0, help="seed of the samples")
    if command == "score":
        parser.add_argument("--data", required=True, help="your images: file, folder or function")
        parser.add_argument("--split", default="train", help="split of --data, if it has several")
    return parser


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _sampled(run: Any, arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    import jax

    arrays = run.sample(jax.random.key(arguments.seed), arguments.num, arguments.num_steps)
    num_found = len(next(iter(arrays.values())))
    if num_found < arguments.num:
        print(f"{arguments.num - num_found} chains diverged and are left out.")
    if "images" not in arrays and arguments.out.endswith(".png"):
        raise ConfigError("--out must end in .npz for points, which are no images.")
    if not num_found:
        raise ConfigError("every chain diverged, so there is nothing to write.")
    return arrays


def _scored(run: Any, arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    from ebmjax import data

    if len(run.input_shape) == 1:
        try:
            return run.score(data.load_points(arguments.data))
        except ValueError as error:
            raise ConfigError(f"--data: {error}") from error
    name = _source(arguments.data)
    try:
        found = data.load_images(
            name,
            arguments.split,
            path=None if name == arguments.data else arguments.data,
            image_size=run.input_shape[0],
        )
    except (TypeError, ValueError, ImportError) as error:
        raise ConfigError(f"--data={arguments.data}: {error}") from error
    for note in found.notes:
        print(f"--data: {note}")
    images = found.data.images
    if images.shape[1:] != run.input_shape:
        raise ConfigError(
            f"--data must hold images of shape {run.input_shape}, as the run was trained on, got "
            f"{images.shape[1:]}."
        )
    print(f"--data: {len(images):,} images of split {arguments.split!r}; --split=NAME for another")
    # ``load_images`` mixes files, and rows shall be in their order.
    order = np.argsort(data.epoch_indices(0, 0, found.num_found))
    named = {"file": np.array(found.files)[order]} if found.files else {}
    return {**named, **run.score(images[order])}


def _source(path: str) -> str:
    """Returns the name of the source that reads ``path``."""
    place = Path(path).expanduser()
    if place.is_file() or place.suffix in (".npz", ".npy"):
        return "npz"
    if place.is_dir():
        return "npz" if any(place.glob("*.npy")) else "folder"
    if ":" in path:
        return path
    raise FileNotFoundError(f"--data does not exist: {path}.")


def _exported(run: Any, arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(run.params)
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): np.ascontiguousarray(leaf)
        for path, leaf in leaves
    }


def _write(out: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a file whole or not at all."""
    temporary = out.with_name(f"{out.stem}.{os.getpid()}{out.suffix}")
    try:
        WRITERS[out.suffix](temporary, arrays)
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)


def _png(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    from ebmjax.recipes.core.plots import image_grid

    image_grid(path, arrays["images"])


def _csv(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    columns: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.ndim == 1:
            columns[name] = array
        else:
            columns |= {f"{name}_{i}": column for i, column in enumerate(array.T)}
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", *columns])
        writer.writerows(
            [index, *row] for index, row in enumerate(zip(*columns.values(), strict=True))
        )


def _npz(path: Path, arrays: Mapping[str, Any]) -> None:
    np.savez_compressed(path, **arrays)


def _safetensors(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    from safetensors.numpy import save_file

    save_file(dict(arrays), path)


WRITERS: dict[str, Callable[[Path, Mapping[str, np.ndarray]], None]] = {
    ".png": _png,
    ".npz": _npz,
    ".csv": _csv,
    ".safetensors": _safetensors,
}
