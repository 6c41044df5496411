"""Reads the images of a run from the source that ``config.data`` names."""

from typing import NamedTuple

from ebmjax import data
from ebmjax._stored import rows_of
from ebmjax.recipes.core import by_images, extractor_names
from ebmjax.recipes.core.fields import Config, ConfigError

ABOUT_RANDOM = (
    "FID compares features of a random network, because a classifier's need five classes; "
    "--config.eval.inception_weights=FILE takes Inception's"
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


def load(config: Config) -> tuple[Images, Config]:
    """Returns the checked images of ``config.data``, and ``config`` with what they decide.

    In the configuration that is returned, ``image_size``, ``num_classes``, ``max_train`` and
    ``max_test`` are those of the images; 0 classes are images without labels. Fields that the
    configuration leaves to the images have values (see ``by_images``). The test split is read only
    if something uses it.

    Raises:
      ConfigError: if the images do not fit the configuration, or cannot be read.
      FileNotFoundError, NotADirectoryError, DataUnavailableError: if they are not there.
    """
    config = config.copy_and_resolve_references()
    section = config.data
    found = _load(config, "train", section.max_train, on_disk=section.placement == "disk")
    if section.num_classes is None:
        section.num_classes = found.num_classes or 0
    if section.num_classes and found.empty_classes:
        raise ConfigError(
            f"{_where(config, 'train')}: every class must have images, but classes "
            f"{list(found.empty_classes[:5])} of {section.num_classes} have none. Number the "
            "classes 0, 1, ... without gaps."
        )
    train = _checked(config, found, "train")
    section.max_train = len(train.labels)
    num_kept = len(train.labels) - section.num_validation
    if num_kept < 1:
        raise ConfigError(
            f"config.data.num_validation must leave training images: it is "
            f"{section.num_validation} of {len(train.labels)} (config.data.max_train)."
        )
    side = train.images.shape[1]
    about = [_about("train", train, found, section.num_classes, section.num_validation)]
    if section.num_validation:
        held_out = data.ImageData(*(array[num_kept:] for array in train))
        train = data.ImageData(*(rows_of(array, slice(num_kept)) for array in train))
        if not config.eval.use_test_split:
            section.image_size = side
            return _with_choices(Images(train, held_out, held_out, tuple(about)), config)
    found_test = _load(config, section.test_split, section.max_test)
    test = _checked(config, found_test, section.test_split)
    _check_alike(config, found, found_test)
    section.max_test, section.image_size = len(test.labels), side
    about.append(_about(section.test_split, test, found_test, section.num_classes))
    monitored = held_out if section.num_validation else test
    return _with_choices(Images(train, monitored, test, tuple(about)), config)


def _with_choices(images: Images, config: Config) -> tuple[Images, Config]:
    """Returns both, with what the configuration leaves to the images and lines about it."""
    num_train, shape = len(images.train.labels), images.train.images.shape[1:]
    per_class = config.data.get("num_per_class")
    if per_class is not None:
        num_train = min(num_train, per_class * config.data.num_classes)
    num_test = min(len(images.monitored.labels), len(images.evaluated.labels))
    lines = by_images.choose(config, by_images.Images(num_train, num_test, shape))
    if extractor_names.extractor_name(config) == extractor_names.RANDOM:
        lines.append(ABOUT_RANDOM)
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
    parts = [
        f"{split} {len(images.labels):,} of {found.num_found:,}{held_out}",
        f"{height}x{width}x{channels}",
        classes,
        *found.notes,
    ]
    return ", ".join(parts)


def _load(
    config: Config, split: str, limit: int | None, on_disk: bool = False
) -> data.LoadedImages:
    section = config.data
    try:
        return data.load_images(
            section.name,
            split,
            path=section.path or None,
            image_size=section.image_size,
            max_examples=limit,
            on_disk=on_disk,
        )
    except (data.DataUnavailableError, FileNotFoundError, NotADirectoryError) as error:
        raise type(error)(
            f"{error} Set name and folder with --config.data.name= and --config.data.path=."
        ) from error
    except data.MissingSplitError as error:
        hint = (
            " Without images for tests, judge by training images that are held out, "
            "--config.data.num_validation=N, or name another split, --config.data.test_split=NAME."
        )
        raise ConfigError(f"{_where(config, split)}: {error}{hint * (split != 'train')}") from error
    except (TypeError, ValueError, ImportError) as error:
        where = f"{_where(config, split)}{', config.data.placement=disk' * on_disk}"
        raise ConfigError(f"{where}: {error}") from error


def _where(config: Config, split: str) -> str:
    path = f", config.data.path={config.data.path!r}" * bool(config.data.path)
    return f"config.data.name={config.data.name!r}{path}, split {split}"


def _checked(config: Config, found: data.LoadedImages, split: str) -> data.ImageData:
    try:
        return data.check_image_data(found.data, config.data.num_classes or None)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{_where(config, split)}: {error} The configuration has config.data.num_classes="
            f"{config.data.num_classes}."
        ) from error


def _check_alike(config: Config, train: data.LoadedImages, test: data.LoadedImages) -> None:
    """Raises ConfigError if training and test images differ in their form or their classes."""
    shapes = train.data.images.shape[1:], test.data.images.shape[1:]
    if shapes[0] != shapes[1]:
        raise ConfigError(
            f"{_where(config, config.data.test_split)}: test images must have the shape of the "
            f"training images, {shapes[0]}, got {shapes[1]}. Set --config.data.image_size=N, or "
            "save both in the same form."
        )
    if config.data.num_classes and train.num_classes and not test.num_classes:
        raise ConfigError(
            f"{_where(config, config.data.test_split)}: test images must have labels, because the "
            "training images have. Add them, or set --config.data.num_classes=0."
        )
    if config.data.num_classes and train.class_names != test.class_names:
        raise ConfigError(
            f"{_where(config, config.data.test_split)}: the classes must be those of the training "
            f"images, {train.class_names[:8]}, got {test.class_names[:8]}."
        )
