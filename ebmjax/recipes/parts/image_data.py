"""Reads the images of a run from the source that ``config.data`` names."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ebmjax import data
from ebmjax._shown import printable
from ebmjax._stored import rows_of
from ebmjax.recipes.config import by_images
from ebmjax.recipes.config.errors import Config, ConfigError

DEFAULT_HOLDOUT = 0.2
MOST_NAMED = 12
"""Classes whose names are said, at most."""
MOST_MEASURED = 4000
"""Images whose variance is measured, at most."""


class Images(NamedTuple):
    """Images to train on, those that are measured during training and at the end, and lines."""

    train: data.ImageData
    monitored: data.ImageData
    evaluated: data.ImageData
    about: tuple[str, ...] = ()


def load(config: Config, has_chains: bool = True) -> tuple[Images, Config]:
    """Returns the checked images of ``config.data``, and ``config`` with what they decide.

    In the configuration that is returned, ``image_size``, ``num_classes``, ``max_train``,
    ``max_test`` and ``pixels`` are those of the images, and ``holdout`` is a number; 0 classes are
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
    section = config.data
    found = _load(config, "train", section.max_train, on_disk=section.get("placement") == "disk")
    section.pixels = found.pixels
    if section.num_classes is None:
        section.num_classes = found.num_classes or 0
    if section.num_classes and found.empty_classes:
        raise ConfigError(
            f"{_where(config, 'train')}: every class must have images, but classes "
            f"{list(found.empty_classes[:5])} of {section.num_classes} have none. Number the "
            "classes 0, 1, ... without gaps."
        )
    with _name_fields(config, "train"):
        train = data.check_image_data(found.data, section.num_classes or None)
    test_split = test_split_of(config)
    needs_test, found_test = not section.holdout or config.evals.get("use_test_split"), None
    try:
        if needs_test:
            found_test = _load(config, test_split, section.max_test)
    except ConfigError as error:
        # Images held out stand for a test split, unless another split may be meant.
        is_open = section.holdout is None and test_split == "test"
        missing = error.__cause__
        if not is_open or not isinstance(missing, data.MissingSplitError) or missing.others:
            raise
    has_no_test = section.holdout is None and found_test is None
    if section.holdout is None:
        section.holdout = DEFAULT_HOLDOUT if has_no_test else 0
    section.max_train, section.image_size = len(train.labels), train.images.shape[1]
    num_held = section.holdout = number_held_out(section.holdout, section.max_train)
    about = [_about("train", train, found, section.num_classes, num_held)]
    if has_no_test:
        about.append(
            f"no test split: images held out, config.data.holdout={num_held}, stand for it"
        )
    monitored = None
    if num_held:
        train, monitored = _hold_out(train, num_held, bool(section.num_classes))
    evaluated = monitored
    if found_test is not None:
        with _name_fields(config, test_split):
            evaluated = data.check_image_data(found_test.data, section.num_classes or None)
        _check_alike(config, found, found_test)
        section.max_test = len(evaluated.labels)
        about.append(_about(test_split, evaluated, found_test, section.num_classes))
    assert evaluated is not None
    monitored = monitored or evaluated
    if not section.num_classes:  # labels that are not used are all 0
        splits = train, monitored, evaluated
        train, monitored, evaluated = (x._replace(labels=0 * x.labels) for x in splits)
    num_train, shape = len(train.labels), train.images.shape[1:]
    if section.get("num_per_class") is not None:
        num_train = min(num_train, section.num_per_class * section.num_classes)
    some = train.images[np.arange(min(len(train.images), MOST_MEASURED))]
    variance = float(np.var(np.asarray(some) / 127.5, axis=0).sum())
    about += by_images.fill_in(config, num_train, shape, variance, has_chains)
    return Images(train, monitored, evaluated, tuple(about)), config


def test_split_of(config: Config) -> str:
    """Returns the name of the split of the test images."""
    return config.data.get("test_split", "test")


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


def _hold_out(
    train: data.ImageData, number: int, has_classes: bool
) -> tuple[data.ImageData, data.ImageData]:
    """Returns images to train on, and images held out: the last of each class by its share.

    More images held out include fewer.
    """
    labels = train.labels if has_classes else np.zeros_like(train.labels)
    from_last = np.argsort(labels[::-1], kind="stable")
    counts = np.unique(labels, return_counts=True)[1]
    shares = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
    chosen = from_last[np.argsort(shares, kind="stable")[:number]]
    held = np.sort(len(labels) - 1 - chosen)
    kept = np.setdiff1d(np.arange(len(labels)), held)
    return (
        data.ImageData(*(rows_of(array, kept) for array in train)),
        data.ImageData(*(array[held] for array in train)),
    )


def _about(
    split: str, images: data.ImageData, found: data.LoadedImages, num_classes: int, held: int = 0
) -> str:
    """Returns a line such as "train 4,000 of 5,000, 28x28x1, 10 classes"."""
    classes = f"{num_classes} classes" if num_classes else "no classes"
    if num_classes and found.class_names:
        named = [f"{i} {printable(name)}" for i, name in enumerate(found.class_names[:MOST_NAMED])]
        classes += f" ({', '.join([*named, *['...'] * (len(found.class_names) > MOST_NAMED)])})"
    counts = f"{split} {len(images.labels):,} of {found.num_found:,}"
    counts += f" ({held:,} held out)" * bool(held)
    return ", ".join([counts, "x".join(map(str, images.images.shape[1:])), classes, *found.notes])


def check(config: Config) -> None:
    """Raises as ``load`` if the source of ``config.data`` or a split that it needs is not there.

    Reads no image.
    """
    needs_test = config.data.holdout == 0 or config.evals.get("use_test_split")
    for split in ("train", test_split_of(config)) if needs_test else ("train",):
        with _name_fields(config, split):
            data.check_source(config.data.name, split, **_options_of(config))


def _options_of(config: Config, *others: str) -> dict[str, Any]:
    names = ("path", "test_split", "image_column", "label_column", *others)
    return {name: config.data.get(name) or None for name in names}


def _load(
    config: Config, split: str, limit: int | None, on_disk: bool = False
) -> data.LoadedImages:
    with _name_fields(config, split):
        return data.load_images(
            config.data.name,
            split,
            fit=config.data.get("fit", "crop"),
            max_examples=limit,
            on_disk=on_disk,
            **_options_of(config, "image_size", "pixels"),
        )


@contextlib.contextmanager
def _name_fields(config: Config, split: str) -> Iterator[None]:
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
    named = [f"config.data.{k}={v!r}" for k, v in values.items() if v and v != "device"]
    return f"{', '.join(named)}, split {split}"


def _check_alike(config: Config, train: data.LoadedImages, test: data.LoadedImages) -> None:
    """Raises ConfigError if training and test images differ in their form or their classes."""
    facts: list[Any] = [("shape", *(one.data.images.shape[1:] for one in (train, test)))]
    if config.data.num_classes:
        names = [
            one.class_names or ("labels" if one.num_classes else "none") for one in (train, test)
        ]
        facts.append(("classes", *names))
    for what, expected, got in facts:
        if got != expected:
            raise ConfigError(
                f"{_where(config, test_split_of(config))}: test images must have the {what} of "
                f"the training images, {str(expected)[:80]}, got {str(got)[:80]}. Save both in the "
                "same form, or set --config.data.image_size=N, --config.data.num_classes=0."
            )
