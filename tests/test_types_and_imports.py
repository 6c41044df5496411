"""The house: which room may import which, what `import ebmjax` costs, and every written example."""

import ast
import doctest
import importlib
import inspect
import itertools
import pkgutil
import re
import subprocess
import sys
import textwrap
import tomllib
import typing
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import ebmjax
from ebmjax._ranges import Range
from ebmjax.types import Sampler

ROOT = Path(ebmjax.__file__).resolve().parents[1]
PACKAGE = ROOT / "ebmjax"

GROUND = {
    "types", "_checks", "_axes", "_dual_averaging", "_extras", "_groups", "_numbers", "_phases",
    "_npy", "_precision", "_ranges", "_records", "_shown", "_stored", "_user_function",
    "_versions",
}  # fmt: skip
# types -> densities -> samplers -> evidence -> latent -> learning, and training -> learning: the
# engine knows no model. The other rooms stand on the ground alone.
MAY_IMPORT = {
    "types": set(),
    "_checks": {"types", "_shown"},
    "_shown": set(),
    "_stored": {"_phases"},
    "_axes": {"types"},
    "_dual_averaging": {"types", "_checks", "_shown"},
    "_groups": {"types", "_checks"},
    "_extras": set(),
    "_user_function": {"_shown"},
    "_precision": {"types", "_checks"},
    "_ranges": {"_user_function"},
    "_npy": {"_shown"},
    "_numbers": set(),
    "_phases": set(),
    "_records": set(),
    "_versions": set(),
    "densities": GROUND,
    "losses": GROUND,
    "networks": GROUND,
    "optim": GROUND,
    "metrics": GROUND,
    "data": GROUND,
    "samplers": GROUND | {"densities"},
    "evidence": GROUND | {"densities", "samplers"},
    "latent": GROUND | {"densities", "samplers", "evidence"},
    "training": GROUND | {"data"},
    "learning": GROUND
    | {"densities", "samplers", "evidence", "latent", "losses", "networks", "optim", "metrics"}
    | {"data"}
    | {"training"},
    "evaluate": GROUND
    | {"samplers", "evidence", "latent", "losses", "networks", "metrics", "data", "training"},
}
MAY_IMPORT["recipes"] = set(MAY_IMPORT)
# The rooms of recipes stand on each other in this order; no model knows another.
RECIPES = {
    "config": set(),
    "folder": {"config"},
    "parts": {"config"},
    "evaluators": {"config", "folder", "parts"},
    "models": {"config", "folder", "parts", "evaluators"},
    "report": {"config", "folder", "evaluators"},
    "study": {"config", "folder", "parts", "evaluators", "report"},
    "run": {"config", "folder", "parts", "evaluators", "models", "report"},
}
MODELS = {"energy", "joint", "latent"}
MODULES = sorted(path.relative_to(ROOT) for path in PACKAGE.rglob("*.py"))


@cache
def imported_modules(path: Path) -> frozenset[str]:
    """Absolute dotted names of everything a file imports, inside functions too."""
    return frozenset(_imported_modules(path))


def _imported_modules(path: Path) -> Iterator[str]:
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
def test_library_imports_no_experiment_and_flax_nnx_in_its_adapter_alone(path: Path) -> None:
    for name in imported_modules(ROOT / path):
        assert name.split(".")[0] not in {"experiments", "benchmarks", "tests"}
        is_recipe = path.parts[1] == "recipes"
        assert is_recipe or name.split(".")[0] != "ml_collections", "only recipes know ConfigDict"
        is_adapter = path.name == "_adapters.py"
        assert is_adapter or not name.startswith("flax.nnx"), "our networks are Linen"


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_private_files_are_imported_in_their_own_room_only(path: Path) -> None:
    room = path.parts[1].removesuffix(".py")
    for name in imported_modules(ROOT / path):
        parts = name.split(".")
        if parts[0] == "ebmjax" and len(parts) > 2 and parts[2].startswith("_"):
            assert parts[1] == room, f"import {parts[1]} from its folder, not from {name}"


ROOMS_OF_RECIPES = [path for path in MODULES if path.parts[1] == "recipes" and len(path.parts) > 3]


@pytest.mark.parametrize("path", ROOMS_OF_RECIPES, ids=str)
def test_arrows_between_rooms_of_recipes(path: Path) -> None:
    room = path.parts[2]
    assert room in RECIPES, f"{room} is no room of recipes: add it to RECIPES and docs/design.md"
    parts = [name.split(".")[2:] for name in imported_modules(ROOT / path) if is_in_recipes(name)]
    others = {names[0] for names in parts} & set(RECIPES) - {room}
    assert others <= RECIPES[room], f"{path} must not import {others - RECIPES[room]}"
    models = {names[1] for names in parts if names[0] == "models" and len(names) > 1} & MODELS
    assert room == "models" or not models, f"{path} must not import {models}"
    assert models <= {path.parts[3]}, f"{path} must not import {models - {path.parts[3]}}"


def is_in_recipes(dotted: str) -> bool:
    return dotted.startswith("ebmjax.recipes.")


def test_configurations_and_studies_stand_on_recipes_alone() -> None:
    """So a copy of one works in a user's own folder, without a checkout."""
    for path in sorted(ROOT.glob("experiments/[cs][ot]*s/*.py")):
        assert not [n for n in imported_modules(path) if n.split(".")[0] == "experiments"], path


def test_the_reader_of_imports_reads_imports() -> None:
    """The tests above can fail: what they read is what the file imports."""
    file = PACKAGE / "samplers" / "_chains.py"
    assert {"jax", "ebmjax._checks", "ebmjax.types"} <= set(imported_modules(file))
    assert room_of("ebmjax.latent._model") == "latent"
    assert room_of("jax.numpy") is None


ROOMS = sorted({path.stem if len(path.parts) == 2 else path.parts[1] for path in MODULES})
ROOMS = [room for room in ROOMS if not room.startswith("_")]
# Everything that is no requirement of JAX or Optax; the last two lines are no dependency either.
HEAVY = [
    "flax", "orbax", "tensorstore", "ml_collections", "tensorflow_datasets", "distrax", "sklearn",
    "matplotlib", "tensorboardX", "tqdm", "PIL", "bs4", "importlib_resources", "requests",
    "tensorflow", "tensorflow_probability",
    "chex", "blackjax", "equinox", "flowjax", "arviz_stats",
    "pytest", "torch", "pandas",
]  # fmt: skip
LIGHT_CODE = f"""
import sys
sys.modules.update(dict.fromkeys({HEAVY!r}))  # an import of these now fails

import ebmjax
rooms = [name for name in sys.modules if name.startswith("ebmjax.") and name[7] != "_"]
assert not rooms, "rooms load when used"
import ebmjax.samplers as samplers
loaded = {{name.split(".")[1] for name in sys.modules if name.startswith("ebmjax.")}}
assert {{room for room in loaded if room[0] != "_"}} <= {{"samplers", "densities", "types"}}, loaded

import jax, jax.numpy as jnp
normal = lambda x: -0.5 * jnp.sum(x**2)
key = jax.random.key(0)
state = samplers.sgld_init(jnp.ones(2), normal)
state, info = samplers.sgld_step(key, state, normal, step_size=0.1)
assert state.position.shape == (2,) and state.position[0] != 1
state = samplers.svgd_init(jnp.eye(3, 2), normal)
state, info = samplers.svgd_step(key, state, normal, step_size=0.1)
assert state.particles.shape == (3, 2) and state.particles[0, 0] != 1

loss, metrics = ebmjax.losses.contrastive_divergence_loss(jnp.zeros(2), jnp.ones(2))
assert float(loss) == -1
from ebmjax import data, latent, metrics, optim, training
assert latent.power_schedule(3, 1.0).shape == (4,)
try:
    ebmjax.networks
except ModuleNotFoundError as error:
    assert "flax" in str(error)
else:
    raise AssertionError("the blocked packages can be imported after all")
"""


@pytest.mark.slow
def test_samplers_and_losses_need_jax_and_optax_only() -> None:
    """Rooms load when they are first used; only networks, and learning with them, need Flax."""
    result = subprocess.run(
        [sys.executable, "-c", LIGHT_CODE], capture_output=True, text=True, cwd=ROOT
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_learning_imports_no_optional_package() -> None:
    code = f"""
import sys
heavy = [name for name in {HEAVY!r} if name not in ("flax", "tensorstore", "tqdm", "requests")]
import ebmjax.learning, ebmjax.networks
print([name for name in heavy if name in sys.modules])
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert result.stdout.strip() == "[]", result.stdout


def test_signatures_of_public_names_hold_public_types() -> None:
    """Types of other packages are public where those say so."""
    modules = [importlib.import_module(f"ebmjax.{room}") for room in ROOMS]
    public = {name: value for module in modules for name, value in vars(module).items()}
    hidden = set()
    for value in public.values():
        function = inspect.unwrap(value) if inspect.isfunction(value) else None
        if function is None or not function.__module__.startswith("ebmjax."):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        assert isinstance(tree, ast.FunctionDef)
        arguments = [
            one.annotation
            for one in ast.walk(tree.args)
            if isinstance(one, ast.arg) and one.arg != "state"  # what init returned
        ]
        for node in itertools.chain.from_iterable(map(ast.walk, filter(None, arguments))):
            if not isinstance(node, ast.Name) or node.id in public or not node.id[0].isupper():
                continue
            found = function.__globals__.get(node.id)
            if isinstance(found, Range):  # of an argument, and shown by its words
                continue
            is_alias = found is not None and getattr(found, "__name__", None) != node.id
            if is_alias or getattr(found, "__module__", "").startswith("ebmjax."):
                hidden.add(node.id)
    assert hidden == {"ArrayLike"}  # of jax.typing


def test_the_package_names_every_room() -> None:
    """``dir``, attribute access and the imports that type checkers read hold the same rooms."""
    assert set(ROOMS) <= set(dir(ebmjax))
    assert all(getattr(ebmjax, room).__name__ == f"ebmjax.{room}" for room in ROOMS)
    read = {room_of(name) for name in imported_modules(PACKAGE / "__init__.py")} - {None}
    assert read - {"_extras"} == set(ROOMS) == ebmjax._ROOMS
    with pytest.raises(AttributeError, match="'ebmjax' has no attribute 'sampler'"):
        _ = ebmjax.sampler


def test_names_that_others_build_on_stay() -> None:
    names = """samplers.run_chain samplers.batch_step samplers.svgd_direction losses.joint_energy
      losses.joint_log_density losses.beta_objective_loss losses.contrastive_divergence_loss
      losses.svgd_generative_loss latent.gaussian_kl latent.log_evidence latent.power_schedule
      networks.LatentEnergy networks.MLPEnergy optim.sam_gradients metrics.auroc
      metrics.extrapolate_to_infinity metrics.kernel_distance metrics.potential_scale_reduction"""
    for room, name in (one.split(".") for one in names.split()):
        assert hasattr(getattr(ebmjax, room), name)


# Imported names that pip knows by another name.
DISTRIBUTIONS = {
    "sklearn": "scikit-learn", "PIL": "pillow", "absl": "absl-py", "orbax": "orbax-checkpoint",
    "ml_collections": "ml-collections", "tensorflow_datasets": "tensorflow-datasets",
}  # fmt: skip
# BlackJAX and Equinox are asked for by name in the error; tensorflow-datasets downloads with
# requests. The study of anyone's images says how to install the packages of its images.
UNDECLARED = {"blackjax", "equinox", "requests", "mlxtend", "skimage"}


def distributions(paths: Iterable[Path]) -> set[str]:
    """Names by which pip knows the packages that files import."""
    names = {name.split(".")[0] for path in paths for name in imported_modules(ROOT / path)}
    names -= {*sys.stdlib_module_names, "ebmjax", "experiments", "image_sets", ""}
    return {DISTRIBUTIONS.get(name, name) for name in names} - UNDECLARED


def test_the_extras_hold_what_is_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    listed = lambda lines: {re.split("[<>=]", line)[0] for line in lines}  # noqa: E731
    core, optional = listed(project["dependencies"]), listed(extras["experiments"])
    asking = [path for path in MODULES if "needs_experiments(" in (ROOT / path).read_text()]
    with_tfds = Path("ebmjax/data/_tfds_without_tensorflow.py")  # open_builder has asked before
    huggingface = Path("ebmjax/data/_huggingface.py")
    library = {path for path in MODULES if path.parts[1] != "recipes"}
    assert distributions(library - {*asking, with_tfds, huggingface}) <= core
    assert distributions({huggingface}) <= core | listed(extras["huggingface"])
    flow = Path("ebmjax/evaluate/_baselines.py")
    assert distributions({flow}) <= core | optional | listed(extras["flow"])
    assert distributions(set(MODULES) - {huggingface, flow}) <= core | optional
    assert distributions((ROOT / "experiments").rglob("*.py")) <= core | optional
    assert "ebmjax[experiments]" in extras["examples"]
    assert "ebmjax[examples]" in extras["docs"]
    assert {"ebmjax[examples]", "ebmjax[flow]", "ebmjax[huggingface]"} <= set(extras["test"])
    assert "ebmjax[test]" in extras["dev"]


@pytest.mark.parametrize(
    ("blocked", "call"),
    [
        ("sklearn", lambda: ebmjax.data.load_digits("train")),
        ("sklearn.datasets", lambda: ebmjax.data.natural_patches(1, size=8, channels=1, seed=0)),
        ("tensorflow_datasets", lambda: ebmjax.data.load_images("mnist", "train")),
        ("tensorflow_datasets", lambda: ebmjax.data.prepare_tfds("mnist")),
    ],
)
def test_a_missing_package_names_the_extra(
    blocked: str, call: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in {blocked, *(one for one in sys.modules if one.startswith(f"{blocked}."))}:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r'pip install "ebmjax\[experiments\]"'):
        call()


def test_sampler_is_blackjax_protocol() -> None:
    assert Sampler._fields == ("init", "step")


@pytest.mark.parametrize(
    "name", [name for name in dir(ebmjax.samplers) if hasattr(ebmjax.samplers, f"{name}_step")]
)
def test_type_checkers_know_the_state_and_the_info_of_a_sampler(name: str) -> None:
    bound, step = (getattr(ebmjax.samplers, name + end) for end in ("", "_step"))
    found = typing.get_type_hints(bound)["return"]
    assert typing.get_origin(found) is Sampler
    assert typing.get_args(found) == typing.get_args(typing.get_type_hints(step)["return"])


def test_what_recipes_load_late_is_listed() -> None:
    for name in ("TrainedRun", "load"):
        assert name in dir(ebmjax.recipes)
        assert getattr(ebmjax.recipes, name).__name__ == name


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


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_in_pages(page: Path) -> None:
    result = doctest.testfile(
        str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert result.failed == 0


def test_examples_are_found_at_all() -> None:
    from ebmjax.samplers import _mala

    assert doctest.testmod(_mala).attempted >= 3
