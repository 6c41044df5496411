import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.core import dataset_builder
from tensorflow_datasets.core.download import checksums, downloader
from tensorflow_datasets.datasets.celeb_a import celeb_a_dataset_builder as celeb_a
from tensorflow_datasets.image_classification import mnist
from tfds_originals import (
    IMAGES,
    LABELS,
    celeb_a_originals,
    cifar10_originals,
    mnist_originals,
    svhn_originals,
)

from ebmjax.data import (
    DataUnavailableError,
    MissingSplitError,
    check_source,
    load_images,
    prepare_tfds,
)

REPOSITORY = Path(__file__).resolve().parents[2]
REAL = REPOSITORY.parent / "shared" / "data" / "tfds"


def load_tfds(name, split, data_dir=None, **options):
    return load_images(name, split, path=data_dir, **options).data


needs_real_cifar10 = pytest.mark.skipif(
    not (REAL / "cifar10").is_dir(), reason=f"needs a prepared CIFAR-10 in {REAL}"
)


@needs_real_cifar10
@pytest.mark.parametrize(("split", "size"), [("train", 50_000), ("test", 10_000)])
def test_cifar10_reads_by_the_block_as_one_by_one(split, size, monkeypatch):
    monkeypatch.setattr("ebmjax.data._tfds.AT_ONCE", 64)
    source = tfds.data_source(
        "cifar10", split=split, data_dir=REAL, builder_kwargs={"file_format": "array_record"}
    )
    assert len(source) == size
    data = load_tfds("cifar10", split, data_dir=REAL, max_examples=300)
    assert data.images.shape == (300, 32, 32, 3)
    assert (data.images.dtype, data.labels.dtype) == (np.uint8, np.int32)
    assert set(data.labels.tolist()) == set(range(10))
    for index in (0, 63, 64, 299):
        np.testing.assert_array_equal(data.images[index], source[index]["image"])
        assert data.labels[index] == source[index]["label"]


def test_an_empty_data_dir_tells_how_to_prepare(tmp_path):
    where = re.escape(str(tmp_path / "cifar10" / "3.0.2"))
    with pytest.raises(DataUnavailableError, match=rf"no {where}\..*prepare_tfds\('cifar10'"):
        check_source("cifar10", "test", path=tmp_path, needs_copy=True)
    check_source("cifar10", "test", path=tmp_path)
    assert not list(tmp_path.iterdir())


@needs_real_cifar10
@pytest.mark.parametrize("split", ["valid", "test[:0]"])
def test_a_split_that_is_not_there_lists_those_that_are(split):
    with pytest.raises(MissingSplitError, match=r"has train \(50000\), test \(10000\), and no"):
        load_tfds("cifar10", split, data_dir=REAL)


@pytest.mark.parametrize("name", ["./pngs", "/data/my.set", " cifar10", "", "CIFAR10", "me:mnist"])
def test_a_name_that_is_none(name, tmp_path):
    with pytest.raises(ValueError, match=r"data set") as caught:
        check_source(name, "train", path=tmp_path, needs_copy=True)
    assert f"got name={name!r}" in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def copy_of_cifar10(tmp_path):
    """A writable copy of the real test split's folder."""
    folder = tmp_path / "cifar10" / "3.0.2"
    folder.mkdir(parents=True)
    for file in (REAL / "cifar10" / "3.0.2").iterdir():
        if "train" not in file.name:
            shutil.copyfile(file, folder / file.name)
    return folder


@pytest.mark.parametrize("name", ["mine", "mine:1.0.0"])
def test_a_copy_that_names_code_does_not_run_it(name, tmp_path, monkeypatch):
    """tensorflow-datasets would import the module of the class."""
    monkeypatch.syspath_prepend(tmp_path)
    canary = tmp_path / "canary"
    (tmp_path / "evil_features.py").write_text(f"open({str(canary)!r}, 'w')\n")
    folder = tmp_path / "data" / "mine" / "1.0.0"
    folder.mkdir(parents=True)
    info = {"name": "mine", "version": "1.0.0", "fileFormat": "array_record"}
    splits = [{"name": "train", "shardLengths": ["1"], "numBytes": "1"}]
    (folder / "dataset_info.json").write_text(json.dumps(info | {"splits": splits}))
    features = {"pythonClassName": "evil_features.Feature", "featuresDict": {"features": {}}}
    (folder / "features.json").write_text(json.dumps(features))
    with pytest.raises(DataUnavailableError, match=r"'evil_features\.Feature', not of"):
        load_tfds(name, "train", data_dir=tmp_path / "data")
    assert not canary.exists()


@needs_real_cifar10
def test_a_tfrecord_copy_is_told_apart(copy_of_cifar10):
    info = copy_of_cifar10 / "dataset_info.json"
    info.write_text(json.dumps(json.loads(info.read_text()) | {"fileFormat": "tfrecord"}))
    with pytest.raises(DataUnavailableError, match=r"cannot be read: .*TFRECORD"):
        load_tfds("cifar10", "test", data_dir=copy_of_cifar10.parents[1])


@needs_real_cifar10
def test_another_version_than_the_newest_is_read(copy_of_cifar10):
    copy_of_cifar10.rename(copy_of_cifar10.with_name("3.0.1"))
    data_dir = copy_of_cifar10.parents[1]
    there = load_tfds("cifar10:3.0.1", "test", data_dir=data_dir, max_examples=3)
    expected = load_tfds("cifar10", "test", data_dir=REAL, max_examples=3)
    np.testing.assert_array_equal(there.images, expected.images)
    with pytest.raises(DataUnavailableError, match=r"cifar10:3\.0\.0 in .* cannot be read"):
        load_tfds("cifar10:3.0.0", "test", data_dir=data_dir)


BROKEN = {
    "empty": "",
    "cut off": '{"name": "cifar10", "spl',
    "no object": "[]",
    "no splits": '{"name": "cifar10", "version": "3.0.2", "fileFormat": "array_record"}',
    "other splits": '{"name": "cifar10", "version": "3.0.2", "fileFormat": "array_record", '
    '"splits": "all"}',
    "other format": '{"name": "cifar10", "version": "3.0.2", "fileFormat": "zip", "splits": [{}]}',
}


@needs_real_cifar10
@pytest.mark.parametrize("name", ["cifar10", "cifar10:3.0.2"])
@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_damaged_description_is_one_message(content, name, copy_of_cifar10):
    (copy_of_cifar10 / "dataset_info.json").write_text(content)
    message = r"cifar10.* cannot be read: .+\. The copy is damaged or incomplete: copy"
    with pytest.raises(DataUnavailableError, match=message) as caught:
        load_tfds(name, "test", data_dir=copy_of_cifar10.parents[1])
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


@needs_real_cifar10
@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_a_damaged_copy_is_told_apart(copy_of_cifar10, damage):
    (records,) = copy_of_cifar10.glob("*array_record*")
    if damage == "missing":
        records.unlink()
    else:
        records.write_bytes(records.read_bytes()[:1_000_000])
    with pytest.raises(DataUnavailableError, match=r"cannot be read.*damaged or incomplete"):
        load_tfds("cifar10", "test", data_dir=copy_of_cifar10.parents[1], max_examples=5)


PROGRAM = """
import sys
import ebmjax.data
heavy = {"tensorflow_datasets", "sklearn", "PIL", "scipy.io"} & set(sys.modules)
assert not heavy, f"import ebmjax.data brought {heavy}"
ebmjax.data.load_digits("test")
if sys.argv[1]:
    ebmjax.data.load_images("cifar10", "test", path=sys.argv[1], max_examples=3)
assert "tensorflow" not in sys.modules
"""


@pytest.mark.slow
def test_tensorflow_is_never_imported(tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise SystemExit('TensorFlow was imported')")
    real = str(REAL) if (REAL / "cifar10").is_dir() else ""
    paths = f"{tmp_path}:{REPOSITORY}"
    outcome = subprocess.run(
        [sys.executable, "-c", PROGRAM, real],
        env={"PYTHONPATH": paths, "HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert outcome.returncode == 0, outcome.stderr


@pytest.fixture
def serve(monkeypatch):
    """``serve(originals)`` puts {URL or its last part: bytes} in place of the network."""

    def install(originals):
        @contextlib.contextmanager
        def open_url(url, **kwargs):
            content = originals[url if url in originals else url.rsplit("/", 1)[-1]]
            name = "archive.zip" if url == celeb_a.IMG_ALIGNED_DATA else url.rsplit("/", 1)[-1]
            headers = {"content-disposition": f"filename={name}"}
            yield SimpleNamespace(url=url, headers=headers), [content]

        monkeypatch.setattr(downloader, "_open_with_requests", open_url)
        # The originals' checksums are registered; ours differ.
        monkeypatch.setattr(dataset_builder.DatasetBuilder, "url_infos", {})
        monkeypatch.setattr(checksums, "get_all_url_infos", dict)
        monkeypatch.setattr(mnist, "_TRAIN_EXAMPLES", 6)
        monkeypatch.setattr(mnist, "_TEST_EXAMPLES", 6)

    return install


def by_label_and_pixels(labels, images):
    return sorted((int(y), x.tobytes(), x.shape) for x, y in zip(images, labels, strict=False))


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
    assert by_label_and_pixels(data.labels, data.images) == by_label_and_pixels(LABELS, expected)
    serve({})  # a second load needs no network
    again = load_tfds(name, split, data_dir=tmp_path)
    np.testing.assert_array_equal(again.images, data.images)


def test_images_that_stay_on_the_disk_are_the_same(tmp_path, serve, monkeypatch):
    monkeypatch.setattr("ebmjax.data._tfds.AT_ONCE", 2)
    serve(cifar10_originals())
    options = {"path": tmp_path, "image_size": 16, "max_examples": 4}
    whole, stored = (load_images("cifar10", "train", on_disk=there, **options) for there in (0, 1))
    assert stored[1:] == whole[1:]
    np.testing.assert_array_equal(stored.data.labels, whole.data.labels)
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
    assert load_tfds("celeb_a", "test", data_dir=tmp_path).images.shape == (1, 178, 178, 3)


@pytest.mark.parametrize("name", ["cifar10", "celeb_a"])
def test_no_network_fails_at_once(tmp_path, monkeypatch, name):
    def unresolved(*args, **kwargs):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    for proxy in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(proxy, raising=False)
        monkeypatch.delenv(proxy.upper(), raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", unresolved)
    start = time.monotonic()
    with pytest.raises(DataUnavailableError) as caught:
        prepare_tfds(name, tmp_path)
    assert time.monotonic() - start < 20  # unpatched, urllib3's ten retries sleep for 204 s
    assert list((tmp_path / name).iterdir()) == []
    for part in (f"{tmp_path}/{name}", f"prepare_tfds('{name}', 'tfds')", "downloads/manual"):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)
