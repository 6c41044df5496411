"""Pieces of a page that stands alone: it fetches nothing, and escapes every text.

It runs nothing but a script of ours, whose digest its policy names.
"""

import base64
import hashlib
import html
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import matplotlib

from ebmjax.recipes.folder.workdir import write_whole

FILE = "report.html"

HEAD = """<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'{scripts}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere }
h2 { margin-top: 2.5rem; border-top: 1px solid #8886; padding-top: .5rem }
table { border-collapse: collapse } td, th { padding: .15rem .8rem .15rem 0; text-align: left }
th { font-weight: 600; overflow-wrap: normal } td { vertical-align: top; min-width: 4rem }
tr { border-bottom: 1px solid #8883 } pre { white-space: pre-wrap; background: #8882 }
img, svg { background: white; max-width: 100%; max-height: 30rem } .verdict { font-size: 1.2rem }
svg { width: 100%; height: auto; min-width: 50rem; max-height: none } .wide { overflow-x: auto }
.strip { image-rendering: pixelated; height: 2.8rem; max-width: none }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: 1rem }
.numbers b { display: block; font-size: 1.5rem } small { opacity: .75 }
.live { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: .5rem }
.live > div { min-width: 0 } .uplot { background: white; color: black }
.uplot .u-title { font-size: .8rem; font-weight: 400 } .uplot .u-legend { font-size: .75rem }
.uplot .u-legend * { padding: 0 .1rem; font-weight: 400; min-width: 0 }
.uplot .band { display: none } .uplot tr { border: 0 }
</style>
"""
"""Head of every page. Its policy keeps a browser from fetching anything for it."""


class Html(str):
    """Markup that is made here. ``element`` escapes every other text."""


def element(name: str, *parts: Any, **attributes: Any) -> Html:
    """Returns ``<name ...>parts</name>``; a trailing underscore of an attribute is dropped."""
    return Html(_start(name, attributes) + join(parts) + f"</{name}>")


def join(parts: Iterable[Any]) -> Html:
    """Returns the parts one after the other, escaped unless they are markup."""
    return Html("".join(x if isinstance(x, Html) else html.escape(str(x)) for x in parts))


def _start(name: str, attributes: dict[str, Any]) -> str:
    given = (f' {key.rstrip("_")}="{html.escape(str(v))}"' for key, v in attributes.items())
    return f"<{name}{''.join(given)}>"


def table(rows: Iterable[Sequence[Any]], head: Sequence[Any] = ()) -> Html:
    """Returns a table whose first column names its rows; nothing without rows."""
    lines = [
        element("tr", element("th", first), *(element("td", one) for one in rest))
        for first, *rest in rows
    ]
    top = element("tr", *(element("th", one) for one in head))
    made = element("table", element("tbody", *[top] * bool(head), *lines))
    return element("div", made, class_="wide") if lines else Html("")


def section(title: str, *parts: Any) -> Html:
    """Returns a section with a heading; nothing if all its parts are empty."""
    return element("section", element("h2", title), *parts) if any(parts) else Html("")


def png(data: bytes, text: str, class_: str = "plain") -> Html:
    """Returns a picture that the page holds."""
    source = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return Html(_start("img", {"src": source, "alt": text, "class": class_}))


def pictures(paths: Iterable[Path], folder: Path, most: int) -> dict[Path, Html]:
    """Returns pictures of ``folder``: those that fit into ``most`` bytes, and links to others."""
    shown = {}
    for path in paths:
        size, name = path.stat().st_size, path.stem.replace("_", " ")
        place = quote(path.relative_to(folder).as_posix())
        part = png(path.read_bytes(), name) if size <= most else element("a", name, href=place)
        shown[path] = element("p", part)
        most -= size if size <= most else 0
    return shown


def svg(draw: Callable[[Path], None]) -> Html:
    """Returns the figure that ``draw(path)`` saves, as lines and letters."""
    options: Any = {"svg.fonttype": "none", "svg.hashsalt": "ebmjax"}
    with tempfile.TemporaryDirectory() as folder, matplotlib.rc_context(options):
        path = Path(folder) / "curves.svg"
        draw(path)
        text = path.read_text(encoding="utf-8")
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    # Hundredths of a point are enough for a line.
    shorten = lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0])  # noqa: E731
    text = re.sub(r' d="[^"]*"', shorten, text)
    return element("div", Html(text), class_="wide")


def write(path: Path, title: str, *parts: Any, script: str = "") -> None:
    """Writes a page whole or not at all; ``script`` is the only one that may run there."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"; script-src 'sha256-{digest}'" * bool(script)
    head = element("head", Html(HEAD.replace("{scripts}", policy)), element("title", title))
    run = element("script", Html(script)) if script else ""
    body = element("body", element("h1", title), *parts, run)
    text = f"<!doctype html>\n{element('html', head, body, lang='en')}\n"
    write_whole(path, text.encode(errors="replace").decode())  # JSON may hold half a letter
