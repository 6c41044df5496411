"""Reads what runs leave as mere data: JSON, rows, the descriptions of checkpoints."""

import hashlib
import json
import logging
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

MAX_BYTES, MAX_DEPTH = 2**24, 32
"""Most bytes, and most levels, of a file that is read as one JSON object."""

STEP = "0|[1-9][0-9]{0,17}"
"""Pattern of the names of checkpoints."""

TOO_DEEP = f"it is nested more than {MAX_DEPTH} levels deep"


def read_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a regular file.

    Raises:
      OSError: if the file cannot be read.
      ValueError: if it is no regular file, is huge, or is not one JSON object in which no name
        occurs twice.
    """
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):  # a pipe would be waited for, and a device never ends
        raise ValueError("it is no regular file")
    if about.st_size > MAX_BYTES:
        raise ValueError(f"it has {about.st_size:,} bytes, more than {MAX_BYTES:,}")
    return parse_json(path.read_bytes())


def parse_json(text: bytes) -> dict[str, Any]:
    """Returns the JSON object in a text.

    Raises:
      ValueError: as ``read_json``.
    """
    if len(text) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
    try:
        found = json.loads(text, object_pairs_hook=_unique)
        if not isinstance(found, dict):
            raise ValueError(f"it holds no object, but a {type(found).__name__}")
        _check_depth(found)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    return found


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"it has {name!r} twice")
        found[name] = value
    return found


def _check_depth(found: dict[str, Any]) -> None:
    level: list[Any] = [found]
    for _ in range(MAX_DEPTH):
        inner = (entry.values() if isinstance(entry, dict) else entry for entry in level)
        level = [one for entries in inner for one in entries if isinstance(one, dict | list)]
    if level:
        raise ValueError(TOO_DEEP)


def json_digest(value: Any) -> str:
    """Returns SHA-256 of ``value`` as JSON, 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def list_steps(directory: Path) -> list[int]:
    """Returns the steps of the checkpoints in a folder, which may be missing, in their order."""
    names = [path.name for path in directory.glob("*")]
    return sorted(int(name) for name in names if re.fullmatch(STEP, name))


def read_record(directory: Path, step: int) -> dict[str, Any]:
    """Returns the description of one checkpoint, without its arrays.

    Raises:
      OSError: if it cannot be read.
      ValueError: if it is not the one that was written.
    """
    found = read_json(directory / str(step) / "meta" / "metadata")
    record = found.get("record")
    if not isinstance(record, dict) or json_digest(record) != found.get("digest"):
        raise ValueError("its description is not the one that was written")
    if record.get("step") != step:
        raise ValueError(f"it is a copy of checkpoint {record.get('step')}")
    return record


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """Returns the rows of ``training.JsonlWriter``'s file, as dictionaries with their ``step``.

    It leaves out damaged lines and warns of them.

    Raises:
      FileNotFoundError: if there is no such file.
    """
    parsed, damaged = parse_lines(Path(path).expanduser())
    if damaged:
        logger.warning("%s: %s damaged and left out.", path, name_lines(damaged))
    return [row for row, _ in parsed]


def parse_lines(path: Path) -> tuple[list[tuple[dict[str, Any], bytes]], list[int]]:
    """Returns good rows with their bytes, and the numbers of damaged lines.

    An incomplete last line, as after a crash, is neither.
    """
    *lines, last = path.read_bytes().split(b"\n")
    parsed, damaged = [], []
    for number, line in enumerate([*lines, last], 1):
        row = _parse(line)
        if row is not None:
            parsed.append((row, line))
        elif number <= len(lines):
            damaged.append(number)
    return parsed, damaged


def name_lines(numbers: list[int]) -> str:
    named = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
    return f"line {named} is" if len(numbers) == 1 else f"{len(numbers)} lines ({named}) are"


def _parse(line: bytes) -> dict[str, Any] | None:
    """Returns the row, or None if the line is not an object with an integer ``step``."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):  # malformed JSON, and bytes that are no text
        return None
    is_row = isinstance(row, dict) and type(row.get("step")) is int and row["step"] >= 0
    return row if is_row else None
