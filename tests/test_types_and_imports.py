"""The house: which room may import which, what `import ebmjax` costs, and every written example."""

import ast
import doctest
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ebmjax
from ebmjax.types import Sampler

ROOT = Path(ebmjax.__file__).resolve().parents[1]
PACKAGE = ROOT / "ebmjax"

GROUND = {"types", "_checks", "_axes", "_precision"}
# types -> densities -> samplers -> latent -> training; the side rooms stand on the ground alone.
MAY_IMPORT = {
    "types": set(),
    "_checks": {"types"},
    "_axes": set(),
    "_precision": {"types"},
    "densities": GROUND,
    "losses": GROUND,
    "networks": GROUND,
    "optim": GROUND,
    "metrics": GROUND,
    "data": GROUND,
    "samplers": GROUND | {"densities"},
    "latent": GROUND | {"densities", "samplers"},
    "training": GROUND
    | {"densities", "samplers", "latent", "losses", "networks", "optim", "metrics", "data"},
}
MODULES = sorted(path.relative_to(ROOT) for path in PACKAGE.rglob("*.py"))


def imported_modules(path: Path) -> Iterator[str]:
    """Absolute dotted names of everything a file imports, inside functions too."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def room_of(dotted: str) -> str | None:
    parts = dotted.split(".")
    return parts[1] if parts[0] == "ebmjax" and len(parts) > 1 else None


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_arrows_between_rooms(path: Path) -> None:
    room = path.parts[1].removesuffix(".py")
    if room == "__init__":
        pytest.skip("the table of contents names every room")
    assert room in MAY_IMPORT, f"{room} is no room of the house: add it to MAY_IMPORT and docs/"
    others = {room_of(name) for name in imported_modules(ROOT / path)} - {None, room}
    others = {other for other in others if other in MAY_IMPORT}
    assert others <= MAY_IMPORT[room], f"{path} must not import {others - MAY_IMPORT[room]}"


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_library_imports_no_experiment_and_no_flax_nnx(path: Path) -> None:
    for name in imported_modules(ROOT / path):
        assert name.split(".")[0] not in {"experiments", "benchmarks", "tests", "ml_collections"}
        assert not name.startswith("flax.nnx"), "the core takes any callable; networks are Linen"


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_private_files_are_imported_in_their_own_room_only(path: Path) -> None:
    room = path.parts[1].removesuffix(".py")
    for name in imported_modules(ROOT / path):
        parts = name.split(".")
        if parts[0] == "ebmjax" and len(parts) > 2 and parts[2].startswith("_"):
            assert parts[1] == room, f"import {parts[1]} from its folder, not from {name}"


# The rooms of the experiments, and which others each may import; the commands import any.
FAMILIES = {"igebm": set(), "jem": set(), "thermo": set(), "toys": set(), "tuning": {"jem"}}
COMMANDS = ("run", "study", "svgd_tuning", "thermo_figures", "convert_inception")
EXPERIMENTS = sorted(
    path.relative_to(ROOT)
    for path in (ROOT / "experiments").rglob("*.py")
    if path.parent.name not in {"configs", "studies"} and path.stem not in COMMANDS
)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=str)
def test_families_of_experiments_do_not_know_each_other(path: Path) -> None:
    room = path.parts[1]
    others = {
        name.split(".")[1]
        for name in imported_modules(ROOT / path)
        if name.startswith("experiments.")
    }
    others = others & set(FAMILIES) - {room}
    allowed = FAMILIES.get(room, set())
    assert others <= allowed, f"{path} must not import {others - allowed}: share it beside run.py"


def test_the_reader_of_imports_reads_imports() -> None:
    """The tests above can fail: what they read is what the file imports."""
    file = PACKAGE / "samplers" / "_chains.py"
    assert {"jax", "ebmjax._checks", "ebmjax.types"} <= set(imported_modules(file))
    assert room_of("ebmjax.latent._model") == "latent"
    assert room_of("jax.numpy") is None


HEAVY = [
    "orbax", "tensorflow_datasets", "distrax", "tensorflow_probability", "matplotlib",
    "tensorboardX", "tqdm", "sklearn", "PIL", "ml_collections", "blackjax",
]  # fmt: skip


def test_import_is_light() -> None:
    """What only some users need is imported where it is used."""
    code = f"""
import sys
import ebmjax
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert result.stdout.strip() == "[]", result.stdout


def test_sampler_is_blackjax_protocol() -> None:
    assert Sampler._fields == ("init", "step")


def modules_with_examples() -> list[str]:
    names = ["ebmjax"]
    names += [m.name for m in pkgutil.walk_packages(ebmjax.__path__, prefix="ebmjax.")]
    return names


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_in_pages(page: Path) -> None:
    result = doctest.testfile(
        str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert result.failed == 0


def test_examples_are_found_at_all() -> None:
    from ebmjax.samplers import _mala

    assert doctest.testmod(_mala).attempted >= 3
