"""Writes arrays to a file whole or not at all, and to none that something else needs."""

import csv
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.folder.workdir import check_writable

OUTPUTS: dict[str, tuple[str, ...]] = {
    "sample": (".png", ".npz"),
    "score": (".csv", ".npz"),
    "export": (".safetensors", ".npz"),
}
"""Endings of the files that a command writes."""


def check_out(
    out: Path, endings: tuple[str, ...], workdir: Path, data: Iterable[str], overwrite: bool
) -> None:
    """Raises ConfigError or WorkdirError for a file that cannot be written, or is needed as it is.

    Args:
      out: the file.
      endings: what its name may end in.
      workdir: folder of the run, in which nothing is written.
      data: files and folders of data, none of whose files is replaced.
      overwrite: whether another existing file is.
    """
    if out.suffix not in endings:
        raise ConfigError(f"--out must end in {' or '.join(endings)}, got {str(out)!r}.")
    if not out.absolute().parent.is_dir():
        raise ConfigError(f"--out must lie in a folder that exists, got {str(out)!r}.")
    check_writable(out.absolute().parent, "--out: the folder")
    place = out.resolve()
    if place.is_relative_to(workdir.resolve()):
        raise ConfigError(
            f"--out must not lie in the run's folder, which stays as it is, got {str(out)!r}."
        )
    for one in filter(None, data):
        source = Path(one).expanduser().resolve()
        is_inside = place.is_relative_to(source) and (out.exists() or out.suffix == ".png")
        files = [source, *source.rglob("*")] if out.is_file() else []  # links among them, too
        if is_inside or any(file.is_file() and out.samefile(file) for file in files):
            raise ConfigError(f"--out must not be one of the files of data in {one}, got {out}.")
    if out.is_dir():
        raise ConfigError(f"--out must be a file, and {out} is a folder.")
    if os.path.lexists(out) and not overwrite:
        raise ConfigError(f"--out={out} exists: choose another name, or replace it: --overwrite.")


def write(out: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a file whole or not at all."""
    temporary = out.with_name(f"{out.stem}.{os.getpid()}{out.suffix}")
    try:
        WRITERS[out.suffix](temporary, arrays)
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)


def _png(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    from ebmjax.recipes.evaluators.samples import draw_sheet

    panels = {"samples": arrays["images"], "where their chains started": arrays["start_images"]}
    draw_sheet(path, panels, arrays.get("labels"))


def _csv(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    columns: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.ndim == 1:
            columns[name] = array
        else:
            columns |= {f"{name}_{i}": column for i, column in enumerate(array.T)}
    # Names of files may be any bytes; they are written as they are.
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file)
        writer.writerow(["image", *columns])
        writer.writerows(
            [index, *row] for index, row in enumerate(zip(*columns.values(), strict=True))
        )


def _npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    # ``numpy.savez`` takes some names for its arguments, "file" among them.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _safetensors(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    from safetensors.numpy import save_file

    save_file(dict(arrays), path)


WRITERS: dict[str, Callable[[Path, Mapping[str, np.ndarray]], None]] = {
    ".png": _png,
    ".npz": _npz,
    ".csv": _csv,
    ".safetensors": _safetensors,
}
