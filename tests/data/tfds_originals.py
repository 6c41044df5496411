"""Tiny originals in the formats that tensorflow-datasets downloads."""

import gzip
import io
import struct
import tarfile
import zipfile

import numpy as np
from PIL import Image
from scipy.io import savemat
from tensorflow_datasets.datasets.celeb_a import celeb_a_dataset_builder as celeb_a

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), np.uint8)
LABELS = np.array([3, 1, 4, 1, 5, 9])


def cifar10_originals():
    """Five training batches with one image each and a test batch with one."""
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    files = {
        name: bytes([label]) + image.transpose(2, 0, 1).tobytes()
        for name, label, image in zip(names, LABELS, IMAGES, strict=True)
    }
    files["batches.meta.txt"] = "".join(f"class{i}\n" for i in range(10)).encode()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return {"cifar-10-binary.tar.gz": archive.getvalue()}


def svhn_originals():
    """Digit 0 is stored as class 10, images last: what the real .mat files do."""
    content = io.BytesIO()
    labels = np.where(LABELS == 0, 10, LABELS)[:, None]
    savemat(content, {"X": IMAGES.transpose(1, 2, 3, 0), "y": labels.astype(np.uint8)})
    return {f"{part}_32x32.mat": content.getvalue() for part in ("train", "test", "extra")}


def mnist_originals():
    images = IMAGES[:, :28, :28, 0]
    served = {}
    for part in ("train", "t10k"):
        header = struct.pack(">IIII", 2051, 6, 28, 28)
        served[f"{part}-images-idx3-ubyte.gz"] = gzip.compress(header + images.tobytes())
        header = struct.pack(">II", 2049, 6)
        labels = LABELS.astype(np.uint8).tobytes()
        served[f"{part}-labels-idx1-ubyte.gz"] = gzip.compress(header + labels)
    return served


def celeb_a_originals():
    """Two training faces and one for each other split, plain grey so that JPEG keeps them."""
    names = [f"{i:06d}.jpg" for i in range(1, 5)]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        for level, name in zip((10, 90, 170, 250), names, strict=True):
            jpeg = io.BytesIO()
            Image.new("RGB", (178, 218), (level,) * 3).save(jpeg, "JPEG")
            zipped.writestr(f"img_align_celeba/{name}", jpeg.getvalue())

    def table(headings, value):
        rows = [f"{name} {' '.join([value] * len(headings))}" for name in names]
        return "\n".join([str(len(names)), " ".join(headings), *rows, ""]).encode()

    parts = "".join(f"{name} {part}\n" for name, part in zip(names, "0012", strict=True))
    return {
        celeb_a.IMG_ALIGNED_DATA: archive.getvalue(),
        celeb_a.EVAL_LIST: parts.encode(),
        celeb_a.ATTR_DATA: table(celeb_a.ATTR_HEADINGS, "-1"),
        celeb_a.LANDMARKS_DATA: table(celeb_a.LANDMARK_HEADINGS, "7"),
        celeb_a.IDENTITY_DATA: "".join(f"{name} 1\n" for name in names).encode(),
    }
