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
NO_TEST_SPLIT = (
    f"no split 'test': the images held out, config.data.holdout={DEFAULT_HOLDOUT}, stand for it"
)


class Images(NamedTuple):
    """Images that a run learns from and is judged by.

    Attributes:
      train: training images.
      monitored: images measured during training: the test split, or images held out.
      evaluated: images of the full evaluation: the same, or the test split.
      about: lines that say what was read and what was done to it.
    """

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
    found = _load(config, "train", section.max_train, on_disk=section.placement == "disk")
    section.pixels = found.pixels
    if section.num_classes is None:
        section.num_classes = found.num_classes or 0
    if section.num_classes and found.empty_classes:
        raise ConfigError(
            f"{_where(config, 'train')}: every class must have images, but classes "
            f"{list(found.empty_classes[:5])} of {section.num_classes} have none. Number the "
            "classes 0, 1, ... without gaps."
        )
    train = _check_images(config, found, "train")
    section.max_train = len(train.labels)
    needs_test = not section.holdout or config.evals.use_test_split
    found_test = _load_test(config) if needs_test else None
    about = [NO_TEST_SPLIT] * (section.holdout is None and not found_test)
    if section.holdout is None:
        section.holdout = 0 if found_test else DEFAULT_HOLDOUT
    section.holdout = number_held_out(section.holdout, section.max_train)
    about.insert(0, _about("train", train, found, section.num_classes, int(section.holdout)))
    section.image_size, held_out = train.images.shape[1], None
    if section.holdout:
        train, held_out = _hold_out(train, int(section.holdout), bool(section.num_classes))
    test = held_out
    if found_test is not None:
        test = _check_images(config, found_test, section.test_split)
        _check_alike(config, found, found_test)
        section.max_test = len(test.labels)
        about.append(_about(section.test_split, test, found_test, section.num_classes))
    assert test is not None
    return _with_choices(Images(train, held_out or test, test, tuple(about)), config, has_chains)


def number_held_out(holdout: float, total: int) -> int:
    """Returns the number of training images that are held out.

    Args:
      holdout: a fraction below 1, or a number.
      total: training images that there are.

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


def load_held_out(config: Config) -> data.LoadedImages:
    """Returns the images that a run held out; ``config`` is what ``load`` has returned."""
    section = config.data
    if not section.holdout:
        raise ConfigError(
            "--split=held_out: this run held no images out (config.data.holdout=0). Name another "
            "split, --split=test or --split=train."
        )
    found = _load(config, "train", section.max_train)
    places = _places_held_out(found.data.labels, int(section.holdout), bool(section.num_classes))
    return found._replace(
        data=data.ImageData(*(array[places] for array in found.data)),
        files=tuple(found.files[place] for place in places) if found.files else (),
    )


def _hold_out(
    train: data.ImageData, number: int, has_classes: bool
) -> tuple[data.ImageData, data.ImageData]:
    """Returns images to train on and images held out."""
    held = _places_held_out(train.labels, number, has_classes)
    kept = np.setdiff1d(np.arange(len(train.labels)), held)
    return (
        data.ImageData(*(rows_of(array, kept) for array in train)),
        data.ImageData(*(array[held] for array in train)),
    )


def _places_held_out(labels: np.ndarray, number: int, has_classes: bool) -> np.ndarray:
    """Returns the places of images to hold out, rising: the last of each class by its share.

    More images held out include fewer.
    """
    labels = labels if has_classes else np.zeros_like(labels)
    from_last = np.argsort(labels[::-1], kind="stable")
    counts = np.unique(labels, return_counts=True)[1]
    shares = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
    chosen = from_last[np.argsort(shares, kind="stable")[:number]]
    return np.sort(len(labels) - 1 - chosen)


def _with_choices(images: Images, config: Config, has_chains: bool) -> tuple[Images, Config]:
    """Returns both, with what the configuration leaves to the images and lines about it.

    Labels that are not used are all 0.
    """
    if not config.data.num_classes:
        train, *tests = (x._replace(labels=np.zeros_like(x.labels)) for x in images[:3])
        images = Images(train, tests[0], tests[1], images.about)
    num_train, shape = len(images.train.labels), images.train.images.shape[1:]
    per_class = config.data.get("num_per_class")
    if per_class is not None:
        num_train = min(num_train, per_class * config.data.num_classes)
    some = images.train.images[np.arange(min(len(images.train.images), MOST_MEASURED))]
    variance = float(np.var(np.asarray(some) / 127.5, axis=0).sum())
    facts = by_images.ImageFacts(num_train, shape, variance, has_chains)
    lines = by_images.fill_in(config, facts)
    return images._replace(about=(*images.about, *lines)), config


def _about(
    split: str,
    images: data.ImageData,
    found: data.LoadedImages,
    num_classes: int,
    num_held_out: int = 0,
) -> str:
    """Returns a line such as "train 4,000 of 5,000, 28x28x1, 10 classes"."""
    height, width, channels = images.images.shape[1:]
    held_out = f" ({num_held_out:,} held out)" * bool(num_held_out)
    classes = f"{num_classes} classes" if num_classes else "no classes"
    if num_classes and found.class_names:
        named = [f"{i} {name}" for i, name in enumerate(found.class_names[:MOST_NAMED])]
        more = ", ..." * (len(found.class_names) > MOST_NAMED)
        classes += f" ({', '.join(map(printable, named))}{more})"
    counts = f"{split} {len(images.labels):,} of {found.num_found:,}{held_out}"
    return ", ".join([counts, f"{height}x{width}x{channels}", classes, *found.notes])


def _load_test(config: Config) -> data.LoadedImages | None:
    """Returns the test split; None if there is none, and held-out images may stand for it.

    Raises:
      ConfigError: see ``load``; also if there is another split, which may be meant.
    """
    section = config.data
    try:
        return _load(config, section.test_split, section.max_test)
    except ConfigError as error:
        is_open = section.holdout is None and section.test_split == "test"
        missing = error.__cause__
        if is_open and isinstance(missing, data.MissingSplitError) and not missing.others:
            return None
        raise


def check(config: Config) -> None:
    """Raises as ``load`` if the source of ``config.data`` or a split that it needs is not there.

    Reads no image.
    """
    needs_test = config.data.holdout == 0 or config.evals.use_test_split
    for split in ("train", *[config.data.test_split] * needs_test):
        with _name_fields(config, split):
            data.check_source(config.data.name, split, **_options_of(config))


def _options_of(config: Config, *others: str) -> dict[str, Any]:
    names = ("path", "test_split", "image_column", "label_column", *others)
    return {name: config.data.get(name) or None for name in names}


def _load(
    config: Config, split: str, limit: int | None, on_disk: bool = False
) -> data.LoadedImages:
    with _name_fields(config, split, on_disk):
        return data.load_images(
            config.data.name,
            split,
            fit=config.data.fit,
            max_examples=limit,
            on_disk=on_disk,
            **_options_of(config, "image_size", "pixels"),
        )


@contextlib.contextmanager
def _name_fields(config: Config, split: str, on_disk: bool = False) -> Iterator[None]:
    """Names the fields in errors of a source."""
    try:
        yield
    except (data.DataUnavailableError, FileNotFoundError, NotADirectoryError) as error:
        raise type(error)(f"{error} Set --config.data.name= and --config.data.path=.") from error
    except data.MissingSplitError as error:
        name = next(iter(error.others), "NAME")
        hint = (
            f" Judge by another split, --config.data.test_split={name}, or by training images that "
            "are held out, --config.data.holdout=0.2."
        )
        message = f"{_where(config, split)}: {error}{hint * (split != 'train')}"
        raise ConfigError(message) from error
    except (TypeError, ValueError, ImportError, OSError) as error:
        where = f"{_where(config, split)}{', config.data.placement=disk' * on_disk}"
        raise ConfigError(f"{where}: {error}") from error


def _where(config: Config, split: str) -> str:
    path = f", config.data.path={config.data.path!r}" * bool(config.data.path)
    return f"config.data.name={config.data.name!r}{path}, split {split}"


def _check_images(config: Config, found: data.LoadedImages, split: str) -> data.ImageData:
    try:
        return data.check_image_data(found.data, config.data.num_classes or None)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{_where(config, split)}: {error} The configuration has config.data.num_classes="
            f"{config.data.num_classes}."
        ) from error


def _check_alike(config: Config, train: data.LoadedImages, test: data.LoadedImages) -> None:
    """Raises ConfigError if training and test images differ in their form or their classes."""
    where = f"{_where(config, config.data.test_split)}: test images must have"
    shapes = train.data.images.shape[1:], test.data.images.shape[1:]
    if shapes[0] != shapes[1]:
        raise ConfigError(
            f"{where} the shape of the training images, {shapes[0]}, got {shapes[1]}. Set "
            "--config.data.image_size=N, or save both in the same form."
        )
    if config.data.num_classes and train.num_classes and not test.num_classes:
        raise ConfigError(
            f"{where} labels, because the training images have. Add them, or set "
            "--config.data.num_classes=0."
        )
    if config.data.num_classes and train.class_names != test.class_names:
        raise ConfigError(
            f"{where} the classes of the training images, {train.class_names[:8]}, got "
            f"{test.class_names[:8]}."
        )
