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

from ebmjax.networks import inception_variables, load_inception, read_tensors
from experiments.convert_inception import convert, convert_state_dict


@pytest.fixture(scope="module")
def state_dict():
    return random_state_dict()


def safetensors_bytes(tensors):
    """Written from the format's description."""
    names = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32"}
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        data = np.asarray(tensor).tobytes()
        header[name] = {
            "dtype": names[str(tensor.dtype)],
            "shape": list(tensor.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


@pytest.fixture(scope="module")
def converted(state_dict, tmp_path_factory):
    folder = tmp_path_factory.mktemp("inception")
    np.savez(folder / "torch.npz", **state_dict)
    return folder / "ours.npz", convert(folder / "torch.npz", folder / "ours.npz")


def test_converter_keeps_every_weight(converted, state_dict):
    path, digest = converted
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    variables = inception_variables(read_tensors(path, digest))
    unit = variables["params"]["Mixed_6b"]["branch7x7_2"]
    theirs = state_dict["Mixed_6b.branch7x7_2.conv.weight"]
    assert unit["conv"]["kernel"].shape == (1, 7, 128, 128)
    assert unit["conv"]["kernel"][0, 4, 5, 6] == theirs[6, 5, 0, 4]
    assert np.array_equal(variables["params"]["fc"]["kernel"], state_dict["fc.weight"].T)
    kept = sum(x.size for x in jax.tree.leaves(variables))
    assert kept == sum(x.size for x in state_dict.values()) - 1008 - 94  # the bias, the counters


def test_converter_refuses_torchvisions_network(state_dict, tmp_path):
    with pytest.raises(ValueError, match=r"AuxLogits.*torchvision"):
        convert_state_dict({"AuxLogits.conv0.conv.weight": np.zeros((128, 768, 1, 1))})
    with pytest.raises(ValueError, match="no weight of the FID Inception-v3"):
        convert_state_dict({"layer1.weight": np.zeros(3)})
    with pytest.raises(ValueError, match="4 axes"):
        convert_state_dict({"Conv2d_1a_3x3.conv.weight": np.zeros(3)})
    with pytest.raises(ValueError, match=r"end in \.npz"):
        convert(tmp_path / "in.npz", tmp_path / "out.pkl")
    np.savez(tmp_path / "in.npz", **{"fc.weight": state_dict["fc.weight"][:1000]})
    with pytest.raises(ValueError, match="not the weights"):
        convert(tmp_path / "in.npz", tmp_path / "out.npz")
    with pytest.raises(ValueError, match=r"in\.npz' exists: choose another name, or remove it\."):
        convert(tmp_path / "in.npz", tmp_path / "in.npz")
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("params/fc/kernel"), "missing, such as params/fc/kernel"),
        (lambda t: t.update({"params/fc/bias": np.zeros(1008)}), "unknown, such as params/fc/bias"),
        (
            lambda t: t.update({"params/fc/kernel": np.zeros((2048, 1000))}),
            r"wrong shape, such as params/fc/kernel \(2048, 1000\) instead of \(2048, 1008\)",
        ),
        (lambda t: t.update({"params/fc/kernel": np.zeros((2048, 1008), int)}), "floating-point"),
        (lambda t: t.update({"params/fc/kernel": np.full((2048, 1008), np.nan)}), "finite"),
    ],
    ids=["missing", "unknown", "shape", "integers", "nan"],
)
def test_wrong_tensors_are_named(change, message, state_dict):
    tensors = convert_state_dict(state_dict)
    change(tensors)
    with pytest.raises(ValueError, match=message):
        inception_variables(tensors)


def test_weights_become_float32(state_dict):
    tensors = convert_state_dict(state_dict)
    name = "params/fc/kernel"
    for dtype in (np.float16, np.float64):
        variables = inception_variables(tensors | {name: tensors[name].astype(dtype)})
        assert variables["params"]["fc"]["kernel"].dtype == np.float32


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
        path.write_bytes(safetensors_bytes(TENSORS))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    for sha256 in (None, digest, digest.upper(), f" {digest}\n"):
        got = read_tensors(path, sha256)
        assert got.keys() == TENSORS.keys()
        for name, tensor in TENSORS.items():
            assert got[name].dtype == tensor.dtype
            np.testing.assert_array_equal(got[name], tensor, strict=True)
    with pytest.raises(ValueError, match=f"SHA-256 {digest}, expected sha256=0000"):
        read_tensors(path, "0" * 64)


def test_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"convert_inception\.py"):
        load_inception(tmp_path / "weights.npz")


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
    with pytest.raises(ValueError, match=r"convert_inception\.py"):
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
        b"\x00" * 4,
        struct.pack("<Q", 1 << 60) + b"{}",
        struct.pack("<Q", 2) + b"{]",
        struct.pack("<Q", 2) + b"[]",
        safetensors_bytes(TENSORS)[:-1],
        edited(data_offsets=[0, 20]),
        edited(data_offsets=[4, 28]),
        edited(data_offsets=[24, 0]),
        edited(data_offsets=[-24, 0]),
        edited(shape=[-2, -3]),
        edited(dtype="BF16"),
        edited(dtype=None),
        edited(shape=[2**62, 2**62]),
        edited(shape=[2**62, 1], data_offsets=[0, 2**64]),
        edited(data_offsets=[2**64, 2**64 + 24]),
        edited(shape=None),
        struct.pack("<Q", 200_000) + b"[" * 200_000,
        struct.pack("<Q", 600_000) + b'{"a":' * 120_000,
    ],
)
def test_damaged_safetensors_are_refused(data, tmp_path):
    (tmp_path / "good.safetensors").write_bytes(edited())
    assert read_tensors(tmp_path / "good.safetensors")["a"].shape == (2, 3)
    (tmp_path / "bad.safetensors").write_bytes(data)
    with pytest.raises(ValueError, match=r"no readable \.safetensors file"):
        read_tensors(tmp_path / "bad.safetensors")


@pytest.mark.parametrize("compress", [False, True])
def test_damaged_npz_is_refused(compress, tmp_path):
    file = io.BytesIO()
    (np.savez_compressed if compress else np.savez)(file, a=np.zeros(1000))
    damaged = bytearray(file.getvalue())
    damaged[100] ^= 255
    (tmp_path / "bad.npz").write_bytes(damaged)
    with pytest.raises(ValueError, match=r"no readable \.npz file"):
        read_tensors(tmp_path / "bad.npz")


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


RANDOM = np.random.default_rng(0).bytes(1000)


@pytest.mark.parametrize(
    "data",
    [
        encrypted(archive_with("a.npy", RANDOM)),
        cut_short(RANDOM, zipfile.ZIP_LZMA),
        cut_short(RANDOM, zipfile.ZIP_BZIP2),
        claims((2**40,)),
        claims((2**62, 2**62)),
        claims((-1,)),
        archive_with("a.npy", b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535),
    ],
    ids=["encrypted", "lzma", "bz2", "4 TB", "overflow", "negative", "nested"],
)
def test_hostile_npz_is_refused(data, tmp_path):
    (tmp_path / "bad.npz").write_bytes(data)
    with pytest.raises(ValueError, match=r"no readable \.npz file") as info:
        read_tensors(tmp_path / "bad.npz")
    assert len(str(info.value)) < 600


def test_single_array_is_no_archive(tmp_path):
    np.save(tmp_path / "array.npy", np.zeros(3))
    path = (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    with pytest.raises(ValueError, match=r"no readable \.npz file"):
        read_tensors(path)
