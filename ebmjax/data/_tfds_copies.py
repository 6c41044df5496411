"""Finds copies of tensorflow-datasets on a disk and says whether they are whole."""

import json
from pathlib import Path

INFO = "dataset_info.json"
MAX_NAMED = 8


def copies(root: Path, name: str = "*") -> list[Path]:
    """Returns folders below ``root`` that hold a version of the data set ``name``, or of any."""
    patterns = (f"{name}/*/{INFO}", f"{name}/*/*/{INFO}")  # the second for data sets with configs
    found = [path.parent for pattern in patterns for path in root.glob(pattern)]
    return sorted(path for path in found if path.parts[len(root.parts)] != "downloads")


def describe_copies(root: Path) -> str:
    """Returns a sentence that says what ``root`` holds."""
    if not root.is_dir():
        return f"There is no folder {root}."
    found = [str(path.relative_to(root)) for path in copies(root)]
    if not found:
        return f"{root} holds no prepared data set."
    more = ", ..." if len(found) > MAX_NAMED else ""
    return f"{root} holds {', '.join(found[:MAX_NAMED])}{more}."


def other_root(root: Path, name: str) -> Path | None:
    """Returns the right folder, if ``name`` lies above ``root`` or one level below."""
    above = [folder for folder in (root.parent, root.parent.parent) if copies(folder, name)]
    is_within = any(folder / name in (root, *root.parents) for folder in above)
    if above and is_within:
        return above[0] if (above[0] / name) == root else above[-1]
    below = sorted(folder for folder in root.glob("*") if folder.is_dir() and copies(folder, name))
    return below[0] if below else None


def damage(folder: Path) -> str:
    """Returns what is wrong with the description of the copy in ``folder``; "" if nothing is."""
    path = folder / INFO
    if not path.exists():
        return f"{INFO} is missing"
    try:
        info = json.loads(path.read_text())
    except (OSError, ValueError) as error:  # bytes that are no text, too
        return f"{INFO} is no JSON: {error}"
    if not isinstance(info, dict):
        return f"{INFO} holds no object"
    lacking = [key for key in ("name", "version", "fileFormat", "splits") if not info.get(key)]
    return f"{INFO} lacks {', '.join(lacking)}" if lacking else ""


def damage_message(folder: str | Path, reason: str) -> str:
    """Returns the message about a copy that cannot be read, with what to do."""
    return (
        f"{folder} cannot be read: {reason}. The copy is damaged or incomplete: copy it again, or "
        "delete the folder and run again to prepare it."
    )
