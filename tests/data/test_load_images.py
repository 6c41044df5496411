"""Every source of images gives the same images, and every mistake is named."""

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from picture_sources import write_rows
from PIL import Image

from ebmjax import data, training
from ebmjax.training import tree_digest

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (24, 10, 10, 3), np.uint8)
LABELS = np.repeat([0, 1, 2], 8).astype(np.int64)


def as_set(images, labels):
    """Images with their labels, in any order."""
    return {(image.tobytes(), int(label)) for image, label in zip(images, labels, strict=True)}


def write_folder(place, images=IMAGES, labels=LABELS, suffix=".png"):
    for index, (image, label) in enumerate(zip(images, labels, strict=True)):
        folder = place if label is None else place / "abc"[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.squeeze()).save(folder / f"{index:03}{suffix}")
    return place


def write_npz(place, **arrays):
    np.savez(place / "all.npz", **arrays)
    return place / "all.npz"


def write_npy(place, **arrays):
    for name, array in arrays.items():
        np.save(place / f"{name}.npy", array)
    return place


def write_saved_dataset(place):
    rows = {"image": [Image.fromarray(image) for image in IMAGES], "kind": LABELS.tolist()}
    return write_rows(
        place / "saved", rows, lambda d: {"kind": d.ClassLabel(names=["a", "b", "c"])}
    )


WRITERS = {
    "npz": lambda place: write_npz(place, images=IMAGES, labels=LABELS),
    "npy": lambda place: write_npy(place, images=IMAGES, labels=LABELS),
    "folder": write_folder,
    "huggingface": write_saved_dataset,
}


@pytest.fixture
def my_module(tmp_path, monkeypatch):
    """Writes a module of the current folder; returns a function that names it."""
    monkeypatch.chdir(tmp_path)

    def write(text):
        (tmp_path / "my_images.py").write_text(text)
        monkeypatch.delitem(sys.modules, "my_images", raising=False)
        return "my_images:read"

    return write


@pytest.mark.parametrize("name", WRITERS)
def test_a_source_gives_the_images_with_their_labels(name, tmp_path):
    path, name = WRITERS[name](tmp_path), name.replace("npy", "npz")
    found = data.load_images(name, "train", path=path)
    assert as_set(*found.data) == as_set(IMAGES, LABELS)
    assert (found.data.images.dtype, found.data.labels.dtype) == (np.uint8, np.int32)
    assert (found.num_found, found.num_classes, found.notes) == (24, 3, ())
    # Files are often sorted by class: the first images must not be those of one class.
    few = data.load_images(name, "train", path=path, max_examples=12)
    assert (len(few.data.labels), few.num_found, few.num_classes) == (12, 24, 3)
    assert len(set(few.data.labels.tolist())) == 3
    with pytest.raises(data.MissingSplitError, match="test"):
        data.load_images(name, "test", path=path)


@pytest.mark.parametrize("name", ["npy", "folder", "huggingface"])
def test_images_that_stay_on_the_disk_are_the_same(name, tmp_path, monkeypatch):
    monkeypatch.setattr("ebmjax._stored.AT_ONCE", 10)
    path, name = WRITERS[name](tmp_path), name.replace("npy", "npz")
    options = {"path": path, "image_size": 5, "max_examples": 23}
    whole, stored = (data.load_images(name, "train", on_disk=there, **options) for there in (0, 1))
    assert stored[1:] == whole[1:]
    images = stored.data.images
    assert (images.shape, images.dtype, len(images)) == ((23, 5, 5, 3), np.uint8, 23)
    np.testing.assert_array_equal(stored.data.labels, whole.data.labels)
    for places in (slice(2, 9), np.array([20, 3, 3]), slice(0)):
        np.testing.assert_array_equal(images[places], whole.data.images[places])
    np.testing.assert_array_equal(images.rows(slice(5, None))[:3], whole.data.images[5:8])
    assert tree_digest(stored.data) == tree_digest(whole.data)
    assert tree_digest(data.check_image_data(stored.data, 3)) == tree_digest(whole.data)


def test_images_that_cannot_stay_on_the_disk_are_refused(tmp_path):
    path = write_npz(tmp_path, images=IMAGES)
    with pytest.raises(ValueError, match="Read these into memory"):
        data.load_images("npz", "train", path=path, on_disk=True)
    path.unlink()
    write_npy(tmp_path, images=IMAGES / 255.0)
    with pytest.raises(ValueError, match="must be levels 0 to 255, uint8, got dtype float64"):
        data.load_images("npz", "train", path=tmp_path, on_disk=True)


@pytest.mark.parametrize("name", ["npy", "folder", "huggingface"])
def test_a_file_that_changes_later_is_named(name, tmp_path):
    path, name = WRITERS[name](tmp_path), name.replace("npy", "npz")
    images = data.load_images(name, "train", path=path, on_disk=True).data.images
    assert images[:3].shape == (3, 10, 10, 3)
    for file in path.rglob("*.*"):
        os.utime(file, (5.0, 5.0))
    with pytest.raises(data.DataChangedError, match=r"\.\w+ is gone or has another size"):
        images[:3]


def test_a_folder_is_known_by_names_and_sizes_wherever_it_lies(tmp_path):
    """Its time of change is not compared, so that a run goes on where the folder was copied."""

    def digest_of(place):
        found = data.load_images("folder", "train", path=place, on_disk=True)
        return training.digest_data(found.data)

    here = write_folder(tmp_path / "here")
    there = shutil.copytree(here, tmp_path / "there", copy_function=shutil.copyfile)
    assert digest_of(here) == digest_of(there)
    file = sorted(there.glob("*/*.png"))[0]
    file.write_bytes(file.read_bytes() + b"\0")  # the same pixels
    before, after = digest_of(here)[".images"], digest_of(there)[".images"]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True] * 3 + [False]
    file.rename(file.with_name("other.png"))
    assert digest_of(there)[".images"][3] != after[3]


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r'pip install "ebmjax\[huggingface\]"'):
        data.load_images("huggingface", "train", path=tmp_path)


def test_a_function_is_a_source(my_module):
    name = my_module(
        "import numpy as np\n"
        "def read(split):\n"
        "    if split == 'train':\n"
        "        return np.arange(4 * 9.0).reshape(4, 3, 3) / 36, np.array([0, 1, 0, 1])\n"
    )
    found = data.load_images(name, "train")
    assert found.data.images.shape == (4, 3, 3, 1)
    assert found.notes == ("pixels are 0..1 and became levels",)
    with pytest.raises(data.MissingSplitError, match="returned None"):
        data.load_images(name, "test")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import nothing_of_that_name\n", "cannot be imported: ModuleNotFoundError"),
        ("import sys\ndef read(split): sys.exit(3)\n", "raised SystemExit: 3"),
        ("def read(): pass\n", r"must take \(split\) and return .* its arguments are \(\)"),
        ("def read(split): return 3\n", r"must return \(images, labels\) or None, got a int"),
        (
            "import numpy as np\ndef read(split): return np.zeros((2, 8, 8), 'u1'), np.zeros(3)\n",
            r"must have shape \(2,\), got",
        ),
    ],
)
def test_mistakes_of_a_function_are_named(text, expected, my_module):
    with pytest.raises(ValueError, match=expected):
        data.load_images(my_module(text), "train")


def bad(images=IMAGES, **changes):
    return {"images": images, "labels": LABELS} | changes


@pytest.mark.parametrize(
    ("arrays", "error", "expected"),
    [
        (bad(IMAGES.transpose(0, 3, 1, 2)), ValueError, r"Save images.transpose\(0, 2, 3, 1\)"),
        (bad(np.concatenate([IMAGES, IMAGES[..., :1]], -1)), ValueError, "1 channel .* got 4"),
        (bad(IMAGES.astype(np.complex64)), TypeError, "array of numbers, got dtype complex64"),
        (bad(labels=np.eye(3)[LABELS]), ValueError, "argmax"),
        (bad(labels=LABELS / 2), TypeError, "labels must be integers, got dtype float64"),
        ({"pictures": IMAGES}, data.MissingSplitError, r"it holds \['pictures'\]"),
        (bad(np.array([[[None]]])), ValueError, "images in .* Python objects.*never unpickled"),
    ],
)
def test_mistakes_of_arrays_are_named(arrays, error, expected, tmp_path):
    with pytest.raises(error, match=expected):
        data.load_images("npz", "train", path=write_npz(tmp_path, **arrays))


def test_files_that_are_no_arrays_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"path does not exist: .*nothing.npz"):
        data.load_images("npz", "train", path=tmp_path / "nothing.npz")
    with pytest.raises(ValueError, match=r"path must name an .npz file, an .npy file"):
        data.load_images("npz", "train")
    with pytest.raises(data.MissingSplitError, match="it holds no arrays"):
        data.load_images("npz", "train", path=tmp_path)
    (tmp_path / "text.npz").write_text("no array")
    with pytest.raises(ValueError, match=r"text.npz cannot be read"):
        data.load_images("npz", "train", path=tmp_path / "text.npz")
    cut = write_npz(tmp_path, images=IMAGES).read_bytes()
    (tmp_path / "cut.npz").write_bytes(cut[:300] + bytes(500) + cut[800:])
    with pytest.raises(ValueError, match=r"images in .*cut.npz cannot be read"):
        data.load_images("npz", "train", path=tmp_path / "cut.npz")


def test_one_npy_file_holds_training_images_alone(tmp_path):
    np.save(tmp_path / "mine.npy", IMAGES)
    found = data.load_images("npy", "train", path=tmp_path / "mine.npy")
    assert as_set(*found.data) == as_set(IMAGES, np.zeros(24))
    assert (found.num_classes, found.notes) == (None, ())
    with pytest.raises(data.MissingSplitError, match="must hold the test images"):
        data.load_images("npz", "test", path=tmp_path / "mine.npy")


def test_a_folder_has_splits_or_is_the_training_images(tmp_path):
    write_folder(tmp_path / "train")
    write_folder(tmp_path / "test", IMAGES[:4], [None] * 4)
    train, test = (data.load_images("folder", split, path=tmp_path) for split in ("train", "test"))
    for image, label, file in zip(*train.data, train.files, strict=True):
        assert file.startswith(f"{'abc'[label]}/")
        np.testing.assert_array_equal(image, IMAGES[int(Path(file).stem)])
    assert (train.num_found, train.class_names) == (24, ("a", "b", "c"))
    assert (test.num_found, test.num_classes, test.class_names) == (4, None, ())


def test_classes_without_images_are_told(tmp_path):
    path = write_npz(tmp_path, images=IMAGES, labels=2 * LABELS)
    found = data.load_images("npz", "train", path=path)
    assert (found.num_classes, found.empty_classes) == (5, (1, 3))


def test_mistakes_of_a_folder_are_named(tmp_path):
    with pytest.raises(
        ValueError, match=r"holds no images \(.png, .jpg, .jpeg, .jfif, .webp, .bmp\)"
    ):
        data.load_images("folder", "train", path=tmp_path)
    write_folder(tmp_path)
    (tmp_path / "d").mkdir()
    with pytest.raises(ValueError, match=r"classes \['d'\] have no images"):
        data.load_images("folder", "train", path=tmp_path)
    (tmp_path / "d" / "broken.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"broken.png cannot be read as an image"):
        data.load_images("folder", "train", path=tmp_path)
    (tmp_path / "d" / "broken.png").rename(tmp_path / "stray.png")
    with pytest.raises(ValueError, match=r"stray.png.*beside folders of classes"):
        data.load_images("folder", "train", path=tmp_path)


def test_digits_come_in_their_own_order_and_can_be_enlarged():
    found = data.load_images("digits", "test")
    np.testing.assert_array_equal(found.data.images, data.load_digits("test").images)
    assert (found.num_found, found.num_classes) == (357, 10)
    larger = data.load_images("digits", "test", image_size=16, max_examples=3)
    assert larger.data.images.shape == (3, 16, 16, 1)
    assert larger.notes == ("resized from 8x8",)


@pytest.mark.parametrize(
    ("names", "expected"),
    [(("1", "2", "10", "03"), ("1", "2", "03", "10")), (("1", "b", "10"), ("1", "10", "b"))],
)
def test_folders_that_are_all_numbers_are_ordered_as_numbers(names, expected, tmp_path):
    for name in names:
        (tmp_path / name).mkdir()
        Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / name / "a.png")
    assert data.load_images("folder", "train", path=tmp_path).class_names == expected
