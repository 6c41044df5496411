"""Array files are judged by their headers: nothing large, secret or executable is read."""

import io
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest

from ebmjax.data import _pixels as _limits
from ebmjax.data import load_images, load_points

IMAGES = np.random.default_rng(0).integers(0, 256, (24, 10, 10, 3), np.uint8)
HUGE = (1_000_000, 256, 256, 3)  # 183 GiB


def header(shape, dtype="|u1"):
    file = io.BytesIO()
    about = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, about)
    return file.getvalue()


def write_npz(place, content, name="images.npy", compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(place, "w", compression) as file:
        file.writestr(name, content)
    return place


def load(place, **options):
    return load_images("npz", "train", path=place, **options)


@pytest.fixture
def never_read(monkeypatch):
    """Fails the test where an array is read behind its header."""

    def read(*arguments, **options):
        raise AssertionError("an array was read")

    monkeypatch.setattr(np.lib.format, "read_array", read)
    monkeypatch.setattr(np, "load", read)


@pytest.mark.parametrize("name", ["images.npy", "images.npz", "folder/images.npy"])
def test_an_array_larger_than_memory_is_refused_by_its_header(name, tmp_path, never_read):
    place = tmp_path / name
    place.parent.mkdir(exist_ok=True)
    with place.open("wb") as file:
        file.write(header(HUGE))
        file.truncate(len(header(HUGE)) + np.prod(HUGE))  # a file with holes
    with pytest.raises(ValueError, match=r"1,000,000 images of shape .* need .* GiB of memory"):
        load(place.parent if "/" in name else place)


def test_a_member_larger_than_memory_is_refused_by_its_header(tmp_path, never_read, monkeypatch):
    """A zip bomb: 4 MB of zeros in 4 kB."""
    zeros = header((4_000_000 // 300, 10, 10, 3)) + bytes(4_000_000 // 300 * 300)
    place = write_npz(tmp_path / "bomb.npz", zeros)
    assert place.stat().st_size < 10_000
    monkeypatch.setattr(_limits, "free_bytes", lambda: 3_000_000)
    with pytest.raises(ValueError, match=r"13,333 images of shape \(10, 10, 3\) .* need 0.0 GiB"):
        load(place)


def test_more_labels_than_memory_are_refused_before_any_is_made(tmp_path, never_read):
    """Files with holes: the order of the images alone would fill the memory."""
    shapes = {"images": (10**11, 1, 1, 1), "labels": (10**11,)}
    for name, shape in shapes.items():
        with (tmp_path / f"{name}.npy").open("wb") as file:
            file.write(header(shape))
            file.truncate(len(header(shape)) + 10**11)
    for place in (tmp_path, tmp_path / "images.npy"):
        for options in ({}, {"max_examples": 1}, {"on_disk": True}):
            with pytest.raises(ValueError, match="order of 100,000,000,000 images need"):
                load(place, **options)


def test_few_images_of_an_npy_file_need_no_more_than_themselves_and_of_a_member_it_whole(
    tmp_path, monkeypatch
):
    np.save(tmp_path / "all.npy", IMAGES)
    np.savez(tmp_path / "all.npz", images=IMAGES)
    monkeypatch.setattr(_limits, "free_bytes", lambda: 5000)
    assert load(tmp_path / "all.npy", max_examples=5).data.images.shape[0] == 5
    with pytest.raises(ValueError, match=r"24 images .* 80% of what is free"):
        load(tmp_path / "all.npy")
    with pytest.raises(ValueError, match=r"1 images .* need"):
        load(tmp_path / "all.npz", max_examples=1)


def test_a_side_that_nothing_has_is_refused_before_anything_is_opened():
    for name in ("digits", "npz", "cifar10", "a:b"):
        with pytest.raises(ValueError, match="image_size must be at most 8192 pixels, got 100000"):
            load_images(name, "train", path="nowhere", image_size=100_000)


def test_images_are_not_enlarged_beyond_memory(monkeypatch):
    monkeypatch.setattr(_limits, "free_bytes", lambda: 10**9)
    with pytest.raises(ValueError, match=r"357 images of shape \(8, 8, 1\) .* need 22.3 GiB"):
        load_images("digits", "test", image_size=8192)


def test_objects_are_never_unpickled(tmp_path):
    class Harm:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "harm"),)

    content = header((1, 8, 8, 1), "|O") + pickle.dumps([Harm()])
    (tmp_path / "images.npy").write_bytes(content)
    write_npz(tmp_path / "images.npz", content)
    (tmp_path / "plain.npz").write_bytes(pickle.dumps(Harm()))
    for name in ("images.npy", "images.npz", "plain.npz"):
        with pytest.raises(ValueError, match=r"cannot be read: .*a file of plain arrays"):
            load(tmp_path / name)
        with pytest.raises(ValueError, match=r"must be an .npy file of points"):
            load_points(tmp_path / name)
    assert not (tmp_path / "harm").exists()


def flagged(place, offset, value):
    """Changes a field in both headers of the only member, by its offset in the local one."""
    content = bytearray(place.read_bytes())
    central = content.index(b"PK\x01\x02")
    for start in (offset, central + offset + 2):
        content[start : start + 2] = struct.pack("<H", value)
    place.write_bytes(content)
    return place


@pytest.mark.parametrize(
    ("offset", "value", "reason"),
    [(6, 1, "encrypted"), (8, 99, "compression"), (8, 12, "Invalid data")],
    ids=["encrypted", "unknown compression", "another compression"],
)
def test_members_that_cannot_be_opened_are_named(offset, value, reason, tmp_path):
    place = write_npz(tmp_path / "a.npz", header(IMAGES.shape) + IMAGES.tobytes())
    with pytest.raises(ValueError, match=rf"images in .*a\.npz cannot be read: .*{reason}"):
        load(flagged(place, offset, value))


def test_a_member_that_is_there_twice_is_refused(tmp_path):
    place = write_npz(tmp_path / "a.npz", header(IMAGES.shape) + IMAGES.tobytes())
    with zipfile.ZipFile(place, "a") as file, pytest.warns(UserWarning, match="Duplicate name"):
        file.writestr("images.npy", header(IMAGES.shape) + bytes(IMAGES.nbytes))
    with pytest.raises(ValueError, match=r"cannot be read: it has 'images\.npy' twice"):
        load(place)


LONG = b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31)  # which nobody reads
SHAPES = [(24, 10, 10, 4), (10**9, 10, 10, 3), (-24, 10, 10, 3)]


@pytest.mark.parametrize("first", [LONG, *map(header, SHAPES)])
def test_a_header_that_promises_too_much_is_refused(first, tmp_path, never_read):
    content = first + IMAGES.tobytes()
    (tmp_path / "a.npy").write_bytes(content)
    for place in (tmp_path / "a.npy", write_npz(tmp_path / "a.npz", content)):
        with pytest.raises(ValueError, match=r"cannot be read: (its header (prom|has the)|EOF: r)"):
            load(place)


def test_a_pipe_is_not_opened(tmp_path):
    """Opening it would wait for ever."""
    os.mkfifo(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"a\.npz is a pipe, a device or a socket"):
        load(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="/dev/zero is a pipe, a device or a socket"):
        load("/dev/zero")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "images.npy")
    with pytest.raises(ValueError, match=r"images\.npy cannot be read: it is no regular file"):
        load(tmp_path / "folder")
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        load_points(tmp_path / "a.npz")


def test_points_are_judged_by_their_header(tmp_path, never_read):
    place = tmp_path / "points.npy"
    with place.open("wb") as file:
        file.write(header((10**11, 2), "<f8"))
        file.truncate(len(header((10**11, 2), "<f8")) + 16 * 10**11)
    with pytest.raises(ValueError, match=r"the points of .* need .* GiB"):
        load_points(place)


def test_points_too_large_for_32_bits_are_named(tmp_path):
    points = np.ones((5, 2))
    points[3, 1] = 1e39
    np.save(tmp_path / "points.npy", points)
    with pytest.raises(ValueError, match="finite in 32 bits: 1 are not, the first in row 3"):
        load_points(tmp_path / "points.npy")
