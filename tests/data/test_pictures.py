"""Pictures are judged alike in every source, and nothing about them vanishes."""

import os
import threading
import warnings

import numpy as np
import pytest
from picture_sources import ENCODED, encoded, fake_tfds, load, png
from PIL import Image, ImageOps

from ebmjax.data import load_images
from ebmjax.data._pictures import decode_pictures

RANDOM = np.random.default_rng(0)
COLOUR = RANDOM.integers(0, 256, (6, 6, 3), np.uint8)
GREY = RANDOM.integers(0, 256, (6, 6), np.uint8)
WIDE = RANDOM.integers(0, 256, (4, 6, 3), np.uint8)
SCANS = RANDOM.integers(0, 65536, (3, 6, 5), np.uint16)
TIFF = encoded(GREY, "TIFF")
sources = pytest.mark.parametrize("source", ENCODED)


@sources
@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        (encoded(SCANS[0]), "grey of 16 bits or none: .*1.* is, .*0.* is not. Save all of them"),
        (TIFF, "its content is not PNG, JPEG, WebP or BMP"),
        (b"", "its content is not PNG"),
        (encoded(COLOUR)[:90], "cannot be read as an image: .*Repair it or remove it"),
        (png(100_000, 100_000, 8, 0, b""), "at most 67,108,864 pixels, got 100000x100000"),
    ],
    ids=["grey of 16", "TIFF", "nothing", "cut short", "huge"],
)
def test_what_is_no_picture_of_bytes_is_refused_by_name(
    source, picture, expected, tmp_path, monkeypatch
):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    with pytest.raises(ValueError, match=expected) as caught:
        load(source, tmp_path, [encoded(COLOUR), picture], monkeypatch)
    named = {"folder": "/s/1.png", "huggingface": "row 1 of", "tfds": "example 1 of some_set"}
    assert named[source] in str(caught.value)


@sources
@pytest.mark.parametrize("options", [{}, {"value_range": (0, 60_000)}, {"image_size": 4}])
def test_grey_of_16_bits_is_read_as_an_array_of_it(source, options, tmp_path, monkeypatch):
    found = load(source, tmp_path, [encoded(one) for one in SCANS], monkeypatch, **options)
    np.save(tmp_path / "same.npy", SCANS)
    array = load_images("npy", "train", path=tmp_path / "same.npy", **options)
    assert (found.notes, found.value_range) == (array.notes, array.value_range)
    most = int("image_size" in options)  # pictures become levels after that, arrays before it
    np.testing.assert_allclose(found.data.images, array.data.images.astype(int), atol=most)


@pytest.mark.parametrize(
    ("pictures", "options", "expected"),
    [
        (SCANS // 16, {}, r"a quarter of 0..65535, .* is 40\d\d. Name the range: --config"),
        (SCANS, {"on_disk": True}, "must be levels 0 to 255, uint8, got dtype uint16"),
        (SCANS, {"value_range": (0, 255)}, r"in one range, 0..255 .* \(dtype uint16\)"),
        ([GREY], {"value_range": (0, 65_535)}, r"in one range, 0..65535 .* \(dtype uint8\)"),
        ([GREY], {"value_range": (0, 200), "on_disk": True}, "got dtype uint8 in .*0, 200"),
        ([WIDE], {"fit": "cut"}, r"fit must be one of \['crop', 'pad', 'stretch'\]"),
    ],
)
def test_options_that_do_not_fit_are_refused(pictures, options, expected, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=expected):
        load("folder", tmp_path, [encoded(one) for one in pictures], monkeypatch, **options)


@sources
def test_an_eps_never_reaches_ghostscript(source, tmp_path, monkeypatch):
    from PIL import EpsImagePlugin

    def run(*arguments, **options):
        raise AssertionError("Ghostscript was to run")

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", run)
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 6 6\n%%EndComments\nshowpage\n"
    with pytest.raises(ValueError, match="its content is not PNG, JPEG, WebP or BMP"):
        load(source, tmp_path, [eps], monkeypatch)


@sources
@pytest.mark.parametrize("tag", range(10))
def test_pictures_are_turned_as_their_tag_says(source, tag, tmp_path, monkeypatch):
    exif = Image.Exif()
    exif[0x0112] = tag
    picture = encoded(WIDE, exif=exif)
    found = load(source, tmp_path, [picture], monkeypatch, fit="pad")
    with (
        Image.open(tmp_path / "s" / "0.png") if source == "folder" else Image.fromarray(WIDE) as it
    ):
        it.getexif()[0x0112] = tag
        shown = np.asarray(ImageOps.exif_transpose(it))
    whole = found.data.images[0]
    rows, columns = ((6 - side) // 2 for side in shown.shape[:2])
    np.testing.assert_array_equal(whole[rows : 6 - rows, columns : 6 - columns], shown)
    assert any("1 of 1 images turned" in note for note in found.notes) == (2 <= tag <= 8)
    height, width = shown.shape[:2]
    assert found.notes[-1].endswith(f"(fit=pad) from {height}x{width}")


@sources
def test_grey_and_colour_become_colour(source, tmp_path, monkeypatch):
    """A broken tag turns nothing."""
    pictures = [encoded(GREY), encoded(COLOUR, "BMP"), encoded(COLOUR, "WEBP", lossless=True)]
    pictures.append(encoded(COLOUR, exif=b"Exif\0\0no tag at all"))
    found = load(source, tmp_path, pictures, monkeypatch)
    assert found.notes == ("some images are grey and some in colour: all became RGB",)
    images = {image.tobytes() for image in found.data.images}
    assert images == {GREY[..., None].repeat(3, -1).tobytes(), COLOUR.tobytes()}


@sources
@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparency_is_dropped_and_counted(source, mode, tmp_path, monkeypatch):
    alpha = Image.fromarray(np.uint8([[0, 255] * 3] * 6))
    if mode == "P":
        image, options = Image.fromarray(COLOUR).quantize(8), {"transparency": bytes([0, 9])}
    else:
        image, options = Image.fromarray(COLOUR).convert(mode[:-1]), {}
        image.putalpha(alpha)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = load(source, tmp_path, [encoded(image, **options)], monkeypatch)
    (note,) = found.notes
    assert note.startswith("1 of 1 images made opaque: transparency is dropped (first ")
    opaque = np.asarray(image.convert("L" if mode == "LA" else "RGB")).reshape(6, 6, -1)
    np.testing.assert_array_equal(found.data.images[0], opaque)


MORE = {"save_all": True, "append_images": [Image.fromarray(255 - COLOUR)], "lossless": True}
DEEP = RANDOM.integers(0, 65536, (6, 6, 3)).astype(">u2")
DEEP_ROWS = b"".join(b"\0" + row.tobytes() for row in DEEP)


@sources
@pytest.mark.parametrize(
    ("picture", "expected", "words"),
    [
        (encoded(COLOUR, "WEBP", **MORE), COLOUR, "read without further frames"),
        (png(6, 6, 16, 2, DEEP_ROWS), DEEP >> 8, "cut from 16 bits a channel to 8"),
    ],
    ids=["frames", "colour of 16"],
)
def test_what_is_left_out_is_counted(source, picture, expected, words, tmp_path, monkeypatch):
    found = load(source, tmp_path, [picture, encoded(COLOUR)], monkeypatch)
    assert found.notes[0].startswith(f"1 of 2 images {words} (first ")
    np.testing.assert_array_equal(found.data.images, [expected, COLOUR])


@sources
@pytest.mark.parametrize(
    ("fit", "size", "expected", "note"),
    [
        ("crop", None, WIDE[:, 1:5], "cut to the central square (fit=crop) from 4x6"),
        ("crop", 4, WIDE[:, 1:5], "cut to the central square (fit=crop) from 4x6"),
        ("pad", None, np.pad(WIDE, ((1, 1), (0, 0), (0, 0))),
         "padded to a square with black (fit=pad) from 4x6"),
        ("stretch", 4,
         np.asarray(Image.fromarray(WIDE).resize((4, 4), Image.Resampling.BILINEAR)),
         "stretched to a square (fit=stretch) from 4x6"),
    ],
)  # fmt: skip
def test_rectangles_become_squares(source, fit, size, expected, note, tmp_path, monkeypatch):
    options = {"fit": fit, "image_size": size}
    found = load(source, tmp_path, [encoded(WIDE)], monkeypatch, **options)
    np.testing.assert_array_equal(found.data.images[0], expected)
    assert found.notes == (note,)
    np.savez(tmp_path / "same.npz", images=WIDE[None])
    array = load_images("npz", "train", path=tmp_path / "same.npz", **options)
    np.testing.assert_array_equal(array.data.images[0], expected)
    assert array.notes == (note,)
    for numbers in (WIDE / 255, WIDE / np.float32(127.5) - 1, WIDE.astype(float)):
        np.savez(tmp_path / "same.npz", images=numbers[None])
        array = load_images("npz", "train", path=tmp_path / "same.npz", **options)
        np.testing.assert_array_equal(array.data.images[0], expected)


@sources
def test_sizes_may_differ_where_images_are_resized(source, tmp_path, monkeypatch):
    pictures = [encoded(COLOUR), encoded(COLOUR.repeat(2, axis=0)), encoded(COLOUR[:5, :5])]
    with pytest.raises(ValueError, match=r"one size, got .*Set image_size, for example .*=5"):
        load(source, tmp_path / "a", pictures, monkeypatch)
    found = load(source, tmp_path / "b", pictures, monkeypatch, image_size=5)
    assert found.data.images.shape == (3, 5, 5, 3)
    cut = "cut to the central square (fit=crop) and resized from 3 sizes from 5x5 to 12x6"
    assert found.notes == (cut,)


def make(place, *names):
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(encoded(COLOUR) if name.endswith(".png") else b"text")


def test_files_that_are_not_read_are_counted_once(tmp_path):
    make(
        tmp_path, "a/0.png", "a/deep/1.png", "a/notes.txt", "b/2.png", "b/._2.png", ".hidden/3.png"
    )
    found = load_images("folder", "train", path=tmp_path)
    assert sorted(found.files) == ["a/0.png", "b/2.png"]
    assert found.notes == ("files not read: 4 (.hidden/3.png, a/deep/1.png, a/notes.txt)",)


def test_a_note_cannot_disturb_a_terminal(tmp_path):
    make(tmp_path, "0.png", "\x1b[2J\nodd\udcff")
    (note,) = load_images("folder", "train", path=tmp_path).notes
    assert note == "files not read: 1 (?[2J?odd?)"


def test_files_beside_splits_are_counted_with_the_training_images(tmp_path):
    make(tmp_path, "train/0.png", "test/1.png", "labels.csv", "masks/notes.txt")
    found = load_images("folder", "train", path=tmp_path)
    assert found.notes == ("files not read: 2 (labels.csv, masks/)",)
    assert load_images("folder", "test", path=tmp_path).notes == ()


@pytest.mark.parametrize("kind", ["broken link", "device", "pipe"])
def test_only_regular_files_are_opened(kind, tmp_path):
    """Opening the pipe would wait for ever."""
    make(tmp_path, "0.png")
    odd = tmp_path / "1.png"
    if kind == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to("/dev/zero" if kind == "device" else tmp_path / "nothing.png")
    with pytest.raises(ValueError, match=r"1\.png must be a regular file or a link to one"):
        load_images("folder", "train", path=tmp_path)


@pytest.mark.parametrize("dtype", [np.uint16, np.float32])
def test_data_sets_of_more_than_8_bits_are_refused(dtype, monkeypatch):
    """They would be wrapped around, or cut to 0."""
    fake_tfds(monkeypatch, [{"image": encoded(GREY)}], dtype)
    with pytest.raises(ValueError, match=rf"8 bits a channel, uint8; it has {np.dtype(dtype)}"):
        load_images("some_set", "train")


def test_labels_of_data_sets_are_class_numbers(monkeypatch):
    fake_tfds(monkeypatch, [{"image": encoded(GREY), "label": 1}] * 2, label=3)
    found = load_images("some_set", "train")
    assert (found.data.labels.tolist(), found.num_classes) == ([1, 1], 3)


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        ("[Image.new('L', (6, 6)), None]", "image 1 of .* has no image"),
        ("[Image.new('I', (6, 6))]", "at most 8 bits a channel, .* mode 'I'"),
        ("[Image.open(io.BytesIO(SHORT))]", "image 0 of .* cannot be read as an image: .*Repair"),
        ("[np.zeros((6, 6)), np.zeros((6, 5))]", "must be one array, and their shapes differ"),
        ("np.array([[[None]]])", "must be an array of numbers, got dtype object"),
    ],
)
def test_what_a_function_returns_is_judged_alike(images, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    header = "import io\nimport numpy as np\nfrom PIL import Image\n"
    header += f"SHORT = {encoded(COLOUR)[:-40]!r}\n"
    (tmp_path / "mine.py").write_text(f"{header}def read(split):\n    return {images}, None\n")
    with pytest.raises((ValueError, TypeError), match=expected):
        load_images(f"{tmp_path}/mine.py:read", "train")


def test_a_function_may_return_pictures(tmp_path):
    """They are left open for the user's own use, and changes are counted."""
    (tmp_path / "a.png").write_bytes(encoded(COLOUR, **MORE))
    (tmp_path / "mine.py").write_text(
        "from PIL import Image\n"
        f"PICTURES = [Image.open({str(tmp_path / 'a.png')!r}), Image.new('L', (6, 6))]\n"
        "def read(split): return PICTURES, [0, 1]\n"
    )
    for _ in range(2):
        found = load_images(f"{tmp_path}/mine.py:read", "train")
        images = [image.tobytes() for image in found.data.images]
        assert images[found.data.labels.tolist().index(0)] == COLOUR.tobytes()
        assert found.notes[1].startswith("1 of 2 images read without further frames (first ")


def test_pictures_are_decoded_beside_each_other_and_stay_in_order(monkeypatch):
    """Two decoders wait for each other; the first damaged picture is the one that is named."""
    meeting = threading.Barrier(2, timeout=60)

    def meet(pixels, size, fit):
        meeting.wait()
        return pixels

    monkeypatch.setattr("ebmjax.data._pictures.fit_images", meet)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    levels = [np.full((2, 2), level, np.uint8) for level in range(6)]
    pictures = [encoded(one) for one in levels]
    found = decode_pictures(pictures, [str(k) for k in range(6)], (2, 2, 1), None, "crop", "L")
    np.testing.assert_array_equal(found[..., 0], levels)
    damaged = [*pictures[:2], b"one", b"two"]
    with pytest.raises(ValueError, match=r"^c cannot be read as an image"):
        decode_pictures(damaged, ["a", "b", "c", "d"], (2, 2, 1), None, "crop", "L")
