"""Serves all benchmarks: times taken in turn, and rows that are printed and kept as they come.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the checkout, installed or not

import jax
import numpy as np

from ebmjax.recipes.run.machine import num_processors

Row = dict[str, Any]
OUT = Path("runs/benchmarks")
MAX_LOAD = 0.5
LOAD = os.getloadavg()[0]
"""Load of the machine when the benchmark began."""
VERSIONS = {"jax": jax.__version__, "python": platform.python_version()}
"""Versions that stand in the JSON; a benchmark adds those of its peers."""


class Spread(NamedTuple):
    """Median, smallest and largest of some repeats."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.4g} ({self.low:.4g}-{self.high:.4g})"


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """Returns a reader of arguments whose --help is ``doc``, with --out."""
    parser = argparse.ArgumentParser(
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        conflict_handler="resolve",
    )
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder for the JSON ({OUT})")
    return parser


def time_call(function: Callable[[], Any], calls: int = 1) -> float:
    """Returns seconds of one of ``calls`` calls, each until the device has finished."""
    started = time.perf_counter()
    for _ in range(calls):
        jax.block_until_ready(function())
    return (time.perf_counter() - started) / calls


def take_turns(
    measures: Mapping[str, Callable[[], float]], repeats: int, pause: float = 0.0
) -> dict[str, list[float]]:
    """Returns what each function measures, one entry a repeat; one more comes first, not kept.

    The functions take turns within each repeat, with ``pause`` seconds before each.
    """
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(repeats + 1):
        for name, function in measures.items():
            time.sleep(pause)
            found[name].append(function())
    return {name: values[1:] for name, values in found.items()}


def spread(values: Sequence[float], factor: float = 1.0) -> Spread:
    """Returns the spread of ``values``, each times ``factor``."""
    found = factor * np.array(values)
    return Spread(float(np.median(found)), float(found.min()), float(found.max()))


def spread_of_ratios(times: Sequence[float], references: Sequence[float]) -> Spread:
    """Returns the spread of the ratios within each repeat, which survive a drifting machine."""
    return spread([time / reference for time, reference in zip(times, references, strict=True)])


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


def product_rate(side: int = 2048, repeats: int = 5) -> float:
    """Returns operations a second of a float32 product of two matrices, the fastest of repeats."""
    matrix = jax.numpy.ones((side, side))
    program, _ = compile_program(jax.numpy.matmul, matrix, matrix)
    return 2 * side**3 / min(time_call(lambda: program(matrix, matrix)) for _ in range(repeats + 1))


def describe_machine(name: str) -> dict[str, Any]:
    """Returns where, when and by what command the benchmark ``name`` ran."""
    return {
        "benchmark": name,
        "command": sys.argv[1:],
        "date": str(datetime.date.today()),
        "processor": platform.processor() or platform.machine(),
        "cores": num_processors(),
        "devices": f"{jax.devices()[0].device_kind} x{jax.device_count()}",
        "product_gflops": round(product_rate() / 1e9),
        "versions": VERSIONS,
        "load_before": LOAD,
    }


def warn_if_busy() -> None:
    """Warns on stderr where other work runs beside the benchmark."""
    if LOAD > MAX_LOAD:
        text = f"the load is {LOAD:.1f}, above {MAX_LOAD}: times are not those of an idle machine."
        print(f"warning: {text}", file=sys.stderr)


def report(name: str, rows: Iterable[Row], out: Path) -> None:
    """Prints each row when it is there, and keeps it in ``out``/NAME.json."""
    content: dict[str, Any] = {}
    out.mkdir(parents=True, exist_ok=True)
    for row in rows:
        if not content:
            content = describe_machine(name) | {"rows": []}
            print("  ".join(f"{key} {value}" for key, value in content.items() if key != "rows"))
        if not content["rows"] or [*content["rows"][-1]] != [*row]:
            print(f"| {' | '.join(row)} |\n{'|---' * len(row)}|")
        content["rows"].append({column: _as_json(value) for column, value in row.items()})
        _write(content, out)
        print(f"| {' | '.join(map(_format, row.values()))} |", flush=True)
    if content:
        _write(content | {"is_complete": True}, out)


def _write(content: dict[str, Any], out: Path) -> None:
    text = json.dumps(content | {"load_after": os.getloadavg()[0]}, indent=1)
    (out / f"{content['benchmark']}.json").write_text(text + "\n")


def _as_json(value: Any) -> Any:
    is_spread = isinstance(value, Spread)
    number = value.median if is_spread else value
    return None if number != number else value._asdict() if is_spread else value


def _format(value: Any) -> str:
    number = value.median if isinstance(value, Spread) else value
    if number is None or number != number:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
