"""Serves all benchmarks: a command line, times taken in turn, one table and its files.

Needs JAX and NumPy. A checkout need not be installed.
"""

import argparse
import datetime
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the checkout, installed or not

import jax
import numpy as np

Row = dict[str, Any]
Count = tuple[int | list[int], str]
Measured = TypeVar("Measured")
LOAD = os.getloadavg()[0]
"""Load of the machine when the benchmark began."""


class Spread(NamedTuple):
    """Median, smallest and largest of some repeats."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f}-{self.high:.3f})"


def make_parser(
    doc: str | None, out: Path | None = None, **counts: Count
) -> argparse.ArgumentParser:
    """Returns a reader of arguments whose --help is ``doc``.

    Args:
      doc: the benchmark's docstring.
      out: default of --out.
      **counts: options that count something: default and help. A list takes several numbers.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    files = "folder for the table, its JSON and a figure"
    parser.add_argument("--out", type=Path, default=out, help=files)
    for name, (default, text) in counts.items():
        several = "+" if isinstance(default, list) else None
        parser.add_argument(
            f"--{name}", nargs=several, type=at_least_one, default=default, help=text
        )
    return parser


def at_least_one(text: str) -> int:
    """Reads an argument that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return int(text)


def seconds(function: Callable[[], Any]) -> float:
    """Returns the wall time of a call until the device has finished."""
    started = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - started


def take_turns(
    measures: Mapping[str, Callable[[], Measured]], repeats: int
) -> dict[str, list[Measured]]:
    """Returns what each function measures, one entry a repeat.

    The functions take turns within each repeat. One more turn comes first and is not kept.
    """
    turns = [{name: measure() for name, measure in measures.items()} for _ in range(repeats + 1)]
    return {name: [turn[name] for turn in turns[1:]] for name in measures}


def time_in_turn(calls: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Returns the seconds of each call, one entry a repeat, as ``take_turns``."""
    return take_turns({name: partial(seconds, call) for name, call in calls.items()}, repeats)


def median_ms(times: Sequence[float]) -> float:
    """Returns the median of ``times``, which are seconds, in milliseconds."""
    return 1e3 * median(times)


def spread_of_ratios(times: Sequence[float], references: Sequence[float]) -> Spread:
    """Returns the spread of the ratios within each repeat, which survive a drifting machine."""
    ratios = np.array(times) / np.array(references)
    return Spread(float(np.median(ratios)), float(ratios.min()), float(ratios.max()))


def compile_program(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Returns the compiled function, and the seconds that compiling took."""
    started = time.perf_counter()
    program = jax.jit(function).lower(*arguments).compile()
    return program, time.perf_counter() - started


def memory_mib(program: Any) -> dict[str, float]:
    """Returns MiB of a compiled program's memory by kind, as XLA counts them, and their peak.

    The peak is arguments, results that take no argument's place, and temporaries.
    """
    kinds, memory = ("argument", "output", "temp", "alias"), program.memory_analysis()
    found = {kind: getattr(memory, f"{kind}_size_in_bytes", math.nan) / 2**20 for kind in kinds}
    peak = found["argument"] + found["output"] + found["temp"] - found["alias"]
    return found | {"peak": peak}


def describe_machine(*notes: str) -> str:
    """Returns date, device and versions in a line, with ``notes``."""
    parts = [
        str(datetime.date.today()),
        f"{jax.devices()[0].device_kind} x{jax.device_count()}, {os.cpu_count()} cores",
        f"jax {jax.__version__}",
        f"python {platform.python_version()}",
        *filter(None, notes),
        f"load {LOAD:.1f} to {os.getloadavg()[0]:.1f}",
    ]
    return "  ".join(parts)


def format_table(rows: Sequence[Row]) -> str:
    """Returns the rows as aligned text, with "-" where one has no such column."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [columns, *([_format(row.get(name)) for name in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    is_text = [any(isinstance(row.get(name), str) for row in rows) for name in columns]
    texts = [
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(line, widths, is_text, strict=True)
        ).rstrip()
        for line in lines
    ]
    return "\n".join([texts[0], "-" * max(map(len, texts)), *texts[1:]])


def _format(value: Any) -> str:
    number = value.median if isinstance(value, Spread) else value
    if number is None or number != number:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def report(name: str, rows: Sequence[Row], out: Path | None, *notes: str, more: str = "") -> None:
    """Prints a table; also writes it into the folder ``out``, as text and JSON.

    Args:
      name: of the files.
      rows: those of the table. Where they have a "ratio", a figure shows it.
      out: None to write nothing.
      notes: how the rows were measured.
      more: text below the table.
    """
    head = describe_machine(*notes)
    text = "\n".join(filter(None, [head, format_table(rows), more]))
    print(text)
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.txt").write_text(text + "\n")
    content = {"machine": head, "rows": list(map(_without_nan, rows))}
    (out / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    _draw_ratios(rows, out / f"{name}.png", head)


def _without_nan(row: Row) -> Row:
    found: Row = {}
    for name, value in row.items():
        is_spread = isinstance(value, Spread)
        found[name] = value.median if is_spread else value
        found |= {f"{name}_low": value.low, f"{name}_high": value.high} if is_spread else {}
    return {name: None if value != value else value for name, value in found.items()}


def _draw_ratios(rows: Sequence[Row], path: Path, title: str) -> None:
    from ebmjax.recipes.evaluators.plots import figure

    shown = [row for row in rows if "ratio" in row and not math.isnan(row["ratio"].median)]
    labels = [
        " ".join(str(one) for one in row.values() if isinstance(one, str | int)) for row in shown
    ]
    with figure(path, size=(7, 1.2 + 0.3 * len(shown))) as ((axes,),):
        for place, (middle, low, high) in enumerate(row["ratio"] for row in shown):
            axes.barh(place, middle, 0.6, xerr=[[middle - low], [high - middle]], color="C0")
        axes.axvline(1.0, color="black", lw=0.8)
        axes.set_yticks(range(len(shown)), labels)
        axes.invert_yaxis()
        axes.set(xlabel="ratio of times", xlim=(0, None), title=title)


def as_rows(texts: Mapping[str, str]) -> list[Row]:
    """Returns a row for each text, beside what it is of."""
    return [{"what": name, "value": text} for name, text in texts.items()]
