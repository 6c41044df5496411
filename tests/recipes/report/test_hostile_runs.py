"""Reports of hostile folders: a line refuses what a folder holds, or the report shows it."""

import io
import json
import zipfile

import numpy as np
import pytest

from ebmjax.recipes.config.errors import WorkdirError
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.report import of_run

NAME = "classification.accuracy"


@pytest.fixture
def run(tmp_path):
    """An evaluated run, made by hand, on 200 images."""
    errors = run_folder.write_per_image(tmp_path, {NAME: {"test": np.arange(200) % 2 == 0}})
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 1, "loss": 1.0}) + "\n")
    for file, content in (
        ("config", {"family": "joint", "loss": {"name": "beta"}, "seed": 0}),
        ("summary", {"loss": 4.0, "wall_seconds": 7}),
        ("evaluation", {"classification": {"accuracy": 0.5}, "test_set_error": errors}),
    ):
        (tmp_path / f"{file}.json").write_text(json.dumps(content))
    return tmp_path


def change(folder, file, **values):
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def refusal(call):
    """The message of a WorkdirError, which has one line; empty if nothing is refused."""
    try:
        call()
    except WorkdirError as error:
        (said,) = str(error).splitlines()
        return said
    return ""


@pytest.mark.parametrize(
    ("shape", "dtype", "reason"),
    [
        ((10**15,), "<f8", "its header promises 8,000,000,000,000,128 bytes, and it has 168"),
        ((10**18,), "<f8", "its header promises 8,000,000,000,000,000,128 bytes"),
        ((5,), [("a", "<f8")], "it holds Python objects or records, which are never unpickled"),
        ((5,), "|O", "it holds Python objects or records"),
        ((0,), "<f8", "no list of finite numbers"),
        ((1, 5), "<f8", "no list of finite numbers"),
        ((5,), "<M8[s]", "no list of finite numbers"),
    ],
)
def test_an_array_that_no_run_wrote_is_named_in_one_line(shape, dtype, reason, run):
    file, path = io.BytesIO(), run / "per_image.npz"
    about = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, about)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{NAME}#test.npy", file.getvalue() + bytes(40))
    said = refusal(lambda: run_folder.read_per_image(run, NAME))
    assert f"{NAME}#test in {path} " in said
    assert reason in said


def test_a_lost_or_flipped_byte_of_an_array_is_named_in_one_line(run):
    path = run / "per_image.npz"
    whole = path.read_bytes()
    for place, byte in enumerate(whole):
        for end in (b"", bytes([byte ^ 255]) + whole[place + 1 :]):
            path.write_bytes(whole[:place] + end)
            said = refusal(lambda: run_folder.read_per_image(run, NAME))
            assert f"{path} cannot be read: " in said or (end and not said)


NUMBERS = {"fid_minus_starts": 1.0, "fid_minus_starts_low": 0.5, "fid_minus_starts_high": 2.0}
NUMBERS |= {"sample_fid": 3.0, "sample_fid_error": 0.1, "sample_fid_num_images": 5, "own": [1.0]}
NUMBERS |= {"extractor": "digits", "skipped": 0, "seed": 0, "data": ["64 images"]}
RECOVERY = {"diverged_at": 3, "reason": "", "from_step": 1, "changes": {"a.step_size": [1.0, 0.5]}}
OTHERS = ([], [None, "a", [1]], {"a": {"b": [1]}}, "\ud800", None, 10**400)


def replaced(tree):
    """Yields a JSON value with each of its parts replaced by each of ``OTHERS``."""
    yield from OTHERS
    for place, part in tree.items() if isinstance(tree, dict) else enumerate(tree):
        for other in replaced(part) if isinstance(part, dict | list) else OTHERS:
            copy = tree.copy()
            copy[place] = other
            yield copy


def test_json_of_any_kind_is_reported_or_refused_in_one_line(run):
    change(run, "config.json", evals={"functions": ["a.py:b"]})
    change(run, "summary.json", **NUMBERS, versions={"jax": "1"}, devices=["cpu"])
    change(run, "evaluation.json", **NUMBERS, warnings=["w"], is_finished=True)
    (run / "recoveries.json").write_text(json.dumps({"recoveries": [RECOVERY]}))
    (run / "command.json").write_text(json.dumps({"command": "run", "config": "a.py"}))
    (run / "plots").mkdir()
    for path in sorted(run.glob("*.json*")):
        whole = path.read_text()
        tree = {"step": 1, **NUMBERS} if path.suffix == ".jsonl" else json.loads(whole)
        for other in replaced(tree):
            path.write_text(f"{json.dumps(other)}\n")
            said = refusal(lambda: of_run.write(run))
            is_fine = isinstance(other, dict) or path.suffix == ".jsonl"
            assert bool(said) != is_fine
            assert is_fine or said.startswith(f"{path} is not a JSON object")
        path.write_text(whole)
