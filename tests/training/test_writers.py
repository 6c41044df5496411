"""metrics.jsonl: one row a step, whatever happened to the process that wrote it."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ebmjax.training import JsonlWriter, read_rows


def write_rows(path, steps, first_step=0):
    writer = JsonlWriter(path)
    writer.start(first_step)
    for step in steps:
        writer.write(step, {"loss": step / 10})
    writer.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def test_rows_are_on_disk_as_soon_as_they_are_written(path):
    writer = JsonlWriter(path)
    writer.start(0)
    for step in range(3):
        writer.write(step, {"loss": 1.5, "powers": [0.0, 1.0]})
        expected = [{"step": s, "loss": 1.5, "powers": [0.0, 1.0]} for s in range(step + 1)]
        assert read_rows(path) == expected
    writer.close()


def test_a_start_at_step_0_keeps_a_copy_of_the_history_before_it(path, caplog):
    for count in (5, 3):
        write_rows(path, range(count))
    write_rows(path, [0])
    write_rows(path, [0])  # the row before the first step is no history
    assert [row["step"] for row in read_rows(path)] == [0]
    copies = [[row["step"] for row in read_rows(f"{path}.{i}")] for i in (1, 2)]
    assert copies == [[0, 1, 2, 3, 4], [0, 1, 2]]
    assert len(list(path.parent.iterdir())) == 3
    assert "begins again at step 0" in caplog.text
    assert "metrics.jsonl.1" in caplog.text


@pytest.mark.parametrize("first_step", [1, 3, 4, 9])
def test_later_rows_are_cut_and_earlier_ones_kept_to_the_byte(path, first_step):
    write_rows(path, range(6))
    lines = path.read_text().splitlines(keepends=True)
    write_rows(path, [], first_step)
    assert path.read_text() == "".join(lines[: first_step + 1])
    write_rows(path, [first_step + 1], first_step)
    assert [row["step"] for row in read_rows(path)] == [
        *range(min(first_step, 5) + 1),
        first_step + 1,
    ]


@settings(deadline=None)
@given(number=st.integers(0, 4), line=st.binary(max_size=30), cut=st.integers(0, 12))
@example(2, b"[" * 100_000, 0)
@example(2, b'{"step": "2"}', 0)
def test_a_damaged_line_costs_no_other_row(number, line, cut):
    """Bytes in place of a line, and a last line that is not complete."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        write_rows(path, range(6))
        lines = path.read_bytes().splitlines(keepends=True)
        lines[number] = line + b"\n"
        damaged = b"".join(lines)
        path.write_bytes(damaged[: len(damaged) - cut])
        kept = [row["step"] for row in read_rows(path)]
        assert {*range(6)} - {number, 5 * bool(cut) or number} <= {*kept}
        write_rows(path, [7], first_step=6)
        assert [row["step"] for row in read_rows(path)] == [one for one in kept if one <= 6] + [7]


def test_what_json_has_no_word_for_is_null(path):
    writer = JsonlWriter(path)
    writer.start(0)
    array = np.array([[np.nan, 2.0]], np.float32)
    writer.write(1, {"a": float("nan"), "b": [1.0, -np.inf], "c": array, "d": {"e": np.inf}})
    writer.close()
    row = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert row == {"step": 1, "a": None, "b": [1.0, None], "c": [[None, 2.0]], "d": {"e": None}}
