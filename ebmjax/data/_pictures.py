"""Judges and decodes an encoded picture, in the same way for every source."""

import contextlib
import io
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ebmjax._extras import needs_experiments
from ebmjax.data._pixels import MAX_PIXELS, fit_images, fit_shape

FORMATS = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg", ".jfif"),
    "WEBP": (".webp",),
    "BMP": (".bmp",),
}
"""Formats that are read, and how files of them are called. No other decoder sees the content."""
SUFFIXES = tuple(suffix for suffixes in FORMATS.values() for suffix in suffixes)
KNOWN = "PNG, JPEG, WebP or BMP"

MOST_WAITING = 256
"""Pictures that wait for a decoder, at most."""

T = TypeVar("T")

GREY, COLOUR = ("1", "L", "LA"), ("RGB", "RGBA", "RGBX", "P", "PA", "CMYK", "YCbCr")
"""Modes of Pillow with eight bits a channel or fewer. Of a colour of 16 it keeps the high byte."""
DEEP = "I;16"
"""Mode of Pillow for grey of 16 bits."""
ORIENTATION = 0x0112
SIDEWAYS = 5
"""From here on the tag exchanges rows and columns."""


class Survey(NamedTuple):
    """Facts that the headers of pictures tell.

    Attributes:
      mode: of Pillow, which all get: "L" if all are grey, ``DEEP`` if those have 16 bits, or "RGB".
      sizes: sizes (height, width) that there are, and the first picture of each.
      notes: sentences about what will be changed.
    """

    mode: str
    sizes: dict[tuple[int, int], str]
    notes: tuple[str, ...]


@contextlib.contextmanager
def open_picture(encoded: Any, name: str) -> Iterator[Any]:
    """Yields a picture with its header read and judged; its pixels are not yet decoded.

    Raises ValueError if it is missing, no regular file, of another format, damaged, of a mode that
    is not read, or too large. A picture is a path, bytes, or an image of Pillow.
    """
    with needs_experiments("reading images", "pillow"):
        from PIL import Image, UnidentifiedImageError

    if encoded is None:
        raise ValueError(f"{name} has no image. Add it, or leave this one out.")
    if isinstance(encoded, Path) and not encoded.is_file():
        raise ValueError(
            f"{name} must be a regular file or a link to one, and is a pipe or a broken link."
        )
    try:
        image = encoded  # the user's own, which is left open
        if isinstance(encoded, np.ndarray):  # as tfds.testing.mock_data makes them
            image = Image.fromarray(encoded)
        elif not isinstance(encoded, Image.Image):
            file = encoded if isinstance(encoded, Path) else io.BytesIO(encoded)
            image = Image.open(file, formats=tuple(FORMATS))
    except UnidentifiedImageError as error:
        raise ValueError(
            f"{name} cannot be read as an image: its content is not {KNOWN}. Convert or remove it."
        ) from error
    except Exception as error:  # of many types, one for each way to be damaged
        raise _unreadable(name, error) from error
    with contextlib.nullcontext() if image is encoded else image:
        _judge(image, name)
        yield image


def _judge(image: Any, name: str) -> None:
    """Raises ValueError for a picture that would not become the pixels that a viewer shows."""
    if image.mode not in (*GREY, *COLOUR, DEEP):
        raise ValueError(
            f"{name} must have at most 8 bits a channel, or 16 if grey, got Pillow's mode "
            f"{image.mode!r}. Scale it to 0 to 255 and save it again."
        )
    if image.width * image.height > MAX_PIXELS:
        raise ValueError(
            f"{name} must have at most {MAX_PIXELS:,} pixels, got {image.height}x{image.width}."
        )


def _unreadable(name: str, error: Exception) -> ValueError:
    reason = str(error) or type(error).__name__
    return ValueError(f"{name} cannot be read as an image: {reason}. Repair it or remove it.")


def survey(pictures: Iterable[Any], names: Iterable[str]) -> Survey:
    """Reads the headers of pictures."""
    modes: dict[str, str] = {}
    sizes: dict[tuple[int, int], str] = {}
    changed, total = defaultdict[str, list[str]](list), 0
    for name, mode, size, facts in _of_each(_read_header, pictures, names):
        total += 1
        modes.setdefault(mode, name)
        sizes.setdefault(size, name)
        for words in (words for words, holds in facts.items() if holds):
            changed[words].append(name)
    mode = DEEP if DEEP in modes else "L" if modes.keys() <= set(GREY) else "RGB"
    if mode == DEEP and (other := [name for one, name in modes.items() if one != DEEP]):
        raise ValueError(
            f"images must all be grey of 16 bits or none: {modes[DEEP]} is, {other[0]} is not. "
            "Save all of them alike."
        )
    notes = [
        f"{len(some)} of {total} images {words} (first {some[0]})"
        for words, some in changed.items()
    ]
    if mode == "RGB" and modes.keys() & set(GREY):
        notes.insert(0, "some images are grey and some in colour: all became RGB")
    return Survey(mode, sizes, tuple(notes))


def _read_header(image: Any, name: str) -> tuple[str, str, tuple[int, int], dict[str, bool]]:
    """Returns name, mode and size of a picture, and whether sentences about changes hold."""
    turn = _turn(image)
    tile = str(getattr(image, "tile", ""))
    facts = {
        "turned as the EXIF tag says": turn > 1,
        "made opaque: transparency is dropped": image.has_transparency_data,
        "read without further frames": getattr(image, "n_frames", 1) > 1,
        "cut from 16 bits a channel to 8": ";16B" in tile and image.mode != DEEP,
    }
    size = (image.width, image.height) if turn >= SIDEWAYS else image.size[::-1]
    return name, image.mode, size, facts


def common_shape(sizes: dict[tuple[int, int], str], size: int | None, fit: str) -> tuple[int, int]:
    """Returns the height and width that pictures of ``sizes`` become."""
    shapes: dict[tuple[int, int], str] = {}
    for one, name in sizes.items():
        shapes.setdefault(fit_shape(*one, size, fit), f"{one[0]}x{one[1]} for {name}")
    if len(shapes) > 1:
        (first, second), least = list(shapes.values())[:2], min(map(min, shapes))
        raise ValueError(
            f"images must have one size, got {first} and {second} (height x width). Set "
            f"image_size, for example --config.data.image_size={least}."
        )
    return next(iter(shapes))


def decode_pictures(
    pictures: Iterable[Any],
    names: Sequence[str],
    shape: tuple[int, int, int],
    size: int | None,
    fit: str,
    mode: str,
) -> np.ndarray:
    """Returns pictures in a mode, (n, *shape) of uint16 or uint8, turned as their EXIF tags say."""

    def decode(image: Any, name: str) -> np.ndarray:
        return fit_images(_pixels(image, name, mode)[None], size, fit)[0]

    images = np.empty((len(names), *shape), np.uint16 if mode == DEEP else np.uint8)
    for index, pixels in enumerate(_of_each(decode, pictures, names)):
        images[index] = pixels
    return images


def _of_each(
    function: Callable[[Any, str], T], pictures: Iterable[Any], names: Iterable[str]
) -> Iterator[T]:
    """Yields ``function(image, name)`` of opened pictures in their order, by a thread a processor.

    The first error is that of the first such picture.
    """

    def one(pair: tuple[Any, str]) -> T:
        with open_picture(*pair) as image:
            return function(image, pair[1])

    pairs = zip(pictures, names, strict=True)
    with ThreadPoolExecutor(os.cpu_count(), "ebmjax-decoder") as pool:
        while some := list(islice(pairs, MOST_WAITING)):
            yield from pool.map(one, some)


def _pixels(image: Any, name: str, mode: str) -> np.ndarray:
    from PIL import ImageOps

    try:
        plain = ImageOps.exif_transpose(image) if _turn(image) > 1 else image.copy()
        plain.info.pop("transparency", None)  # Pillow warns where it drops that itself
        pixels = np.asarray(plain.convert(mode))
    except Exception as error:  # cut short or damaged, in one of many ways
        raise _unreadable(name, error) from error
    return pixels.reshape(*pixels.shape[:2], -1)


def _turn(image: Any) -> int:
    """Returns the orientation that the EXIF tag tells, 1 to 8; 1 is upright, as without a tag."""
    try:
        turn = image.getexif().get(ORIENTATION, 1) if "exif" in image.info else 1
    except Exception:  # a tag that nobody can read, which viewers leave out, too
        return 1
    return turn if turn in range(1, 9) else 1
