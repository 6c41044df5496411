"""A page that stands alone: it fetches and runs nothing, and escapes every text.

Parts of a section are texts and dicts: pictures, links, tables and commands, see ``page.html``.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader

from ebmjax.recipes.folder.workdir import write_whole

FILE = "report.html"

Part = Any
"""A text, or a dict."""


def table(rows: Iterable[Sequence[Part]], head: Sequence[str] = ()) -> list[Part]:
    """Returns a table whose first column names its rows, as the only part; nothing without rows."""
    rows = list(rows)
    return [{"rows": rows, "head": head}] if rows else []


def pictures(paths: Iterable[Path], folder: Path, most: int) -> dict[Path, Part]:
    """Returns pictures of ``folder``: those that fit into ``most`` bytes, and links to others."""
    shown = {}
    for path in paths:
        size, text = path.stat().st_size, path.stem.replace("_", " ")
        link = {"href": quote(path.relative_to(folder).as_posix()), "text": text}
        held = {"png": base64.b64encode(path.read_bytes()).decode(), "text": text}
        shown[path] = held if size <= most else link
        most -= size if size <= most else 0
    return shown


def write(
    path: Path,
    title: str,
    verdict: str,
    sections: Mapping[str, Sequence[Part]],
    notes: Sequence[str] = (),
) -> None:
    """Writes a page whole or not at all.

    Args:
      path: of the page.
      title: of the page.
      verdict: first line.
      sections: parts by headings; a section without parts is left out.
      notes: further lines below it.
    """
    pages = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    text = pages.get_template("page.html").render(
        title=title, verdict=verdict, sections=sections, notes=notes
    )
    write_whole(path, text.encode(errors="replace").decode())  # JSON may hold half a letter
