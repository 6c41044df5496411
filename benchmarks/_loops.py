"""Counts what a compiled program does, its loops as often as they run."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

# "send" is to another slice.
COLLECTIVE = re.compile(r"all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|send")
LINE = re.compile(r"^ +(ROOT )?(%[\w.-]+) = (.*?) ([a-z][\w-]*)\((.*)$", re.MULTILINE)
SHAPE = re.compile(r"\b(pred|bf16|[a-z]+\d+)\w*\[([\d,]*)\]")
NAME = re.compile(r"%[\w.-]+")
FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional"}
"""Instructions that move nothing themselves."""


class Line(NamedTuple):
    """An instruction: whether it is its computation's result, name, bytes, kind and the rest."""

    is_root: bool
    name: str
    size: int
    kind: str
    rest: str

    @property
    def operands(self) -> list[str]:
        """Names of what it takes."""
        return NAME.findall(self.rest.partition(")")[0])

    def called(self, what: str) -> str:
        """Returns the computation that it calls as ``what``; "" for none."""
        match = re.search(rf"\b{what}=(%[\w.-]+)", self.rest)
        return match[1] if match else ""


class Counts(NamedTuple):
    """Collectives that a program holds and that it sends; by how much loops multiply the others.

    XLA counts the body of a loop once.

    Attributes:
      held, sent: number of collectives by kind.
      bytes: moved by the program, over those of all bodies once.
      time: likewise of the cycles that a TPU's compiler estimates; NaN without any.
    """

    held: Counter[str]
    sent: Counter[str]
    bytes: float
    time: float


def count(text: str) -> Counts:
    """Returns the counts of a program as XLA writes it."""
    parts: dict[str, list[Line]] = {}
    entry = ""
    for part in text.split("\n\n"):
        if match := re.search(r"^(ENTRY )?(%[\w.-]+) .*\{$", part, re.MULTILINE):
            entry = match[2] if match[1] else entry
            parts[match[2]] = [
                Line(bool(root), name, _size(shape), kind, rest)
                for root, name, shape, kind, rest in LINE.findall(part)
            ]
    runs: Counter[str] = Counter()
    for name, number in _visit(parts, entry, 1):
        runs[name] += number
    held, sent = Counter[str](), Counter[str]()
    for name, number in runs.items():
        for line in parts[name]:
            if COLLECTIVE.fullmatch(kind := line.kind.removesuffix("-start")):
                held[kind] += 1
                sent[kind] += number

    def ratio(of_part: Callable[[list[Line]], int]) -> float:
        values = {name: of_part(parts[name]) for name in runs}
        once, total = sum(values.values()), sum(values[name] * runs[name] for name in runs)
        return total / once if once else math.nan

    return Counts(held, sent, ratio(lambda part: _moved(part, parts)), ratio(_cycles))


def _visit(parts: dict[str, list[Line]], name: str, number: int) -> Iterator[tuple[str, int]]:
    """Yields computations and how often they run; each branch counts as if it were taken."""
    yield name, number
    for line in parts.get(name, []):
        if line.kind == "while":
            trips = re.search(r'known_trip_count":\{"n":"(\d+)"', line.rest)
            limits = [1] if trips else _limits(parts, line.called("condition"))
            yield from _visit(
                parts, line.called("body"), number * (int(trips[1]) if trips else max(limits))
            )
        elif line.kind in ("conditional", "call"):
            for called in NAME.findall(line.rest.partition("), ")[2]):
                if called in parts:
                    yield from _visit(parts, called, number)


def _limits(parts: dict[str, list[Line]], condition: str) -> list[int]:
    """Returns integers that a condition compares with: a loop of JAX counts from 0 to its limit."""
    found = [1]
    for line in parts.get(condition, []):
        if line.kind == "constant" and (match := re.match(r"(\d+)\)", line.rest)):
            found.append(int(match[1]))
        found += _limits(parts, line.called("calls")) if line.kind == "fusion" else []
    return found


def _moved(part: list[Line], parts: dict[str, list[Line]]) -> int:
    """Returns bytes that instructions read and write; of what they take slices of, these alone."""
    sizes, total = {line.name: line.size for line in part}, 0
    for line in part:
        if line.kind in FREE or line.kind.endswith("-done"):
            continue
        inside = parts.get(line.called("calls"), []) if line.kind == "fusion" else [line]
        within = {one.name: one.size for one in inside} if line.kind == "fusion" else sizes
        names = [one.name for one in inside if one.kind == "parameter"] or line.operands
        for name in names:
            users = [one for one in inside if name in one.operands]
            slices = [_slice(one, name, within) for one in users]
            total += within.get(name, 0) if None in slices else sum(filter(None, slices))
        last = inside[-1] if inside else line
        total += within.get(last.operands[1], 0) if _is_update(last) else line.size
    return total


def _is_update(line: Line) -> bool:
    return line.kind == "dynamic-update-slice"


def _slice(line: Line, name: str, sizes: dict[str, int]) -> int | None:
    """Returns bytes of ``name`` that an instruction reads; None for all."""
    if line.kind in ("slice", "dynamic-slice"):
        return line.size
    return 0 if _is_update(line) and line.operands[0] == name else None


def _cycles(part: list[Line]) -> int:
    found = (re.search(r'"estimated_cycles":"(\d+)"', line.rest) for line in part)
    return sum(int(match[1]) for match in found if match)


def _size(shape: str) -> int:
    total = 0
    for kind, dims in SHAPE.findall(shape):
        bits = re.search(r"\d+", kind)
        width = max(int(bits[0]) // 8, 1) if bits else 1
        total += width * math.prod(map(int, filter(None, dims.split(","))))
    return total
