"""Inception's weights: the converter, whole files and bad ones."""

import hashlib
import io
import json
import pickle
import struct
import zipfile

import jax
import numpy as np
import pytest
from inception_reference import random_state_dict
from safetensors.numpy import save

from ebmjax.networks import load_inception, read_tensors
from ebmjax.networks._inception_weights import inception_variables


@pytest.fixture(scope="module")
def state_dict():
    return random_state_dict()


def test_every_weight_is_kept(state_dict, tmp_path):
    np.savez(tmp_path / "torch.npz", **state_dict)
    variables = inception_variables(read_tensors(tmp_path / "torch.npz"))
    unit = variables["params"]["Mixed_6b"]["branch7x7_2"]
    theirs = state_dict["Mixed_6b.branch7x7_2.conv.weight"]
    assert unit["conv"]["kernel"].shape == (1, 7, 128, 128)
    assert unit["conv"]["kernel"][0, 4, 5, 6] == theirs[6, 5, 0, 4]
    assert np.array_equal(variables["params"]["fc"]["kernel"], state_dict["fc.weight"].T)
    kept = sum(x.size for x in jax.tree.leaves(variables))
    assert kept == sum(x.size for x in state_dict.values()) - 1008 - 94  # the bias, the counters
    assert {x.dtype for x in jax.tree.leaves(variables)} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("fc.weight"), "such as params/fc/kernel: got None"),
        (lambda t: t.update({"layer1.weight": np.zeros(3)}), "no weight of the FID Inception-v3"),
        (
            lambda t: t.update({"AuxLogits.conv0.conv.weight": np.zeros((128, 768, 1, 1))}),
            r"AuxLogits.*torchvision",
        ),
        (lambda t: t.update({"Conv2d_1a_3x3.conv.weight": np.zeros(3)}), "4 axes"),
        (
            lambda t: t.update({"fc.weight": np.zeros((1000, 2048))}),
            r"params/fc/kernel: got \(2048, 1000\), expected \(2048, 1008\)",
        ),
        (lambda t: t.update({"fc.weight": np.full((1008, 2048), np.nan)}), "finite"),
    ],
    ids=["missing", "unknown", "torchvision", "axes", "shape", "nan"],
)
def test_wrong_tensors_are_named(change, message, state_dict):
    tensors = {**state_dict}
    change(tensors)
    with pytest.raises(ValueError, match=message):
        inception_variables(tensors)


# ---- files ----

TENSORS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array([1.5, -2.0], np.float16),
    "c": np.array(7),
    "d": np.zeros((0, 4), np.float64),
}


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_tensors_come_back(suffix, tmp_path):
    path = tmp_path / f"weights{suffix}"
    if suffix == ".npz":
        np.savez(path, allow_pickle=False, **TENSORS)
    else:
        path.write_bytes(save(TENSORS))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    for sha256 in (None, digest, digest.upper(), f" {digest}\n"):
        got = read_tensors(path, sha256)
        assert got.keys() == TENSORS.keys()
        for name, tensor in TENSORS.items():
            assert got[name].dtype == tensor.dtype
            np.testing.assert_array_equal(got[name], tensor, strict=True)
    with pytest.raises(ValueError, match=f"SHA-256 {digest}, expected sha256=0000"):
        read_tensors(path, "0" * 64)
    with pytest.raises(FileNotFoundError, match="generation_metrics"):
        load_inception(tmp_path / f"none{suffix}")


class Canary:
    """Touches a file when unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def archive_with(member, data, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr(member, data)
    return file.getvalue()


def object_array(canary):
    file = io.BytesIO()
    np.save(file, np.array([canary], object), allow_pickle=True)
    return archive_with("a.npy", file.getvalue())


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("weights.pkl", pickle.dumps),
        ("weights.pt", pickle.dumps),
        ("weights.pth", lambda canary: archive_with("archive/data.pkl", pickle.dumps(canary))),
        ("weights.npz", pickle.dumps),
        ("weights.npz", lambda canary: archive_with("archive/data.pkl", pickle.dumps(canary))),
        ("weights.npz", object_array),
        ("weights.safetensors", pickle.dumps),
    ],
    ids=["pkl", "pt", "pth", "pickle-as-npz", "pth-as-npz", "objects", "pickle-as-safetensors"],
)
def test_no_pickle_is_ever_opened(name, make, tmp_path):
    canary = tmp_path / "canary"
    path = tmp_path / name
    path.write_bytes(make(Canary(canary)))
    with pytest.raises(ValueError, match="generation_metrics"):
        read_tensors(path)
    assert not canary.exists()


def edited(**changes):
    """A file of one (2, 3) float32 tensor whose header says something else."""
    entry = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} | changes
    text = json.dumps({"a": entry}).encode()
    return struct.pack("<Q", len(text)) + text + bytes(24)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        struct.pack("<Q", 1 << 60) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        save(TENSORS)[:-1],
        edited(data_offsets=[4, 28]),
        edited(shape=[2**62, 2**62]),
        edited(dtype=None),
    ],
)
def test_damaged_safetensors_are_refused(data, tmp_path):
    (tmp_path / "good.safetensors").write_bytes(edited())
    assert read_tensors(tmp_path / "good.safetensors")["a"].shape == (2, 3)
    (tmp_path / "bad.safetensors").write_bytes(data)
    with pytest.raises(ValueError, match=r"no readable \.safetensors file"):
        read_tensors(tmp_path / "bad.safetensors")


def encrypted(data):
    """Sets the bit that says so, in both headers of the only member."""
    damaged = bytearray(data)
    for mark, offset in [(b"PK\x03\x04", 6), (b"PK\x01\x02", 8)]:
        damaged[damaged.index(mark) + offset] |= 1
    return bytes(damaged)


def cut_short(data, method):
    """Flips bits of the compressed member, which lies behind 30 bytes and its name."""
    damaged = bytearray(archive_with("a.npy", data, method))
    damaged[60:80] = bytes(20)
    return bytes(damaged)


def claims(shape):
    """An array's header without its numbers."""
    file = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return archive_with("a.npy", file.getvalue())


def flipped(data):
    """Flips a byte of the only member."""
    return data[:100] + bytes([data[100] ^ 255]) + data[101:]


def saved(save, *arrays, **named):
    file = io.BytesIO()
    save(file, *arrays, **named)
    return file.getvalue()


RANDOM = np.random.default_rng(0).bytes(1000)


@pytest.mark.parametrize(
    "data",
    [
        flipped(saved(np.savez, a=np.zeros(1000))),
        flipped(saved(np.savez_compressed, a=np.zeros(1000))),
        saved(np.save, np.zeros(3)),
        encrypted(archive_with("a.npy", RANDOM)),
        cut_short(RANDOM, zipfile.ZIP_LZMA),
        cut_short(RANDOM, zipfile.ZIP_BZIP2),
        claims((2**40,)),
        claims((2**62, 2**62)),
        claims((-1,)),
        archive_with("a.npy", b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535),
    ],
)
def test_hostile_npz_is_refused(data, tmp_path):
    (tmp_path / "bad.npz").write_bytes(data)
    with pytest.raises(ValueError, match=r"no readable \.npz file") as info:
        read_tensors(tmp_path / "bad.npz")
    assert len(str(info.value)) < 600
