"""Reads the images of a run from the source that ``config.data`` names."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ebmjax import data
from ebmjax._checks import check_labels
from ebmjax._ranges import MAX_INTEGER
from ebmjax._shown import printable, trim
from ebmjax._stored import rows_of
from ebmjax.recipes.config import by_images
from ebmjax.recipes.config.errors import Config, ConfigError

DEFAULT_HOLDOUT = 0.2
MOST_NAMED, MOST_MEASURED = 1000, 4000
"""Classes whose names are said, and images whose variance is measured, at most."""


class Images(NamedTuple):
    """Images to train on, to measure during training and at the end; lines; names of classes."""

    train: data.ImageData
    monitored: data.ImageData
    evaluated: data.ImageData
    about: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()


def load(config: Config, has_chains: bool = True) -> tuple[Images, Config]:
    """Returns the checked images of ``config.data``, and ``config`` with what they decide.

    In the configuration that is returned, ``image_size``, ``num_classes``, ``max_train``,
    ``max_test`` and ``range`` are those of the images, and ``holdout`` is a number; 0 classes are
    images without labels. Fields that the configuration leaves to the images have values (see
    ``by_images``). The test split is read only if something uses it.

    Args:
      config: of a family of images.
      has_chains: whether the run compares the images with samples of chains.

    Raises:
      ConfigError: if the images do not fit the configuration, or cannot be read.
      FileNotFoundError, NotADirectoryError, DataUnavailableError: if they are not there.
    """
    config = config.copy_and_resolve_references()
    section, test_split = config.data, config.data.get("test_split", "test")
    found = _load(config, "train", section.max_train, section.get("placement") == "disk")
    train, section.range = found.data, found.value_range
    if section.num_classes and found.empty_classes:
        raise ConfigError(
            f"{_where(config, 'train')}: every class must have images, but classes "
            f"{list(found.empty_classes[:5])} of {section.num_classes} have none. Number the "
            "classes 0, 1, ... without gaps."
        )
    found_test = None
    try:
        if not section.holdout or config.evals.get("use_test_split"):
            found_test = _load(config, test_split, section.max_test)
    except ConfigError as error:
        # Images held out stand for a test split, unless another split may be meant.
        is_open = section.holdout is None and test_split == "test"
        missing = error.__cause__
        if not is_open or not isinstance(missing, data.MissingSplitError) or missing.others:
            raise
    has_no_test = section.holdout is None and found_test is None
    holdout = DEFAULT_HOLDOUT if has_no_test else section.holdout or 0
    section.max_train, section.image_size = len(train.labels), train.images.shape[1]
    num_held = section.holdout = number_held_out(holdout, section.max_train)
    about = [_about("train", found, section.num_classes, num_held)]
    if has_no_test:
        about += [f"no test split: images held out, config.data.holdout={num_held}, stand for it"]
    splits = _hold_out(train, num_held, section.num_classes > 0) if num_held else [train]
    if found_test is not None:
        facts: dict[str, list[Any]] = {
            "shape": [some.data.images.shape[1:] for some in (found, found_test)],
            "classes": [
                some.class_names or ("labels" if some.num_classes else "none")
                for some in (found, found_test)
            ],
        }
        for what, (expected, got) in facts.items():
            if got != expected and (what == "shape" or section.num_classes):
                raise ConfigError(
                    f"{_where(config, test_split)}: test images must have the {what} of the "
                    f"training images, {trim(expected)}, got {trim(got)}. Save both in the same "
                    "form, or set --config.data.image_size=N, --config.data.num_classes=0."
                )
        section.max_test = len(found_test.data.labels)
        about.append(_about(test_split, found_test, section.num_classes))
        splits.append(found_test.data)
    if not section.num_classes:  # labels that are not used are all 0
        splits = [one._replace(labels=0 * one.labels) for one in splits]
    train, monitored, evaluated = splits[0], splits[1], splits[-1]
    num_train, shape = len(train.labels), train.images.shape[1:]
    if section.get("num_per_class") is not None:
        num_train = min(num_train, section.num_per_class * section.num_classes)
    some = train.images[:MOST_MEASURED]
    variance = float(np.var(np.asarray(some) / 127.5, axis=0).sum())
    about += by_images.fill_in(config, num_train, shape, variance, has_chains)
    return Images(train, monitored, evaluated, tuple(about), found.class_names), config


def number_held_out(holdout: float, total: int) -> int:
    """Returns how many of ``total`` images ``holdout`` is, a fraction below 1 or a number.

    Raises:
      ConfigError: if none is left for training.
    """
    number = int(holdout) if holdout >= 1 else round(holdout * total)
    number = max(number, int(holdout > 0))
    if number >= total:
        raise ConfigError(
            f"config.data.holdout must leave training images: it is {holdout:g} of {total} "
            "(config.data.max_train)."
        )
    return number


def _hold_out(train: data.ImageData, number: int, has_classes: bool) -> list[data.ImageData]:
    """Returns images to train on, and images held out: the last of each class by its share."""
    labels = train.labels if has_classes else np.zeros_like(train.labels)
    from_last = np.argsort(labels[::-1], kind="stable")
    counts = np.unique(labels, return_counts=True)[1]
    shares = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
    # More images held out include fewer.
    chosen = from_last[np.argsort(shares, kind="stable")[:number]]
    held = np.sort(len(labels) - 1 - chosen)
    kept = np.setdiff1d(np.arange(len(labels)), held)
    return [
        data.ImageData(*(rows_of(array, kept) for array in train)),
        data.ImageData(*(array[held] for array in train)),
    ]


def _about(split: str, found: data.LoadedImages, num_classes: int, held: int = 0) -> str:
    """Returns a line such as "train 4,000 of 5,000, 28x28x1, 10 classes"."""
    images, labels = found.data
    counts = f"{split} {len(labels):,} of {found.num_found:,}"
    counts += f" ({held:,} held out)" if held else ""
    classes = f"{num_classes or 'no'} classes"
    if num_classes and found.class_names:
        named = [f"{i} {printable(name)}" for i, name in enumerate(found.class_names)]
        named[MOST_NAMED:] = ["..."] * (len(named) > MOST_NAMED)
        classes += f" ({', '.join(named)})"
    return ", ".join([counts, "x".join(map(str, images.shape[1:])), classes, *found.notes])


def check(config: Config) -> None:
    """Raises as ``load`` if the source of ``config.data`` or a split that it needs is not there.

    Reads no image.
    """
    splits = ["train"]
    if config.data.holdout == 0 or config.evals.get("use_test_split"):
        splits.append(config.data.get("test_split", "test"))
    for split in splits:
        with name_fields(config, split):
            data.check_source(config.data.name, split, **_options_of(config))


def _options_of(config: Config, *others: str) -> dict[str, Any]:
    names = ("path", "test_split", "image_column", "label_column", *others)
    return {name: config.data[name] for name in names if config.data.get(name)}


def _load(
    config: Config, split: str, limit: int | None, on_disk: bool = False
) -> data.LoadedImages:
    """Returns the checked images of a split, the first of which decide on the classes."""
    section, options = config.data, _options_of(config, "fit", "image_size")
    if limit is None and not data.is_tfds(section.name):
        limit = MAX_INTEGER  # all in random order: files are often sorted
    options |= {"max_examples": limit, "on_disk": on_disk, "value_range": section.get("range")}
    with name_fields(config, split):
        found = data.load_images(section.name, split, **options)
        if section.num_classes is None:
            section.num_classes = found.num_classes or 0
        if section.num_classes:
            labels = found.data.labels
            check_labels("labels", labels, labels.shape, section.num_classes)
        return found


@contextlib.contextmanager
def name_fields(config: Config, split: str) -> Iterator[None]:
    """Names the fields in errors of a source."""
    try:
        yield
    except (data.DataUnavailableError, FileNotFoundError, NotADirectoryError) as error:
        raise type(error)(f"{error} Set --config.data.name= and --config.data.path=.") from error
    except (TypeError, ValueError, ImportError, OSError) as error:
        hint = ""
        if isinstance(error, data.MissingSplitError) and split != "train":
            name = next(iter(error.others), "NAME")
            hint = (
                f" Judge by another split, --config.data.test_split={name}, or by training images "
                "that are held out, --config.data.holdout=0.2."
            )
        raise ConfigError(f"{_where(config, split)}: {error}{hint}") from error


def _where(config: Config, split: str) -> str:
    values = {name: config.data.get(name) for name in ("name", "path", "num_classes", "placement")}
    return f"{', '.join(f'config.data.{k}={v!r}' for k, v in values.items() if v)}, split {split}"
