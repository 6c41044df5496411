"""ebmjax compare says in what runs differ, and pairs only what belongs together."""

import io
import json
import sys
import zipfile

import numpy as np
import pytest

from ebmjax import metrics
from ebmjax.recipes.config.errors import WorkdirError
from ebmjax.recipes.evaluators.result_tables import with_interval
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.report import of_run
from ebmjax.recipes.run import compare

RIGHT = np.random.default_rng(0).uniform(size=(2, 200)) < np.array([[0.95], [0.85]])


@pytest.fixture
def runs(tmp_path):
    """Two evaluated runs, made by hand, on the same 200 images."""
    for number, name in enumerate(("a", "b")):
        folder = tmp_path / name
        (folder / "checkpoints").mkdir(parents=True)
        config = {"family": "joint", "loss": {"beta": number}, "seed": 0}
        rows = "".join(json.dumps({"step": s, "loss": s + number}) + "\n" for s in range(5))
        errors = run_folder.write_per_image(
            folder, {"classification.accuracy": {"test": RIGHT[number]}}
        )
        accuracy = {"accuracy": float(RIGHT[number].mean())}
        report = {"classification": accuracy, "images_sha256": "0", "test_set_error": errors}
        (folder / "metrics.jsonl").write_text(rows)
        for file, content in (
            ("config", config),
            ("summary", {"loss": 4.0 + number, "wall_seconds": 7}),
            ("evaluation", report),
        ):
            (folder / f"{file}.json").write_text(json.dumps(content))
    return tmp_path


def say(monkeypatch, capsys, folder, *further):
    """Lines that the command prints on the runs of a folder, with one space between words."""
    arguments = ["ebmjax compare", str(folder / "b"), str(folder / "a"), *further]
    monkeypatch.setattr(sys, "argv", arguments)
    compare.main()
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def change(folder, file, **values):
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_fields_numbers_and_paired_differences_stand_side_by_side(runs, monkeypatch, capsys):
    said = say(monkeypatch, capsys, runs)
    found = metrics.paired_difference(RIGHT[0], RIGHT[1])
    ends = with_interval(*found)
    assert found.difference > 0.05
    for line in ("loss.beta 1 0", "loss 5 4", f"classification.accuracy {ends}"):
        assert line in said
    assert not [line for line in said if line.startswith(("seed", "family"))]
    assert "how it ended Done: 4 steps in 7 s. Done: 4 steps in 7 s." in said


@pytest.mark.parametrize("digest", ["1", None])
def test_runs_on_other_images_are_not_paired(runs, monkeypatch, capsys, digest):
    change(runs / "b", "evaluation.json", images_sha256=digest)
    said = say(monkeypatch, capsys, runs)
    assert not [line for line in said if line.startswith("classification")]


def test_fields_of_a_stranger_do_not_control_the_terminal(runs, monkeypatch, capsys):
    change(runs / "b", "config.json", **{"\x1b[2J": "\x9b\ud800"})
    assert '?[2J "??" -' in say(monkeypatch, capsys, runs)


def test_two_runs_are_needed(runs, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["ebmjax compare", str(runs / "a"), f"{runs}/b/../a"])
    with pytest.raises(SystemExit, match="takes the folders of two runs or more"):
        compare.main()


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
def test_an_array_that_no_run_wrote_is_named_in_one_line(
    shape, dtype, reason, runs, monkeypatch, capsys
):
    file, path = io.BytesIO(), runs / "a" / "per_image.npz"
    about = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, about)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("classification.accuracy#test.npy", file.getvalue() + bytes(40))
    with pytest.raises(SystemExit) as ended:
        say(monkeypatch, capsys, runs)
    said = str(ended.value)
    assert f"classification.accuracy#test in {path} " in said
    assert reason in said
    assert "\n" not in said


def refusal(call):
    """The message of a WorkdirError, which has one line; empty if nothing is refused."""
    try:
        call()
    except WorkdirError as error:
        (said,) = str(error).splitlines()
        return said
    return ""


def test_a_lost_or_flipped_byte_of_an_array_is_named_in_one_line(runs):
    path = runs / "a" / "per_image.npz"
    whole = path.read_bytes()
    for place, byte in enumerate(whole):
        for end in (b"", bytes([byte ^ 255]) + whole[place + 1 :]):
            path.write_bytes(whole[:place] + end)
            said = refusal(
                lambda: run_folder.read_per_image(path.parent, "classification.accuracy")
            )
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


def test_json_of_any_kind_is_reported_and_compared_or_refused_in_one_line(runs):
    change(runs / "a", "config.json", loss={"name": "beta"}, evals={"functions": ["a.py:b"]})
    change(runs / "a", "summary.json", **NUMBERS, versions={"jax": "1"}, devices=["cpu"])
    change(runs / "a", "evaluation.json", **NUMBERS, warnings=["w"], is_finished=True)
    (runs / "a" / "recoveries.json").write_text(json.dumps({"recoveries": [RECOVERY]}))
    (runs / "a" / "command.json").write_text(json.dumps({"command": "run", "config": "a.py"}))
    (runs / "a" / "plots").mkdir()
    for path in sorted((runs / "a").glob("*.json*")):
        whole = path.read_text()
        tree = {"step": 1, **NUMBERS} if path.suffix == ".jsonl" else json.loads(whole)
        for other in replaced(tree):
            path.write_text(f"{json.dumps(other)}\n")
            said = refusal(lambda: of_run.write(runs / "a"))
            found = refusal(lambda: compare.compare({n: of_run.read(runs / n) for n in "ab"}))
            is_fine = isinstance(other, dict) or path.suffix == ".jsonl"
            assert said == found
            assert bool(said) != is_fine
            assert is_fine or said.startswith(f"{path} is not a JSON object")
        path.write_text(whole)
