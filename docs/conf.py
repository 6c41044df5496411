"""The site: ``sphinx-build -W --keep-going docs site`` builds it. Reading it fetches nothing.

The reference has a page for each room. Its names and their docstrings are added here.
"""

import ast
import importlib
import inspect
import itertools
import os
import re
import sys
import textwrap
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, TypeVar

from docutils import nodes
from sphinx.errors import ExtensionError

import ebmjax
from ebmjax.recipes.config import families, files, show_fields

ROOMS = sorted(ebmjax._ROOMS)
MARKED = re.compile(r"<!-- (fields of \w+|configurations) -->\n.*?<!-- end -->", re.DOTALL)

# Notebooks call the command by its name: it is that of the interpreter that builds.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])

project, author, release = "ebmjax", "the ebmjax developers", ebmjax.__version__
extensions = [
    "myst_nb",  # Markdown pages and executed notebooks
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "_templates", "jupyter_execute"]

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4  # page.md#a-heading, as where the repository is shown
nb_execution_mode = "cache"  # a notebook runs again where its code has changed
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_render_markdown_format = "myst"  # tables that notebooks make

autosummary_generate = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # else a state's "Attributes:" would describe each twice
napoleon_custom_sections = [("Source", "notes_style")]
add_module_names = False
toc_object_entries_show_parents = "hide"
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!ebmjax).*"),  # names of other packages
    ("py:class", r"ebmjax\.types\.(State|Info)"),  # type variables
    (
        "py:class",
        r"ebmjax\.(\w+\.)*_\w+\.\w+",
    ),  # private classes; link_public finds the public ones
]

# One file with its fonts inside: the site works without a network.
_mathjax = distribution("sphinx-mathjax-offline").locate_file(
    "sphinx-mathjax-offline/static/mathjax/tex-svg.js"
)
mathjax_path = "tex-svg.js"

html_theme = "furo"
html_title = f"ebmjax {release}"
html_static_path = [str(_mathjax)]
html_extra_path = ["llms.txt"]
html_copy_source = html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
if "EBMJAX_HAS_VERSIONS" in os.environ:  # docs/publish.py puts versions.html beside the site
    templates_path = ["_templates"]
    names = ("brand", "search", "versions", "scroll-start", "navigation", "scroll-end")
    html_sidebars = {"**": [f"sidebar/{name}.html" for name in names]}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def public_names(room: str) -> list[str]:
    """Returns the names that a room exports, in the order of its file."""
    module = importlib.import_module(f"ebmjax.{room}")
    source, found = Path(inspect.getfile(module)), []
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.ImportFrom):
            found += [one.name for one in node.names if one.name == one.asname]
        elif source.name != "__init__.py" and getattr(node, "col_offset", 1) == 0:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.append(node.name)
            elif isinstance(node, ast.Assign):
                found += [one.id for one in node.targets if isinstance(one, ast.Name)]
    types = {name: type(getattr(module, name)) for name in found}
    return [name for name in found if not name.startswith("_") and types[name] is not TypeVar]


def add_names(app: Any, docname: str, source: list[str]) -> None:
    """Ends a room's page with a table of its names, and each by its docstring."""
    folder, _, room = docname.rpartition("/")
    if folder != "reference" or room not in ROOMS:
        return
    module = importlib.import_module(f"ebmjax.{room}")
    found = {name: getattr(module, name) for name in own_names(room)}
    kinds = {name: _directive(value) for name, value in found.items()}
    lines = [f".. currentmodule:: ebmjax.{room}", "", ".. autosummary::", "   :nosignatures:", ""]
    lines += [f"   {name}" for name, kind in kinds.items() if kind != "data"]
    for name, kind in kinds.items():
        lines += ["", f".. {kind}:: {name}"]
        if kind == "autoclass":
            lines += ["   :members:", "   :exclude-members: count, index"]
        if kind == "data":  # autodoc would show the docstring of Callable
            lines += ["", *textwrap.indent(_docstring(room, name), "   ").splitlines()]
    source[0] += "\n".join(["", "```{eval-rst}", *lines, "```", ""])


def add_tables(app: Any, docname: str, source: list[str]) -> None:
    """Fills in the tables of fields and configurations, each between two comments that name it."""
    if docname in ("configuration", "experiments"):
        source[0] = MARKED.sub(_make_table, source[0])


def _make_table(found: re.Match[str]) -> str:
    name = found.group(1)
    if name == "configurations":
        lines = ["| config | what it trains | variants |", "|---|---|---|"]
        for path in sorted((files.PROJECT / "configs").glob("*.py")):
            text, names = show_fields.read_definitions(path)[0], show_fields.variants(path)
            known = ", ".join(f"`{name}`" for name in names)
            lines.append(f"| `{path.name}` | {text} | {known} |")
    else:
        if name == "fields of samplers":
            fields = families.module("joint", "fields").SECTIONS["joint"]
        else:
            family = name.rpartition(" ")[2]
            own = families.module(family, "fields").FIELDS
            fields = show_fields.in_order(own.get(family, own))
        lines = ["| field | default | values | what it is |", "|---|---|---|---|"]
        for field, one in fields.items():
            needs = f" Needs {'; '.join(when.needs for when in one.when)}." * bool(one.when)
            words = f"{one.values} | {one.text}.{needs}"
            lines.append(f"| `{field}` | `{one.default!r}` | {words} |")
    return "\n".join([f"<!-- {name} -->", "", *lines, "", "<!-- end -->"])


def own_names(room: str) -> list[str]:
    """Returns the public names of a room that are not those of ``ebmjax.types``."""
    shared = public_names("types") if room != "types" else []
    return [name for name in public_names(room) if name not in shared]


def _directive(value: Any) -> str:
    if inspect.isclass(value) and not hasattr(value, "__origin__"):
        return "autoclass"
    return "autofunction" if inspect.isroutine(value) else "data"


def _docstring(room: str, name: str) -> str:
    """Returns the string below the assignment to a name, in whatever file of the room it lies."""
    source = Path(inspect.getfile(importlib.import_module(f"ebmjax.{room}")))
    files = source.parent.glob("*.py") if source.name == "__init__.py" else [source]
    for file in files:
        body = ast.parse(file.read_text()).body
        for node, below in itertools.pairwise(body):
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            if any(getattr(one, "id", "") == name for one in targets) and isinstance(
                below, ast.Expr
            ):
                return f"``{ast.unparse(node)}``\n\n{inspect.cleandoc(below.value.value)}"  # pyright: ignore
    raise ExtensionError(f"ebmjax.{room}.{name} has no docstring below it")


def refuse_missing(app: Any, error: Exception | None) -> None:
    """Fails a build whose reference lacks a public name."""
    if error is not None or app.builder.name != "html":
        return
    there = app.env.get_domain("py").objects
    wanted = [f"ebmjax.{room}.{name}" for room in ROOMS for name in own_names(room)]
    if missing := [name for name in wanted if name not in there]:
        raise ExtensionError(f"public names without an entry in the reference: {missing}")


def link_public(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Links a name, wherever its code lies, to the one entry of that name."""
    name = node.get("reftarget", "").rsplit(".", 1)[-1]
    domain = env.get_domain("py")
    found = [full for full in domain.objects if full.endswith("." + name)]
    if len(found) != 1:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", found[0], node, contnode)


def show_as_written(
    app: Any, what: str, name: str, value: Any, options: Any, signature: str, returned: str
) -> tuple[str, str | None] | None:
    """Shows annotations as they are written: LogDensityFn, not Callable[[Any], Array]."""
    if what not in ("function", "method") or hasattr(value, "__signature__"):
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(value)))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return None
    if not isinstance(tree, ast.FunctionDef):
        return None
    if what == "method" and tree.args.args and tree.args.args[0].arg == "self":
        del tree.args.args[0]
    return f"({ast.unparse(tree.args)})", ast.unparse(tree.returns) if tree.returns else None


def escape_docstring(
    app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Keeps the stars of shapes (n, *event), and names that end in _, from being markup."""
    lines[:] = [re.sub(r"(?<=[(,] )\*\*?(?=\w)|(?<=\()\*(?=\w)", _escaped, line) for line in lines]
    lines[:] = [re.sub(r"(?<=\w)_(?=\")", _escaped, line) for line in lines]


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"\\{one}" for one in found[0])


def add_thumbnails(app: Any, doctree: Any, docname: str) -> None:
    """Puts the last picture of each tutorial above the gallery's link to it."""
    if docname != "gallery":
        return
    for link in list(doctree.findall(nodes.reference)):
        page = link.get("refuri", "").removesuffix(".html")
        if page in app.env.found_docs:
            pictures = list(app.env.get_doctree(page).findall(nodes.image))
            for picture in pictures[-1:]:
                link.insert(0, picture.deepcopy())
                link[0]["alt"] = link.astext()


def setup(app: Any) -> None:
    """Connects the functions above."""
    app.connect("source-read", add_names)
    app.connect("source-read", add_tables)
    app.connect("doctree-resolved", add_thumbnails)
    app.connect("build-finished", refuse_missing)
    app.connect("missing-reference", link_public)
    app.connect("autodoc-process-signature", show_as_written)
    app.connect("autodoc-process-docstring", escape_docstring)
