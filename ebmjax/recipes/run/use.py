"""Uses the model of a run, whose data must still be there. The folder stays as it is.

  ebmjax sample --workdir=RUN --num=64 --out=samples.png     draws new images (or points)
  ebmjax sample --workdir=RUN --given=FILE --mask=left ...   draws the free pixels of your images
  ebmjax score --workdir=RUN --data=FILE --out=scores.csv    scores your images, one row each
  ebmjax export --workdir=RUN --out=params.safetensors       writes the parameters

score reads an .npz or .npy file, a folder of images or of .npy files, what datasets.save_to_disk
wrote, or FILE.py:FUNCTION: its test images if it names some, else all. It writes log density or log
evidence, and the probabilities of classes where there are any. Rows are in the order of the source;
those of a folder name their files. Without --data it scores what the run's evaluation is of.

--given reads images as --data does. --mask says where they are free: left (half), centre (half in
each direction), or a FILE of their height and width, a picture (free: white) or .npy (free: not 0).
In place of a mask, --operator=FILE.py:FUNCTION, from an image (H, W, C) in [-1, 1] to an array, is
observed with noise of deviation --noise, which is drawn and added.

An unfinished run is used at its newest checkpoint. --config.evals.checkpoint=best takes the best
state, --config.data.path=PLACE says where the data lie now. Your own code that the folder names is
run only if you name it again, as --config.model.factory=FILE.py:FUNCTION, or with --allow_code.
"""

import argparse
import csv
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax._phases import phase, tell_phases
from ebmjax._ranges import MAX_INTEGER
from ebmjax._shown import SEE_FAQ
from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.config import command_line
from ebmjax.recipes.config.errors import ConfigError, WorkdirError, stop
from ebmjax.recipes.config.families import is_points
from ebmjax.recipes.evaluators.result_tables import as_lines, results
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.run.machine import use_compilation_cache, variables

Arrays = dict[str, np.ndarray]


def main() -> None:
    """Does what the command line (``ebmjax sample ...``) says; ends with code 2 after a mistake."""
    command = sys.argv[0].split()[-1]
    arguments = read_arguments(command, sys.argv[1:])
    try:
        _check_arguments(command, arguments)
    except (ConfigError, WorkdirError) as error:
        stop(error)
    os.environ.update(variables())
    # Only now: mistakes that one look tells are answered without JAX's second.
    from ebmjax.recipes.run import trained
    from ebmjax.recipes.run.run import USER_ERRORS

    use_compilation_cache()
    use = {"sample": _draw_samples, "score": _score, "export": _name_parameters}[command]
    options = {"step": arguments.step, "allow_code": arguments.allow_code, **arguments.fields}
    try:
        with tell_phases("stdout"):
            arrays = use(trained.load(arguments.workdir, **options), arguments)
        with run_folder.replacing(arguments.out) as temporary:
            OUTPUTS[command][arguments.out.suffix](temporary, arrays)
    except (*USER_ERRORS, OSError) as error:
        stop(error)
    shapes = ", ".join(f"{name} {array.shape}" for name, array in list(arrays.items())[:6])
    print(f"{arguments.out}: {shapes}{', ...' * (len(arrays) > 6)}")


def read_arguments(command: str, argv: list[str]) -> argparse.Namespace:
    """Returns the arguments of "sample", "score" or "export"; ``fields`` are those of --config."""
    made = make_parser(__doc__, f"ebmjax {command}")
    add = made.add_argument
    add("--workdir", required=True, type=Path, help="folder of the run")
    endings = " or ".join(OUTPUTS[command])
    add("--out", required=True, type=Path, help=f"new file to write, {endings}")
    add("--step", type=int, help="saved step to use (default: the newest)")
    add("--allow_code", action="store_true", help="run code that the folder names (default: no)")
    if command == "sample":
        add("--num", type=int, help="samples (default: 64), or of each given image (default: 8)")
        add("--class", dest="label", help="class of all samples, its name or number")
        add("--given", help="images to complete: file, folder or function")
        add("--mask", help="their free pixels: left, centre or FILE")
        add("--operator", help="function of an image that is observed instead: FILE.py:FUNCTION")
        add("--noise", type=float, help="standard deviation of this observation")
        add("--num_steps", type=int, help="steps of each chain (default: as the run says)")
        add("--seed", type=int, default=0, help="seed (default: %(default)s)")
    if command == "score":
        add("--data", help="your images: file, folder or function (default: those of evaluation)")
        text = "also write log p(x) in nats, with log Z by so many powers (default: the run's)"
        add("--nats", type=int, nargs="?", default=argparse.SUPPRESS, help=text)
    _, fields, rest = command_line.split(["", *argv])
    arguments = made.parse_args(rest[1:])
    arguments.workdir, arguments.out = arguments.workdir.expanduser(), arguments.out.expanduser()
    arguments.fields = dict(one.removeprefix("--config.").split("=", 1) for one in fields)
    return arguments


def _check_arguments(command: str, arguments: argparse.Namespace) -> None:
    """Refuses what one look tells: no run, no data, or a file that cannot be written."""
    workdir, out, endings = arguments.workdir, arguments.out, OUTPUTS[command]
    for name, low in {"num": 1, "num_steps": 1, "seed": 0, "nats": 2}.items():
        number = getattr(arguments, name, None)
        if number is not None and not low <= number <= MAX_INTEGER:
            raise ConfigError(f"--{name} must be from {low} to {MAX_INTEGER}, got {number}.")
    config = run_folder.config_of(workdir)
    if command == "sample":
        names = ("given", "mask", "operator", "noise")
        found = [f"--{name}" for name in names if getattr(arguments, name) is not None]
        if (got := ", ".join(found)) not in ("", "--given, --mask", "--given, --operator, --noise"):
            raise ConfigError(f"--given goes with --mask, or --operator and --noise; got {got}.")
    if "nats" in arguments and config.family == "latent":
        raise ConfigError("--nats: the scores of a latent model are log evidences already.")
    if place := getattr(arguments, "given" if command == "sample" else "data", None):
        source_of(place)
    for is_wrong, what in (
        (out.suffix not in endings, f"must end in {' or '.join(endings)}"),
        (not out.absolute().parent.is_dir(), "must lie in a folder that exists"),
        (os.path.lexists(out), "must be a new file"),
        (out.resolve().is_relative_to(workdir.resolve()), "must not lie in the run's folder"),
    ):
        if is_wrong:
            raise ConfigError(f"--out {what}, got '{out}'.")
    run_folder.check_writable(out.absolute().parent, "--out: the folder")


def _draw_samples(run: Any, arguments: argparse.Namespace) -> Arrays:
    import jax

    is_picture = arguments.out.suffix == ".png"
    if len(run.input_shape) == 1 and is_picture:
        raise ConfigError("--out must end in .npz for points, which are no images.")
    num, key = arguments.num or (8 if arguments.given else 64), jax.random.key(arguments.seed)
    draw = partial(run.sample, key, num, arguments.num_steps, label=arguments.label)
    if arguments.given:
        return _complete(run, arguments, draw)
    with phase(f"drawing {num:,} samples"):
        arrays = draw()
    num_found = len(next(iter(arrays.values())))
    if num_found < num:
        print(f"{num - num_found} chains diverged and are left out. {SEE_FAQ}")
    if not num_found:
        raise ConfigError(f"every chain diverged, so there is nothing to write. {SEE_FAQ}")
    if is_picture and run.config.family == "joint":
        arrays["labels"] = run.score(arrays["images"])["class_probability"].argmax(axis=1)
    elif names := "labels" in arrays and getattr(run.model, "class_names", ()):
        arrays["class_names"] = np.array(names)
    return arrays


def _complete(run: Any, arguments: argparse.Namespace, draw: Any) -> Arrays:
    """Returns samples of images that are known in part, and their scores; prints means of these."""
    import jax
    import jax.numpy as jnp

    from ebmjax import data
    from ebmjax._user_function import user_function
    from ebmjax.recipes.evaluators.inpainting import score

    options = {"mask": arguments.mask}
    try:
        truth = given = _read(run, arguments.given)[0]
        if name := arguments.operator:
            options = {"operator": user_function(name), "noise": arguments.noise}
            seen = jax.vmap(options["operator"])(data.to_signed_unit(jnp.asarray(truth)))
            key = jax.random.fold_in(jax.random.key(arguments.seed), 1)
            given = np.asarray(seen + arguments.noise * jax.random.normal(key, seen.shape))
        found = draw(given=given, **options)
    except (TypeError, ValueError, ImportError) as error:
        raise ConfigError(f"--given={arguments.given}: {error}") from error
    observed = {"observed": given} if arguments.operator else {}
    report, per_image = score(found, truth)
    print(as_lines(results({"inpainting": report})))
    return {**found, "given": truth, **observed, **per_image}


def _name_parameters(run: Any, arguments: argparse.Namespace) -> Arrays:
    import jax

    return {
        jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf, order="C")
        for path, leaf in jax.tree_util.tree_leaves_with_path(run.params)
    }


def _score(run: Any, arguments: argparse.Namespace) -> Arrays:
    """Returns the scores of images or points in the order of their source, and prints a summary."""
    import jax

    from ebmjax.recipes.evaluators import nats, table

    place, judge = arguments.data, None
    if "nats" in arguments:
        options = table.options(run.config, "nats")
        del options["num_images"]
        options["num_powers"] = arguments.nats or options["num_powers"]
        with phase("normalising the density"):
            judge = nats.normalise(jax.random.key(0), run.model, **options)
    what = f"--data={place}" if place else "the run's own data"
    try:
        inputs, labels, arrays = _read(run, place)
        with phase(f"scoring {len(inputs):,} of {what}"):
            arrays |= run.score(inputs)
            found = {} if judge is None else judge.score(inputs, jax.random.key(1))
    except (TypeError, ValueError, ImportError) as error:
        raise ConfigError(f"{what}: {error}") from error
    if judge is not None:
        print(as_lines(results({"nats": judge.summarise(found)})))
    if labels is not None and "class_probability" in arrays:
        share = np.mean(arrays["class_probability"].argmax(axis=1) == labels)
        print(f"{what}: accuracy {share:.4f} by the classes of these images")
    if (names := getattr(run.model, "class_names", ())) and arguments.out.suffix == ".csv":
        of_class = zip(names, arrays.pop("class_probability").T, strict=True)
        arrays |= {f"class_probability_{name}": column for name, column in of_class}
    return arrays | found


def _read(run: Any, place: str | None) -> tuple[np.ndarray, np.ndarray | None, Arrays]:
    """Returns images or points, their labels if they have any, and the names of their files."""
    from ebmjax import data
    from ebmjax.recipes.parts import image_data, points_data

    if place is None:
        load = points_data.load if is_points(run.config) else image_data.load
        own = load(run.config)[0].evaluated
        print(f"the run's own data: {len(own.images):,} that its evaluation is of")
        return own.images, own.labels if run.config.data.num_classes else None, {}
    if is_points(run.config):
        return data.load_points(place), None, {}
    section, name = run.config.data, source_of(place)
    options = {
        "value_range": section.get("range"),
        "image_column": section.get("image_column"),
        "path": None if name == place else place,
        "image_size": run.input_shape[0],
        "fit": section.get("fit", "crop"),
        "label_column": "",
    }
    which = " of split 'test'"
    try:
        found = data.load_images(name, "test", **options)
    except data.MissingSplitError as error:
        which = " of split 'train'" if error.others else ", all that it holds"
        found = data.load_images(name, "train", **options)
    print(*found.notes, f"{place}: {len(found.data.images):,} images{which}", sep="\n")
    labels = found.data.labels if found.num_classes == section.num_classes else None
    files = {"file": np.array(found.files)} if found.files else {}
    return found.data.images, labels, files


def source_of(path: str) -> str:
    """Returns the name of the source that reads ``path``, the value of --data or --given."""
    place = Path(path).expanduser()
    if place.is_file() or place.suffix in (".npz", ".npy"):
        return "npz"
    if place.is_dir():
        if any((place / name).is_file() for name in ("dataset_dict.json", "dataset_info.json")):
            return "huggingface"
        return "npz" if any(place.glob("*.npy")) else "folder"
    if ":" in path:
        return path
    raise ConfigError(f"images do not exist: {path}.")


def _png(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    from ebmjax.recipes.evaluators.inpainting import draw
    from ebmjax.recipes.evaluators.samples import draw_sheet

    if "given" in arrays:
        return draw(path, arrays)
    order = np.argsort(arrays.get("labels", np.zeros(len(arrays["images"]))), stable=True)
    panels = {"samples": "images", "where their chains started": "start_images"}
    draw_sheet(path, {title: arrays[name][order] for title, name in panels.items()})


def _csv(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    columns: dict[str, Any] = {"image": range(len(next(iter(arrays.values()))))}
    for name, array in arrays.items():
        several = {f"{name}_{i}": column for i, column in enumerate(array.T)}
        columns |= several if array.ndim > 1 else {name: array}
    # Names of files may be any bytes; they are written as they are.
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])


def _safetensors(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    from safetensors.numpy import save_file

    save_file(dict(arrays), path)


OUTPUTS = {
    "sample": {".png": _png, ".npz": run_folder.write_arrays},
    "score": {".csv": _csv, ".npz": run_folder.write_arrays},
    "export": {".safetensors": _safetensors, ".npz": run_folder.write_arrays},
}
"""Writers of a command's files by their endings."""
