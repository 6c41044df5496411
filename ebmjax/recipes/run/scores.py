"""Scores images of the user by a run's model: ``ebmjax score``."""

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ebmjax._phases import phase
from ebmjax._shown import near_path
from ebmjax.recipes.config.checks import is_points
from ebmjax.recipes.config.errors import ConfigError

HELD_OUT = "held_out"
"""Split of the images that ``config.data.holdout`` keeps out of training."""

Arrays = dict[str, np.ndarray]


def check_rate(rate: float | None, config: Mapping[str, Any]) -> None:
    """Raises ConfigError for a rate that is none, and for a run without images held out."""
    if rate is None:
        return
    if not 0 < rate < 1:
        raise ConfigError(f"--false_alarm_rate must lie between 0 and 1, got {rate:g}.")
    if not (is_points(config) or config["data"].get("holdout")):
        raise ConfigError(
            "--false_alarm_rate needs images that the run was not trained on, and it held none out "
            "(config.data.holdout=0). Train with --config.data.holdout=0.2, or leave it out."
        )


def score_and_flag(run: Any, arguments: argparse.Namespace) -> Arrays:
    """Returns the scores of --data and --against, by --nats and --false_alarm_rate, too."""
    rate = arguments.false_alarm_rate
    name, threshold = (None, 0.0) if rate is None else _find_threshold(run, rate)
    judge = None if arguments.nats is None else _normalise(run, arguments.nats)
    arrays = _score_place(run, "--data", arguments.data, arguments.split, judge)
    if arguments.against is not None:
        theirs = _score_place(run, "--against", arguments.against, None, judge)
        _compare(arrays, theirs, Path(arguments.out).expanduser().with_suffix(".png"))
        arrays = _join(arrays, theirs)
    if name is not None:
        is_below = arrays[name] < threshold
        print(f"{np.sum(is_below):,} of {len(is_below):,} are out of distribution")
        arrays["is_out_of_distribution"] = is_below.astype(int)
    return arrays


def _find_threshold(run: Any, rate: float) -> tuple[str, float]:
    """Returns the name of a score and its threshold, by images held out; says both."""
    from ebmjax.metrics import novelty_threshold

    held_out = _read_points(run, "", None, HELD_OUT) if is_points(run.config) else None
    held_out = _load_held_out(run).data.images if held_out is None else held_out
    with phase(f"scoring {len(held_out):,} that were held out"):
        scores = run.score(np.asarray(held_out))
    name = next(name for name in ("log_density", "log_evidence") if name in scores)
    try:
        found = novelty_threshold(scores[name], rate)
    except ValueError as error:
        raise ConfigError(f"--false_alarm_rate={rate:g}: {error}") from error
    print(
        f"out of distribution: {name} below {found.threshold:.6g}, found from {len(held_out):,} "
        f"held out (95 % interval {found.low:.6g} to {found.high:.6g}); expected false alarms "
        f"{found.rate:.1%} (95 % interval {found.rate_low:.1%} to {found.rate_high:.1%})"
    )
    return name, found.threshold


def _load_held_out(run: Any) -> Any:
    from ebmjax.recipes.parts import image_data

    return image_data.load_held_out(run.config)


def _join(ours: Arrays, theirs: Arrays) -> Arrays:
    """Returns the rows of both; only those of a folder name files."""
    sizes = [len(next(iter(scores.values()))) for scores in (ours, theirs)]
    if "file" in (ours.keys() | theirs.keys()):
        for scores, size in zip((ours, theirs), sizes, strict=True):
            scores.setdefault("file", np.full(size, ""))
    together = {name: np.concatenate([ours[name], theirs[name]]) for name in ours}
    return {"is_against": np.repeat([0, 1], sizes), **together}


def _compare(ours: Arrays, theirs: Arrays, picture: Path) -> None:
    """Prints the area under the curve of every score, with its error, and draws histograms."""
    from ebmjax.metrics import auroc_parts, sampling_error
    from ebmjax.recipes.evaluators.plots import figure, histograms

    scores = [
        name
        for name, one in ours.items()
        if one.ndim == 1 and one.dtype.kind == "f" and not re.search("nats|bits", name)
    ]
    with figure(picture, 1, len(scores), has_legend=True) as (panels,):
        for axes, name in zip(panels, scores, strict=True):
            parts = [np.asarray(one) for one in auroc_parts(ours[name], theirs[name])]
            area = float(parts[0].mean())
            error = 1.96 * float(sampling_error(tuple(parts)))
            low, high = np.clip([area - error, area + error], 0.0, 1.0)
            interval = f"95 % interval {low:.3f} to {high:.3f}; chance 0.5"
            print(f"AUROC of {name}: {area:.3f} ({interval})")
            histograms(axes, {"data": ours[name], "against": theirs[name]})
            axes.set(xlabel=name.replace("_", " "), title=f"AUROC {area:.3f}")
    print(f"Histograms in {picture}")


def is_own(own: str, place: str | None) -> bool:
    """Returns whether ``place`` is the path of a run's data, ``own``; None always is."""
    if place is None or not own:
        return place is None
    return Path(own).expanduser().resolve() == Path(place).expanduser().resolve()


def _normalise(run: Any, num_powers: int) -> Any:
    """Returns the run's normalised density, by its fields ``evals.nats``; 0 powers for those."""
    import jax

    from ebmjax.recipes.evaluators.nats import nats, normalise
    from ebmjax.recipes.evaluators.table import read_fields

    usual = {name: one.default for name, one in read_fields(nats).items()}
    options = usual | run.config.evals.nats.to_dict()
    for name in ("every", "num_images"):
        options.pop(name)
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
    try:
        split, found = _read(place, split, run)
    except (TypeError, ValueError, ImportError) as error:
        raise ConfigError(f"{f'{option}={place}' if place else option}: {error}") from error
    for note in found.notes:
        print(f"{option}: {note}")
    images, section = found.data.images, run.config.data
    if images.shape[1:] != run.input_shape:
        raise ConfigError(
            f"{option} must hold images of shape {run.input_shape}, as the run was trained on, got "
            f"{images.shape[1:]}."
        )
    what = option if place else "the run's own data"
    which = f" of split {split!r}" if split else f", all that {place} holds"
    print(f"{what}: {len(images):,} images{which}")
    if split == "train" and is_own(section.path, place):
        print(
            f"{what}: the run was trained on most of these, so their scores are too high"
            + f"; --split={HELD_OUT} takes those that it was not." * bool(section.holdout)
        )
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


def _read_points(run: Any, option: str, place: str | None, split: str | None) -> np.ndarray:
    """Returns the points of a file, or those that a run was not trained on."""
    from ebmjax import data

    if split not in (None, HELD_OUT):
        raise ConfigError(f"--split must be {HELD_OUT} for points, or left out; got {split}.")
    if split == HELD_OUT or place is None:
        from ebmjax.recipes.parts import points_data

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


def _read(place: str | None, split: str | None, run: Any) -> tuple[str, Any]:
    """Returns the name of a split, and its images: that of ``split``, or the first that is there.

    Without ``split`` that is the test split, or else images held out of the run's own data. The
    name is "" for all that another place holds, where there is but one split or none.
    """
    from ebmjax import data

    section = run.config.data
    own = is_own(section.path, place)
    name = section.name if place is None else source_of(place, "data")
    options = {
        "path": (section.path or None) if own else None if name == place else place,
        "image_size": run.input_shape[0],
        "fit": section.fit,
        "pixels": section.pixels,
        "test_split": section.test_split if own else None,
        "image_column": section.get("image_column"),
        "label_column": "",
    }
    test = section.test_split if own else "test"
    wanted = [test, *[HELD_OUT] * bool(own and section.holdout), "train"]
    missing, is_all = None, False
    for one in [split] if split else wanted:
        if one == HELD_OUT:
            return one, _load_held_out(run)
        try:
            return "" if is_all else one, data.load_images(name, one, **options)
        except data.MissingSplitError as error:
            missing, is_all = error, not own and not error.others
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
