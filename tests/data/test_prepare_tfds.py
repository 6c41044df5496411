"""Preparing without TensorFlow, from tiny originals served in place of the network."""

import contextlib
import socket
import time
from types import SimpleNamespace

import numpy as np
import pytest
import requests
import tensorflow_datasets as tfds
from tensorflow_datasets.core import dataset_builder
from tensorflow_datasets.core.download import checksums, downloader
from tensorflow_datasets.datasets.celeb_a import celeb_a_dataset_builder as celeb_a
from tensorflow_datasets.image_classification import cifar, mnist
from tfds_originals import (
    IMAGES,
    LABELS,
    celeb_a_originals,
    cifar10_originals,
    mnist_originals,
    svhn_originals,
)

from ebmjax.data import DataUnavailableError, load_images, load_tfds, prepare_tfds
from ebmjax.data._tfds_without_tensorflow import _substitutions


@pytest.fixture
def serve(monkeypatch):
    """``serve(originals)`` puts {URL or its last part: bytes} in place of the network."""

    def install(originals):
        @contextlib.contextmanager
        def open_url(url, **kwargs):
            content = originals[url if url in originals else url.rsplit("/", 1)[-1]]
            if isinstance(content, Exception):
                raise content
            blocks = [content] if isinstance(content, bytes) else content
            name = "archive.zip" if url == celeb_a.IMG_ALIGNED_DATA else url.rsplit("/", 1)[-1]
            yield (
                SimpleNamespace(url=url, headers={"content-disposition": f"filename={name}"}),
                (blocks),
            )

        monkeypatch.setattr(downloader, "_open_with_requests", open_url)
        # The originals' checksums are registered; ours differ.
        monkeypatch.setattr(dataset_builder.DatasetBuilder, "url_infos", {})
        monkeypatch.setattr(checksums, "get_all_url_infos", dict)
        monkeypatch.setattr(mnist, "_TRAIN_EXAMPLES", 6)
        monkeypatch.setattr(mnist, "_TEST_EXAMPLES", 6)

    return install


@pytest.fixture(autouse=True)
def restored():
    """After every test, whatever it did, tensorflow-datasets is as it was."""
    names = [(owner, name) for owner, name, _ in _substitutions([])]
    before = [getattr(owner, name) for owner, name in names]
    yield
    assert all(getattr(o, n) is value for (o, n), value in zip(names, before, strict=True))


def by_label_and_pixels(data):
    return sorted(
        (int(y), x.tobytes(), x.shape) for x, y in zip(data.images, data.labels, strict=True)
    )


@pytest.mark.parametrize(
    ("name", "originals", "split", "expected"),
    [
        ("cifar10", cifar10_originals, "train", IMAGES[:5]),
        ("svhn_cropped", svhn_originals, "test", IMAGES),
        ("mnist", mnist_originals, "train", IMAGES[:, :28, :28, :1]),
        ("fashion_mnist", mnist_originals, "test", IMAGES[:, :28, :28, :1]),
    ],
)
def test_arrays_are_prepared_losslessly(tmp_path, serve, name, originals, split, expected):
    serve(originals())
    data = load_tfds(name, split, data_dir=tmp_path)
    images = zip(expected, LABELS, strict=False)
    assert by_label_and_pixels(data) == sorted((int(y), x.tobytes(), x.shape) for x, y in images)
    # A second load needs no network.
    serve({})
    assert by_label_and_pixels(load_tfds(name, split, data_dir=tmp_path)) == by_label_and_pixels(
        data
    )


def test_images_that_stay_on_the_disk_are_the_same(tmp_path, serve, monkeypatch):
    monkeypatch.setattr("ebmjax.data._tfds.READ_AT_ONCE", 2)
    serve(cifar10_originals())
    options = {"path": tmp_path, "image_size": 16, "max_examples": 4}
    whole, stored = (load_images("cifar10", "train", on_disk=there, **options) for there in (0, 1))
    assert stored[1:] == whole[1:]
    np.testing.assert_array_equal(stored.data.labels, whole.data.labels)
    np.testing.assert_array_equal(stored.data.images[:], whole.data.images)
    places = np.array([3, 0, 1])
    np.testing.assert_array_equal(stored.data.images[places], whole.data.images[places])
    (records,) = (tmp_path / "cifar10").rglob("*train.array_record*")
    records.write_bytes(b"damaged")
    with pytest.raises(DataUnavailableError, match="The copy is damaged or incomplete"):
        load_images("cifar10", "train", on_disk=True, **options)


def test_celeb_a_is_prepared(tmp_path, serve):
    serve(celeb_a_originals())
    data = load_tfds("celeb_a", "train", data_dir=tmp_path, image_size=8)
    assert data.images.shape == (2, 8, 8, 3)
    assert sorted(data.images.mean(axis=(1, 2, 3)).tolist()) == [10, 90]
    assert load_tfds("celeb_a", "test", data_dir=tmp_path).images.shape == (1, 218, 178, 3)


def test_prepare_makes_the_folder_and_is_idempotent(tmp_path, serve):
    serve(cifar10_originals())
    prepare_tfds("cifar10", tmp_path / "new" / "tfds")
    records = tmp_path / "new" / "tfds" / "cifar10" / "3.0.2"
    before = {file: file.stat().st_mtime_ns for file in records.iterdir()}
    assert any("array_record" in file.name for file in before)
    prepare_tfds("cifar10", tmp_path / "new" / "tfds")
    assert {file: file.stat().st_mtime_ns for file in records.iterdir()} == before


def test_originals_fetched_by_hand_are_used(tmp_path, serve, monkeypatch):
    serve({})
    (content,) = cifar10_originals().values()
    manual = tmp_path / "downloads" / "manual"
    manual.mkdir(parents=True)
    (manual / "cifar-10-binary.tar.gz").write_bytes(content)
    info = checksums.compute_url_info(manual / "cifar-10-binary.tar.gz")
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
    monkeypatch.setattr(dataset_builder.DatasetBuilder, "url_infos", {url: info})
    assert load_tfds("cifar10", "test", data_dir=tmp_path).labels.tolist() == [9]


def everything_under(folder):
    return sorted(path for path in folder.rglob("*"))


@pytest.mark.parametrize("name", ["cifar10", "celeb_a"])
@pytest.mark.parametrize("made_before", [True, False])
def test_no_network_fails_at_once_and_leaves_nothing(tmp_path, monkeypatch, name, made_before):
    def unresolved(*args, **kwargs):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    for proxy in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(proxy, raising=False)
        monkeypatch.delenv(proxy.upper(), raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", unresolved)
    folder = tmp_path if made_before else tmp_path / "not" / "there"
    start = time.monotonic()
    with pytest.raises(DataUnavailableError) as caught:
        prepare_tfds(name, folder)
    assert time.monotonic() - start < 20  # unpatched, urllib3's ten retries sleep for 204 s
    assert everything_under(tmp_path) == []
    message = str(caught.value)
    for part in (
        f"{folder}/{name}",
        "no connection to https://",
        f"prepare_tfds('{name}', 'tfds')",
    ):
        assert part in message
    assert "tensorflow-cpu" in message
    assert f"{folder}/downloads/manual" in message
    assert "\n" not in message


def test_a_silent_network_is_given_up(tmp_path, serve, monkeypatch):
    limits = []

    def silent(url, **kwargs):
        limits.append(kwargs["timeout"])
        raise requests.exceptions.ConnectTimeout("timed out")

    serve({})
    monkeypatch.setattr(downloader, "_open_with_requests", silent)
    with pytest.raises(DataUnavailableError, match="no connection to"):
        prepare_tfds("cifar10", tmp_path)
    assert limits == [(10.0, 60.0)]


def test_google_drives_quota_is_explained(tmp_path, serve):
    refusal = "Failed to obtain confirmation link for GDrive URL https://drive.google.com/uc?id=1."
    serve(celeb_a_originals() | {celeb_a.IMG_ALIGNED_DATA: ValueError(refusal)})
    with pytest.raises(DataUnavailableError, match="Google Drive limits downloads a day"):
        prepare_tfds("celeb_a", tmp_path)
    assert not [path for path in everything_under(tmp_path) if ".tmp." in path.name]
    assert not (tmp_path / "celeb_a").exists()


def test_a_failure_ends_the_other_downloads(tmp_path, serve):
    fetched = []

    def endless():
        while True:
            fetched.append(1000)
            yield bytes(1000)
            time.sleep(0.001)

    def fails_later():
        while not fetched:
            time.sleep(0.001)
        raise OSError("connection reset")
        yield b""

    serve(svhn_originals() | {"extra_32x32.mat": endless(), "test_32x32.mat": fails_later()})
    with pytest.raises(DataUnavailableError, match="connection reset"):
        prepare_tfds("svhn_cropped", tmp_path)
    count = len(fetched)
    time.sleep(0.1)
    assert len(fetched) == count
    assert not [path for path in everything_under(tmp_path) if ".tmp." in path.name]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_what_was_there_stays_and_what_was_begun_goes(tmp_path, serve, monkeypatch, error):
    serve(cifar10_originals())
    downloads = tmp_path / "downloads" / "cifar10"
    kept = [tmp_path / "mnist" / "3.0.1" / "info.json", downloads / "by_another.tmp.0" / "part"]
    for file in kept:
        file.parent.mkdir(parents=True)
        file.touch()

    def stop(*args):
        raise error("stopped while writing records")

    monkeypatch.setattr(cifar, "_load_data", stop)
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else DataUnavailableError):
        prepare_tfds("cifar10", tmp_path)
    assert all(file.exists() for file in kept)
    assert not (tmp_path / "cifar10").exists()
    # The archive came whole and is kept, so that the next attempt need not fetch it again.
    assert any(downloads.glob("*.tar.gz"))


def test_a_disk_too_small_is_said(tmp_path, serve, monkeypatch):
    serve({})
    monkeypatch.setattr(
        dataset_builder.utils, "has_sufficient_disk_space", lambda *args, **kwargs: False
    )
    with pytest.raises(DataUnavailableError, match="Not enough disk space"):
        prepare_tfds("cifar10", tmp_path)
    assert everything_under(tmp_path) == []


def test_a_moved_private_name_is_said(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.delattr(downloader, "_open_url")
        with pytest.raises(DataUnavailableError, match=f"{tfds.__version__} has moved .*_open_url"):
            prepare_tfds("cifar10", tmp_path)
    assert everything_under(tmp_path) == []


def test_a_file_as_data_dir_is_refused(tmp_path):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(NotADirectoryError, match="must be a folder"):
        prepare_tfds("cifar10", file)
