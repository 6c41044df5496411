"""Everything that the pages name exists: links, files, variants, fields and public names."""

import ast
import importlib
import re
import runpy
import sys
from collections import namedtuple
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from experiment_runs import EXPERIMENTS, REPOSITORY
from pages import TEXTS, blocks, files

import ebmjax
from ebmjax._shown import SEE_FAQ
from ebmjax.recipes.config.errors import flatten
from ebmjax.recipes.study.cells import load as load_study
from ebmjax.recipes.study.cells import read_file

ROOMS = (
    "data", "densities", "latent", "learning", "losses", "metrics", "networks", "optim",
    "samplers", "training",
)  # fmt: skip


def configs():
    return {
        path.name: runpy.run_path(str(path))
        for path in sorted((EXPERIMENTS / "configs").glob("*.py"))
    }


CONFIGS = configs()
STUDIES = {
    path.name: set(read_file(path)) for path in sorted((EXPERIMENTS / "studies").glob("*.py"))
}
FIELDS = {name for config in CONFIGS.values() for name in flatten(config["get_config"]().to_dict())}
SECTIONS = {name.rpartition(".")[0] for name in FIELDS}


def anchors(text):
    """Names of the headings of a page in links to them."""
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", TEXTS[page]):
        if re.match(r"\w+://", target):
            continue
        file, _, anchor = target.partition("#")
        path = (REPOSITORY / page).parent / file if file else REPOSITORY / page
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path.read_text()), target


def test_llms_txt_links_pages_of_the_site():
    found = re.findall(r"\]\((\S+?)\.html\)", (REPOSITORY / "docs/llms.txt").read_text())
    assert len(found) > 40
    assert [name for name in found if f"docs/{name}.md" not in TEXTS] == []


def test_messages_point_to_headings_that_exist():
    sources = [path.read_text() for path in sorted((REPOSITORY / "ebmjax").rglob("*.py"))]
    text = re.sub(r'"\s+f?"', "", "".join(sources))  # a text may go on in the next line
    found = set(re.findall(r"page (\w+) of the documentation(?:, section '([^']+)')?", text))
    assert len(found) > 2
    for page, heading in found:
        lines = TEXTS[f"docs/{page}.md"].splitlines()
        assert not heading or any(re.fullmatch(f"#+ {heading}", line) for line in lines), heading
    assert ("faq", SEE_FAQ.split("'")[1]) in found


def test_no_message_names_a_file_of_the_documentation():
    """Who installed a wheel has no docs/; docstrings and comments may name it."""
    for path in sorted((REPOSITORY / "ebmjax").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
        texts = {node for node in nodes if isinstance(node, ast.Constant)} - docstrings
        assert [one.value for one in texts if re.search(r"docs/\w+\.md", str(one.value))] == []


@pytest.mark.parametrize("page", TEXTS)
def test_configurations_and_studies_exist(page):
    for file, variant in re.findall(r"configs/(?!NAME)(\w+\.py)(?::(\w+))?", TEXTS[page]):
        CONFIGS[file]["get_config"](variant)  # raises for an unknown variant
    for file, variant in re.findall(r"studies/(?!NAME)(\w+\.py)(?::(\w+))?", TEXTS[page]):
        assert variant in STUDIES[file] or not variant, (file, variant)


@pytest.mark.parametrize("page", TEXTS)
def test_scripts_exist(page):
    for script in re.findall(r"python ((?:experiments|benchmarks|docs)/\w+\.py)", TEXTS[page]):
        assert (REPOSITORY / script).is_file(), script


@pytest.mark.parametrize("page", TEXTS)
def test_fields_exist(page):
    added = set(re.findall(r'^\+ +"([\w.]+)": field\(', TEXTS[page], re.MULTILINE))  # by a diff
    for name in re.findall(r"--config\.([\w.]*\w)", TEXTS[page]):
        is_option = re.fullmatch(r"\w+\.options\.\w+", name)  # of a function on the page
        assert is_option or name in FIELDS | SECTIONS | added | {"FIELD"}, name


@pytest.mark.parametrize("page", TEXTS)
def test_public_names_exist(page):
    pattern = (
        rf"`(?:ebmjax\.)?({'|'.join(ROOMS)})\.(?!jsonl|md|png|py)([a-zA-Z]\w*)"  # those are files
    )
    for room, name in re.findall(pattern, TEXTS[page]):
        module = importlib.import_module(f"ebmjax.{room}")
        assert hasattr(module, name) or f"{room}.{name}" in FIELDS | SECTIONS, f"{room}.{name}"


def test_the_table_of_studies_has_every_one():
    listed, file = {name: {""} for name in STUDIES}, ""
    for cell in re.findall(r"^\| (`(?:studies/|:).*?) \|", TEXTS["docs/studies.md"], re.MULTILINE):
        for name, variant in re.findall(r"`(?:studies/(\w+\.py))?(?::(\w+))?`", cell):
            file = name or file
            listed[file].add(variant)
    assert {name: variants | {""} for name, variants in STUDIES.items()} == listed


def test_every_row_of_the_papers_links_a_number_or_says_why_there_is_none():
    rows = re.findall(r"^\| (.+) \|$", TEXTS["docs/papers.md"], re.MULTILINE)
    measured = {row: row.rsplit("|", 1)[-1].strip() for row in rows}
    assert len(rows) > 80  # the pattern still finds them
    is_said = re.compile(r"measured$|-+$|.*(\]\(results/|\bGPU\b|\bbecause \w+)")
    assert [row for row, cell in measured.items() if not is_said.match(cell)] == []


def test_published_numbers_stand_beside_rows_of_their_study():
    """Their labels are those that ``--rows`` takes."""
    section = TEXTS["docs/published.md"]
    found = re.findall(r"^\| [^|]+ \| `(studies/\S+?)` \| ([^|]+) \|", section, re.MULTILINE)
    assert len(found) == 12
    for name, cells in found:
        rows = load_study(name).rows
        labels = re.findall(r"`([^`]+)`: (?:[\d.]+|diverges|gradient)", cells)
        assert labels
        assert set(labels) <= set(rows), name


LEDGER = [f"docs/results/{page}.md" for page in ("README", "claims_joint", "claims_samplers")]


def claims():
    """Rows of the ledger's tables of claims, and their verdicts."""
    rows = [row for page in LEDGER for row in re.findall(r"^\| .+\|$", TEXTS[page], re.MULTILINE)]
    verdicts = [row.split(" | ")[2] for row in rows if row.count(" | ") == 3]
    return rows, [verdict for verdict in verdicts if verdict != "verdict"]


def test_the_ledger_begins_with_the_counts_of_its_verdicts():
    kinds = ("holds", "in part", "does not hold", "not seen")
    _, verdicts = claims()
    counts = [sum(verdict.startswith(kind) for verdict in verdicts) for kind in kinds]
    assert sum(counts) == len(verdicts), "a verdict begins with one of " + ", ".join(kinds)
    answer = TEXTS[LEDGER[0]].split("\n\n")[1]
    assert [int(n) for n in re.findall(r"\d+", answer)[:5]] == [len(verdicts), *counts]


def encoded_images() -> dict:
    """Stands in for a prepared copy of CIFAR-10 with its images as they are encoded."""
    import tensorflow_datasets as tfds

    def data_source(name, *, split, data_dir, decoders):
        assert isinstance(decoders["image"], type(tfds.decode.SkipDecoding()))
        return [{"image": b"\x89PNG"}]

    return {"tfds": SimpleNamespace(data_source=data_source, decode=tfds.decode)}


def without_weights() -> dict:
    """Stands in for Inception's weights: features are sums of pixels."""
    outputs = namedtuple("outputs", ("features", "logits"))
    inception_fn = lambda images: outputs(*[images.reshape(len(images), -1).sum(1)[:, None]] * 2)  # noqa: E731
    stub = SimpleNamespace(load_inception=lambda path, sha256: inception_fn)
    images = np.zeros((3, 8, 8, 1), np.uint8)
    return {"ebmjax": SimpleNamespace(networks=stub), "metrics": ebmjax.metrics, "images": images}


STAND_INS = {  # first line of a block to the names that it needs
    "source = tfds.data_source(": encoded_images,
    'inception_fn = ebmjax.networks.load_inception("inception.npz", sha256="...")': without_weights,
    "import torch": dict,
    "import jax": dict,
}
SHORTER = {"errors(10, 2000, 0.05, 400, 20)": "errors(3, 2, 0.05, 1, 2)"}


@pytest.fixture
def torch(monkeypatch):
    """Stands in for PyTorch and safetensors, which the project does not need."""
    weights = {"w": SimpleNamespace(contiguous=lambda: 1.0)}
    of_torch = SimpleNamespace(save_file=lambda tensors, path: None)
    fake = SimpleNamespace(load=lambda path, weights_only: weights, Tensor=type("Tensor", (), {}))
    monkeypatch.setitem(sys.modules, "torch", fake)  # SciPy asks whether an array is a Tensor
    monkeypatch.setitem(sys.modules, "safetensors", ModuleType("safetensors"))
    monkeypatch.setitem(sys.modules, "safetensors.torch", of_torch)


@pytest.mark.slow
@pytest.mark.parametrize("page", TEXTS)
def test_python_blocks_run(page, torch):
    """Blocks with prompts run as doctests (tests/test_types_and_imports.py), files by commands."""
    for block in blocks(TEXTS[page], "python"):
        if ">>> " in block or block in files().values():
            continue
        for long, short in SHORTER.items():
            block = block.replace(long, short)
        exec(block, STAND_INS[block.splitlines()[0]]())
