"""Inception's weights from a local file that can hold only numbers."""

import hashlib
import io
import json
import lzma
import math
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from ebmjax._shown import near_path
from ebmjax.networks._inception import (
    SMALLEST_SIZE,
    InceptionOutputs,
    InceptionV3,
    inception_inputs,
)

CONVERT = (
    "experiments/convert_inception.py writes the file, and the page generation_metrics of the "
    "documentation has the steps"
)
# Errors of NumPy, zipfile and json for bytes that do not fit the file's name.
DAMAGE = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    EOFError,
    RuntimeError,  # an encrypted member, a compression that zipfile lacks, JSON nested too deep
    MemoryError,  # an array that claims to be larger than the memory
    OverflowError,
    OSError,  # of bz2; the file's bytes have been read by then
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)
SAFETENSORS_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4"}


def load_inception(
    path: str | Path, sha256: str | None = None
) -> Callable[[jax.Array], InceptionOutputs]:
    """Returns the FID Inception-v3 with a local file's weights, as a compiled function of images.

    Args:
      path: a ``.npz`` or ``.safetensors`` file from ``experiments/convert_inception.py``.
      sha256: hexadecimal SHA-256 the file must have; None accepts any file that fits.

    Returns:
      ``inception_fn(images) -> InceptionOutputs``, images (N, H, W, 3 or 1) uint8, resized and
      scaled as in ``inception_inputs``. It compiles for every shape of images, so call it through
      ``ebmjax.metrics.extract_in_batches``.

    Raises:
      FileNotFoundError, ValueError: as ``read_tensors`` and ``inception_variables``.
    """
    variables = jax.device_put(inception_variables(read_tensors(path, sha256)))
    network = InceptionV3()
    # An argument, because the compiled function would hold a second copy of a constant.
    apply = jax.jit(lambda variables, images: network.apply(variables, inception_inputs(images)))
    return lambda images: apply(variables, jnp.asarray(images))


def inception_variables(tensors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Returns the variables of ``InceptionV3`` from named tensors, checked one by one.

    Args:
      tensors: by path, as ``params/Mixed_5b/branch1x1/conv/kernel``; convolution kernels
        (height, width, in, out). docs/generation_metrics.md lists the names.

    Returns:
      ``{"params": ..., "batch_stats": ...}``, float32.

    Raises:
      ValueError: for missing, unknown, misshaped, non-floating or non-finite tensors.
    """
    images = jax.ShapeDtypeStruct((1, SMALLEST_SIZE, SMALLEST_SIZE, 3), jnp.float32)
    shapes = jax.eval_shape(InceptionV3().init, jax.random.key(0), images)
    expected: dict[str, Any] = dict(flatten_dict(shapes, sep="/"))
    faults = {
        "missing": expected.keys() - tensors.keys(),
        "unknown": tensors.keys() - expected.keys(),
        "of the wrong shape": {
            f"{name} {tensors[name].shape} instead of {expected[name].shape}"
            for name in expected.keys() & tensors.keys()
            if tensors[name].shape != expected[name].shape
        },
        "not floating-point, or not finite": {
            name for name, tensor in tensors.items() if not _is_finite(tensor)
        },
    }
    for fault, names in faults.items():
        if names:
            raise ValueError(
                f"these are not the weights of the FID Inception-v3: {len(names)} tensors are "
                f"{fault}, such as {sorted(names)[0]}; {CONVERT}."
            )
    tree = unflatten_dict(dict(tensors), sep="/")
    return jax.tree.map(lambda tensor: np.asarray(tensor, np.float32), tree)


def _is_finite(tensor: np.ndarray) -> bool:
    return np.issubdtype(tensor.dtype, np.floating) and bool(np.isfinite(tensor).all())


def read_tensors(path: str | Path, sha256: str | None = None) -> dict[str, np.ndarray]:
    """Returns named tensors of a ``.npz`` or ``.safetensors`` file; executes nothing in it.

    Pickles, such as PyTorch's ``.pt`` and ``.pth``, can run any program when opened. They are
    refused, and so are arrays of Python objects inside ``.npz``.

    Args:
      path: the file.
      sha256: hexadecimal SHA-256 the file must have; None checks nothing.

    Returns:
      Each tensor by its name.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: for another kind of file, another hash or damaged contents.
    """
    path = Path(path).expanduser()
    readers = {".npz": _read_npz, ".safetensors": _read_safetensors}
    if path.suffix not in readers:
        raise ValueError(
            f"path must end in .npz or .safetensors, got path={str(path)!r}. Pickles (.pt, .pth, "
            f".pkl) are never opened, because opening one can run any program; {CONVERT}."
        )
    if not path.is_file():
        raise FileNotFoundError(f"no weights at path={str(path)!r}.{near_path(path)} {CONVERT}.")
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if sha256 is not None and found != sha256.strip().lower():
        raise ValueError(
            f"{path} has SHA-256 {found}, expected sha256={sha256}. It is damaged or another "
            "file: copy or convert it again, or correct the expected hash if you trust the file."
        )
    try:
        return readers[path.suffix](data)
    except DAMAGE as error:
        raise ValueError(
            f"{path} is no readable {path.suffix} file of numbers ({str(error)[:200]}); {CONVERT}."
        ) from error


def _read_npz(data: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        tensors = dict(archive)
    # NumPy returns members that are not arrays as bytes, such as the pickle in PyTorch's .pth.
    strange = [name for name, tensor in tensors.items() if not isinstance(tensor, np.ndarray)]
    if strange:
        raise ValueError(f"{strange[0]} is not an array")
    return tensors


def _read_safetensors(data: bytes) -> dict[str, np.ndarray]:
    """Reads eight bytes with the header's length, a JSON header, then the tensors' bytes."""
    header_size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or header_size > len(data) - 8:
        raise ValueError("the header is cut off")
    header = json.loads(data[8 : 8 + header_size])
    header.pop("__metadata__", None)
    body = data[8 + header_size :]
    return {name: _tensor(name, entry, body) for name, entry in header.items()}


def _tensor(name: str, entry: Mapping[str, Any], body: bytes) -> np.ndarray:
    if entry["dtype"] not in SAFETENSORS_DTYPES:
        raise ValueError(f"{name} is {entry['dtype']}, expected one of {list(SAFETENSORS_DTYPES)}")
    dtype = np.dtype(SAFETENSORS_DTYPES[entry["dtype"]])
    begin, end = entry["data_offsets"]
    size = math.prod(entry["shape"])
    if end - begin != size * dtype.itemsize:
        raise ValueError(f"the bytes of {name} do not match its shape")
    return np.frombuffer(body, dtype, size, begin).reshape(entry["shape"])
