"""metrics.jsonl: one row a step, whatever happened to the process that wrote it."""

import json

import numpy as np
import pytest

from ebmjax.training import JsonlWriter, read_rows


def write_rows(path, steps, first_step=0, **options):
    writer = JsonlWriter(path, **options)
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


@pytest.mark.parametrize("cut", [1, 5, 17])
def test_an_incomplete_last_line_is_cut(path, cut):
    write_rows(path, range(4))
    path.write_text(path.read_text()[:-cut])
    write_rows(path, [4], first_step=3)
    # Without its newline alone, the line is still whole.
    kept = [0, 1, 2, 3] if cut == 1 else [0, 1, 2]
    assert [row["step"] for row in read_rows(path)] == [*kept, 4]


@pytest.mark.parametrize(
    "line", [b"\xff\xfe", b"3", b"{}", b'{"step": 2', b'{"step": "2"}', b"[1]", b"", b"[" * 100_000]
)
def test_a_damaged_line_costs_no_other_row(path, line, caplog):
    write_rows(path, range(5))
    lines = path.read_bytes().splitlines()
    lines[2] = line
    damaged = b"\n".join([*lines, b""])
    path.write_bytes(damaged)
    assert [row["step"] for row in read_rows(path)] == [0, 1, 3, 4]
    write_rows(path, [5], first_step=4)
    assert [row["step"] for row in read_rows(path)] == [0, 1, 3, 4, 5]
    assert path.with_name("metrics.jsonl.1").read_bytes() == damaged
    assert "line 3 is damaged" in caplog.text


def test_missing_rows_are_told(path, caplog):
    for kept, gap in [
        ([2, 4, 6, 8], None),
        ([0, 2, 4, 5, 6, 8, 9], None),
        ([2, 6, 8], "between steps 2 and 6"),
        ([4, 6, 8], "between steps 0 and 4"),
        ([2, 4, 6], "between steps 6 and 9"),
        ([], "between steps 0 and 9"),
    ]:
        caplog.clear()
        path.unlink(missing_ok=True)
        write_rows(path, kept)
        write_rows(path, [], first_step=9, log_every=2)
        assert [row["step"] for row in read_rows(path)] == kept
        assert (gap in caplog.text) if gap else not caplog.text


def test_the_file_is_replaced_at_once(path):
    write_rows(path, range(4))
    write_rows(path, [], first_step=2)
    assert [file.name for file in path.parent.iterdir()] == ["metrics.jsonl"]


def test_what_json_has_no_word_for_is_null(path):
    writer = JsonlWriter(path)
    writer.start(0)
    array = np.array([[np.nan, 2.0]], np.float32)
    writer.write(1, {"a": float("nan"), "b": [1.0, -np.inf], "c": array, "d": {"e": np.inf}})
    writer.close()
    row = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert row == {"step": 1, "a": None, "b": [1.0, None], "c": [[None, 2.0]], "d": {"e": None}}


def test_numpy_numbers_are_numbers(path):
    writer = JsonlWriter(path)
    writer.start(0)
    writer.write(1, {"count": np.int32(3), "ok": np.bool_(True), "x": np.float32(0.5)})
    writer.close()
    assert read_rows(path) == [{"step": 1, "count": 3, "ok": True, "x": 0.5}]


def test_closing_what_never_started_is_harmless(path):
    JsonlWriter(path).close()
    assert not path.exists()
