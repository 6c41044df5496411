"""Scores images of the user by a run's model: ``ebmjax score``."""

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax._phases import phase
from ebmjax._shown import near_path
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.config.families import is_points

HELD_OUT = "held_out"
"""Split of the images that ``config.data.holdout`` keeps out of training."""

Arrays = dict[str, np.ndarray]


def score(run: Any, arguments: argparse.Namespace) -> Arrays:
    """Returns the scores of --data and --against, with --nats, too."""
    judge = None if arguments.nats is None else _normalise(run, arguments.nats)
    ours = _score_place(run, "--data", arguments.data, arguments.split, judge)
    if arguments.against is None:
        return ours
    theirs = _score_place(run, "--against", arguments.against, None, judge)
    _compare(ours, theirs)
    sizes = [len(next(iter(scores.values()))) for scores in (ours, theirs)]
    if "file" in (ours.keys() | theirs.keys()):  # only those of a folder name files
        for scores, size in zip((ours, theirs), sizes, strict=True):
            scores.setdefault("file", np.full(size, ""))
    together = {name: np.concatenate([ours[name], theirs[name]]) for name in ours}
    return {"is_against": np.repeat([0, 1], sizes), **together}


def _compare(ours: Arrays, theirs: Arrays) -> None:
    """Prints the area under the curve of every score, with its error."""
    from ebmjax.metrics import auroc_parts, sampling_error

    for name, one in ours.items():
        if one.ndim == 1 and one.dtype.kind == "f" and not re.search("nats|bits", name):
            parts = [np.asarray(part) for part in auroc_parts(one, theirs[name])]
            area = float(parts[0].mean())
            error = 1.96 * float(sampling_error(tuple(parts)))
            low, high = np.clip([area - error, area + error], 0.0, 1.0)
            interval = f"95 % interval {low:.3f} to {high:.3f}; chance 0.5"
            print(f"AUROC of {name}: {area:.3f} ({interval})")


def _normalise(run: Any, num_powers: int) -> Any:
    """Returns the run's normalised density, by its fields ``evals.nats``; 0 powers for those."""
    import jax

    from ebmjax.recipes.evaluators.nats import nats, normalise
    from ebmjax.recipes.evaluators.table import read_fields

    usual = {name: one.default for name, one in read_fields(nats).items()}
    options = usual | dict(run.config.evals.get("nats", {}))
    options = {name: options[name] for name in usual if name != "num_images"}
    options["num_powers"] = num_powers or options["num_powers"]
    with phase("normalising the density"):
        return normalise(jax.random.key(0), run.model, **options)


def _score(run: Any, inputs: np.ndarray, what: str, judge: Any) -> Arrays:
    """Returns the run's scores; and nats by ``judge``, which are printed, too."""
    with phase(f"scoring {len(inputs):,} {what}"):
        scores = run.score(inputs)
        if judge is None:
            return scores
        import jax

        nats = judge.score(inputs, jax.random.key(1))
    print("\n".join(judge.describe(judge.summarise(nats))))
    return {**scores, **nats}


def _score_place(run: Any, option: str, place: str | None, split: str | None, judge: Any) -> Arrays:
    """Returns the scores of a place's images or points in their order, and says what they are."""
    from ebmjax import data

    if is_points(run.config):
        return _score(run, _read_points(run, option, place, split), "points", judge)
    section = run.config.data
    is_own = place is None or _is_same_path(section.path, place)
    try:
        split, found = _read(place, split, run, is_own)
    except (TypeError, ValueError, ImportError) as error:
        raise ConfigError(f"{f'{option}={place}' if place else option}: {error}") from error
    images = found.data.images
    if images.shape[1:] != run.input_shape:
        raise ConfigError(
            f"{option} must hold images of shape {run.input_shape}, as the run was trained on, got "
            f"{images.shape[1:]}."
        )
    what = option if place else "the run's own data"
    which = f" of split {split!r}" if split else f", all that {place} holds"
    print(*(f"{option}: {note}" for note in found.notes), sep="\n", end="\n" * bool(found.notes))
    print(f"{what}: {len(images):,} images{which}")
    if split == "train" and is_own:
        print(f"{what}: the run was trained on most of these, so their scores are too high")
    order = np.arange(len(images))
    is_users = place or not (section.name == "digits" or data.is_tfds(section.name))
    if split != HELD_OUT and is_users:  # ``load_images`` mixes a user's images
        order = np.argsort(data.epoch_indices(0, 0, found.num_found))
    named = {"file": np.array(found.files)[order]} if found.files else {}
    scores = _score(run, images[order], "images", judge)
    probabilities = scores.get("class_probability")
    if probabilities is not None and found.num_classes == probabilities.shape[1]:
        share = np.mean(probabilities.argmax(1) == found.data.labels[order])
        print(f"{what}: accuracy {share:.4f} by the classes of these images")
    return {**named, **scores}


def _is_same_path(own: str, place: str) -> bool:
    return bool(own) and Path(own).expanduser().resolve() == Path(place).expanduser().resolve()


def _read_points(run: Any, option: str, place: str | None, split: str | None) -> np.ndarray:
    """Returns the points of a file, or those that a run was not trained on."""
    from ebmjax import data
    from ebmjax.recipes.parts import points_data

    if split not in (None, HELD_OUT):
        raise ConfigError(f"--split must be {HELD_OUT} for points, or left out; got {split}.")
    if split == HELD_OUT or place is None:
        return points_data.load(run.config)[0].monitored.images
    try:
        points = data.load_points(place)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from error
    if points.shape[1:] != run.input_shape:
        raise ConfigError(
            f"{option} must hold points with {run.input_shape[0]} coordinates, as the run was "
            f"trained on, got {points.shape[1]}."
        )
    return points


def _read(place: str | None, split: str | None, run: Any, is_own: bool) -> tuple[str, Any]:
    """Returns the name of a split, and its images: that of ``split``, or the first that is there.

    Without ``split`` that is the test split, or else images held out of the run's own data. The
    name is "" for all that another place holds, where there is but one split or none.
    """
    from ebmjax import data
    from ebmjax.recipes.parts import image_data

    section = run.config.data
    name = section.name if place is None else source_of(place, "data")
    options = {
        "path": (section.path or None) if is_own else None if name == place else place,
        "image_size": run.input_shape[0],
        "fit": section.fit,
        "pixels": section.pixels,
        "test_split": section.test_split if is_own else None,
        "image_column": section.get("image_column"),
        "label_column": "",
    }
    test = section.test_split if is_own else "test"
    wanted = [test, *[HELD_OUT] * bool(is_own and section.holdout), "train"]
    missing, is_all = None, False
    for one in [split] if split else wanted:
        if one == HELD_OUT and not is_own:
            raise ValueError(f"--split={HELD_OUT} is of the run's own data: leave out --data.")
        if one == HELD_OUT:
            return one, image_data.load_held_out(run.config)
        try:
            return "" if is_all else one, data.load_images(name, one, **options)
        except data.MissingSplitError as error:
            missing, is_all = error, not is_own and not error.others
    raise ValueError(f"{missing} Name a split with --split=NAME.") from missing


def source_of(path: str, option: str) -> str:
    """Returns the name of the source that reads ``path``, the value of an option."""
    place = Path(path).expanduser()
    if place.is_file() or place.suffix in (".npz", ".npy"):
        return "npz"
    if place.is_dir():
        if any((place / name).is_file() for name in ("dataset_dict.json", "dataset_info.json")):
            return "huggingface"
        return "npz" if any(place.glob("*.npy")) else "folder"
    if ":" in path:
        return path
    raise ConfigError(f"--{option} does not exist: {path}.{near_path(place)}")
