"""Inception's weights from a local file that can hold only numbers."""

import hashlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from ebmjax._extras import needs_experiments
from ebmjax.networks._inception import (
    SMALLEST_SIZE,
    InceptionOutputs,
    InceptionV3,
    inception_inputs,
)

CONVERT = "the page generation_metrics of the documentation says how to save the file"
# Last part of a name in PyTorch and here, and the order of axes.
RENAMED = {
    "conv.weight": ("params", "conv/kernel", (2, 3, 1, 0)),
    "bn.weight": ("params", "bn/scale", (0,)),
    "bn.bias": ("params", "bn/bias", (0,)),
    "bn.running_mean": ("batch_stats", "bn/mean", (0,)),
    "bn.running_var": ("batch_stats", "bn/var", (0,)),
}


def load_inception(
    path: str | Path, sha256: str | None = None
) -> Callable[[jax.Array], InceptionOutputs]:
    """Returns the FID Inception-v3 with a local file's weights, as a compiled function of images.

    Args:
      path: PyTorch's state_dict, saved as ``.npz`` or ``.safetensors``.
      sha256: hexadecimal SHA-256 the file must have; None accepts any file that fits.

    Returns:
      ``inception_fn(images) -> InceptionOutputs`` of uint8 images (N, H, W, 3 or 1). It compiles
      for every shape of images, so call it through ``ebmjax.metrics.extract_in_batches``.

    Raises:
      FileNotFoundError, ValueError: as ``read_tensors``; or for the tensors of another network.
    """
    variables = jax.device_put(inception_variables(read_tensors(path, sha256)))
    network = InceptionV3()
    # An argument, because the compiled function would hold a second copy of a constant.
    apply = jax.jit(lambda variables, images: network.apply(variables, inception_inputs(images)))
    return lambda images: apply(variables, jnp.asarray(images))


def inception_variables(state_dict: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Returns the variables of ``InceptionV3``, float32, from PyTorch's tensors by their names.

    Counters of batches and the last layer's bias, which the inception score leaves out, go.

    Raises:
      ValueError: for missing, unknown, misshaped or non-finite tensors.
    """
    tensors = {}
    for name, tensor in state_dict.items():
        if name == "fc.bias" or name.endswith(".num_batches_tracked"):
            continue
        path, axes = _our_name(name)
        if tensor.ndim != len(axes) or not np.isfinite(tensor).all():
            raise ValueError(
                f"{name} must have {len(axes)} axes and finite numbers, got shape {tensor.shape}."
            )
        tensors[path] = np.ascontiguousarray(tensor.transpose(axes), np.float32)
    images = jax.ShapeDtypeStruct((1, SMALLEST_SIZE, SMALLEST_SIZE, 3), jnp.float32)
    shapes = jax.eval_shape(InceptionV3().init, jax.random.key(0), images)
    expected = {name: one.shape for name, one in flatten_dict(shapes, sep="/").items()}  # type: ignore
    found = {name: tensor.shape for name, tensor in tensors.items()}
    if wrong := sorted(
        name for name in {*expected, *found} if expected.get(name) != found.get(name)
    ):
        raise ValueError(
            f"these are not the weights of the FID Inception-v3: {len(wrong)} tensors are wrong, "
            f"such as {wrong[0]}: got {found.get(wrong[0])}, expected {expected.get(wrong[0])}; "
            f"{CONVERT}."
        )
    return unflatten_dict(tensors, sep="/")


def _our_name(name: str) -> tuple[str, tuple[int, ...]]:
    if name == "fc.weight":
        return "params/fc/kernel", (1, 0)
    parts = name.split(".")
    module, last = parts[:-2], ".".join(parts[-2:])
    if not module or last not in RENAMED or module[0] == "AuxLogits":
        raise ValueError(
            f"{name!r} is no weight of the FID Inception-v3, as those of torchvision; {CONVERT}."
        )
    collection, ours, axes = RENAMED[last]
    return "/".join([collection, *module, ours]), axes


def read_tensors(path: str | Path, sha256: str | None = None) -> dict[str, np.ndarray]:
    """Returns named tensors of a ``.npz`` or ``.safetensors`` file; executes nothing in it.

    Pickles, such as PyTorch's ``.pt`` and ``.pth``, can run any program when opened. They are
    refused, and so are arrays of Python objects inside ``.npz``.

    Args:
      path: the file.
      sha256: hexadecimal SHA-256 the file must have; None checks nothing.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: for another kind of file, another hash or damaged contents.
    """
    path = Path(path).expanduser()
    if path.suffix not in (".npz", ".safetensors"):
        raise ValueError(
            f"path must end in .npz or .safetensors, got path={str(path)!r}. Pickles (.pt, .pth, "
            f".pkl) are never opened, because opening one can run any program; {CONVERT}."
        )
    if not path.is_file():
        raise FileNotFoundError(f"no weights at path={str(path)!r}. {CONVERT}.")
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if sha256 is not None and found != sha256.strip().lower():
        raise ValueError(
            f"{path} has SHA-256 {found}, expected sha256={sha256}. It is damaged or another file."
        )
    try:
        if path.suffix == ".safetensors":
            with needs_experiments("reading safetensors", "safetensors"):
                from safetensors.numpy import load

            return load(data)
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            tensors = dict(archive)
        # NumPy returns members that are not arrays as bytes, such as the pickle in a .pth.
        if strange := [n for n, tensor in tensors.items() if not isinstance(tensor, np.ndarray)]:
            raise ValueError(f"{strange[0]} is not an array")
        return tensors
    except ImportError:
        raise
    except Exception as error:  # of many types, one for each way to be damaged
        raise ValueError(
            f"{path} is no readable {path.suffix} file of numbers ({str(error)[:200]}); {CONVERT}."
        ) from error
