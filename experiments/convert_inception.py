"""Converts PyTorch's FID Inception-v3 to the file that ebmjax.networks.load_inception reads.

    python experiments/convert_inception.py --state_dict=inception.safetensors --out=inception.npz

The input is a PyTorch state_dict saved as .safetensors or .npz under PyTorch's names. A .pth file
is a pickle and is never opened here; docs/generation_metrics.md shows how to convert it with
PyTorch. Prints the SHA-256 that configurations should expect.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ebmjax.networks import inception_variables, read_tensors
from ebmjax.recipes.__main__ import make_parser, quietly
from ebmjax.recipes.config.errors import stop

# Last part of a name in PyTorch and here, and the order of axes.
RENAMED = {
    "conv.weight": ("params", "conv/kernel", (2, 3, 1, 0)),
    "bn.weight": ("params", "bn/scale", (0,)),
    "bn.bias": ("params", "bn/bias", (0,)),
    "bn.running_mean": ("batch_stats", "bn/mean", (0,)),
    "bn.running_var": ("batch_stats", "bn/var", (0,)),
}


def convert_state_dict(state_dict: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the tensors under our names and axes.

    It drops the counters of batches and the last layer's bias, which the inception score leaves
    out.

    Args:
      state_dict: tensors by PyTorch's names, as ``Mixed_5b.branch1x1.conv.weight``.

    Raises:
      ValueError: for a name or a number of axes that no layer of the FID Inception-v3 has.
    """
    tensors = {}
    for name, tensor in state_dict.items():
        if name == "fc.bias" or name.endswith(".num_batches_tracked"):
            continue
        path, axes = _our_name(name)
        if tensor.ndim != len(axes):
            raise ValueError(f"{name} must have {len(axes)} axes, got shape {tensor.shape}.")
        tensors[path] = np.ascontiguousarray(tensor.transpose(axes))
    return tensors


def _our_name(name: str) -> tuple[str, tuple[int, ...]]:
    if name == "fc.weight":
        return "params/fc/kernel", (1, 0)
    *module, kind, part = name.split(".")
    if not module or f"{kind}.{part}" not in RENAMED or module[0] == "AuxLogits":
        raise ValueError(
            f"{name!r} is no weight of the FID Inception-v3. torchvision's Inception-v3 has other "
            "weights and AuxLogits, and gives another FID; the page generation_metrics of the "
            "documentation names the right file."
        )
    collection, ours, axes = RENAMED[f"{kind}.{part}"]
    return "/".join([collection, *module, ours]), axes


def convert(source: Path, out: Path) -> str:
    """Converts ``source`` to ``out``; returns the SHA-256 of ``out``.

    Raises:
      FileNotFoundError, ValueError: if the input is not the FID Inception-v3, before anything is
        written.
    """
    if out.suffix != ".npz":
        raise ValueError(f"out must end in .npz, got out={str(out)!r}.")
    if os.path.lexists(out):  # it may be ``source``
        raise ValueError(f"out={str(out)!r} exists: choose another name, or remove it.")
    tensors = convert_state_dict(read_tensors(source))
    inception_variables(tensors)
    np.savez(out, allow_pickle=False, **tensors)
    return hashlib.sha256(out.read_bytes()).hexdigest()


def main() -> None:
    """Converts the file that the command line names, and prints the new file's digest."""
    parser = make_parser(__doc__)
    parser.add_argument("--state_dict", type=Path, required=True, help=".safetensors or .npz")
    parser.add_argument("--out", type=Path, required=True, help="the .npz file to write")
    arguments = parser.parse_args()
    try:
        digest = convert(arguments.state_dict, arguments.out)
    except (FileNotFoundError, ValueError) as error:
        stop(error)
    print(f"{arguments.out}\nsha256 {digest}")


if __name__ == "__main__":
    quietly(main)
