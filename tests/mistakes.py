"""Mistakes that one place of the code can have, found in the text of a file and drawn by a seed.

There are five kinds: an operator, a comparison, a constant, two arguments in a row, a dropped line.
Left alone is what no test could call wrong: text for people, types, the look of figures, sizes that
change only speed or patience, checks of the program on itself, and the numbers of experiments/,
where another number is another experiment.
"""

import ast
import random
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
COMPARISONS = {
    ast.Lt: ("<", "<=", ">"),
    ast.LtE: ("<=", "<", ">="),
    ast.Gt: (">", ">=", "<"),
    ast.GtE: (">=", ">", "<="),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ANY_ORDER = re.compile(
    r"(max|min)(imum)?|logaddexp|hypot|varying_with|promote_types|isinstance|(get|has)attr|_?check_\w+"
)
UNSEEN = re.compile(
    r"print|warn|warning|info|debug|\w*Error|MaxNLocator|figure|open_figure|eval_shape"
)
LOOKS = re.compile(
    r"alpha|bbox_to_anchor|capsize|color|dpi|fig_?size|font_?size|line_?width|lw|loc|mew|ms|ncols|s"
    r"|[wh]pad|rotation|xmargin|z_?order"
)
SPEED = re.compile(
    r"\w*(at_once|seconds|shown|named|timeout|unroll)|flush|maxsize|max_workers|smoke|strict"
)
TEXT = ast.JoinedStr | ast.List | ast.Tuple | ast.Dict | ast.ListComp
LEFT_ALONE = ast.Raise | ast.Assert | ast.Import | ast.ImportFrom | ast.Delete
ROOMS = ("ebmjax", "experiments")


class Mistake(NamedTuple):
    """One mistake.

    Attributes:
      file: path from the root of the project.
      kind: "operator", "comparison", "constant", "arguments" or "line".
      start: first character that is replaced.
      end: character after the last one.
      new: what replaces them.
      lines: first and last line of the statement, without the statements inside it.
    """

    file: str
    kind: str
    start: int
    end: int
    new: str
    lines: tuple[int, int]

    def made(self, text: str) -> str:
        """The text of the file with the mistake."""
        return text[: self.start] + self.new + text[self.end :]

    def shown(self, text: str) -> tuple[str, str]:
        """The lines that change, before and after, joined to one line each."""
        first = text.rfind("\n", 0, self.start) + 1
        last = text.find("\n", self.end)
        changed = text[first : self.start] + self.new + text[self.end : last]
        return " ".join(text[first:last].split()), " ".join(changed.split())


class Finder(ast.NodeVisitor):
    """Collects ``places``, a list of mistakes each, and ``code_lines`` of the text of a file."""

    def __init__(self, file: str, text: str):
        self.text = text
        self.places: list[list[Mistake]] = []
        self.code_lines: set[int] = set()
        self._file = file
        self._starts = [0, *(match.end() for match in re.finditer(r"\n", text)), len(text)]
        self._lines = (1, 1)
        self._bound: set[str] = set()
        self._is_inside_function = False
        self.visit(ast.parse(text))

    def visit(self, node: ast.AST) -> None:
        """Visits a node and, if it is a statement, notes its lines."""
        if not isinstance(node, ast.stmt):
            return super().visit(node)
        if isinstance(node, LEFT_ALONE):
            return None
        outer, self._lines = self._lines, (node.lineno, _last_line(node))
        self.code_lines.update(range(self._lines[0], self._lines[1] + 1))
        if self._is_inside_function and self._may_be_dropped(node):
            self._add("line", node, ["pass"])
        super().visit(node)
        if not isinstance(node, ast.FunctionDef):
            self._bound |= _names(node, ast.Store)
        self._lines = outer
        return None

    def _may_be_dropped(self, node: ast.stmt) -> bool:
        match node:
            case ast.Expr(ast.Call()) | ast.AugAssign():
                return True
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                return True
            case ast.Assign(targets=[target]):
                return _names(target, ast.Store) <= self._bound
            case ast.If(body=[*_, ast.Raise() | ast.Return() | ast.Continue() | ast.Break()]):
                return not node.orelse and not self._source(node).startswith("elif")
        return False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_all(*node.args.defaults, *node.args.kw_defaults)
        before = self._bound, self._is_inside_function
        arguments = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        self._bound, self._is_inside_function = arguments, True
        self._visit_all(*node.body)
        self._bound, self._is_inside_function = before

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(*node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_all(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [one.id for one in node.targets if isinstance(one, ast.Name)]
        if not any(name == "__all__" or SPEED.fullmatch(name.lower()) for name in names):
            self.generic_visit(node)

    def visit_If(self, node: ast.If | ast.While | ast.IfExp) -> None:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
            self._add("operator", node.test, [f"(not {self._source(node.test)})"])
        self.generic_visit(node)

    visit_While = visit_IfExp = visit_If  # noqa: N815

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._operator(node.op, node.left, node.right)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._operator(node.op, node.target, node.value)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in pairwise(node.values):
            self._operator(node.op, left, right)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub | ast.Not):
            self._add("operator", node, [f"({self._source(node.operand)})"])
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for operator, (left, right) in zip(
            node.ops, pairwise([node.left, *node.comparators]), strict=True
        ):
            self._between("comparison", left, right, *COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if not isinstance(value, int | float) or self._file.startswith("experiments/"):
            return
        if isinstance(value, bool):
            self._add("constant", node, [str(not value)])
        elif isinstance(value, int):
            self._add("constant", node, [str(value + 1), *([str(value - 1)] if value else [])])
        else:
            self._add("constant", node, [repr(2 * value) if value else "1.0"])

    def visit_Call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func).rpartition(".")[2]
        if UNSEEN.fullmatch(name):
            return
        for left, right in [] if ANY_ORDER.fullmatch(name) else pairwise(node.args):
            swapped = self._source(right), self._source(left)
            if not swapped[0].startswith("*") and len(set(swapped)) == 2:
                (start, end), (begin, stop) = self._span(left), self._span(right)
                self._place("arguments", start, stop, [self.text[end:begin].join(swapped)])
        self._visit_all(node.func, *node.args)
        for keyword in node.keywords:
            self._entry(keyword.arg, keyword.value)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            self._visit_all(key)
            self._entry(key.value if isinstance(key, ast.Constant) else None, value)

    def _entry(self, name: Any, value: ast.AST) -> None:
        if not (LOOKS.fullmatch(str(name)) or SPEED.fullmatch(str(name))):
            self.visit(value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leaves text alone."""

    def _visit_all(self, *nodes: ast.AST | None) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _operator(self, operator: ast.AST, left: ast.AST, right: ast.AST) -> None:
        is_text = any(isinstance(side, TEXT) or _is_string(side) for side in (left, right))
        if type(operator) in OPERATORS and not is_text:
            self._between("operator", left, right, *OPERATORS[type(operator)])

    def _between(self, kind: str, left: ast.AST, right: ast.AST, old: str, *new: str) -> None:
        """Adds the mistakes of the operator ``old`` between two nodes."""
        start, end = self._span(left)[1], self._span(right)[0]
        found = re.search(re.escape(old).replace(r"\ ", r"\s+"), self.text[start:end])
        if found and "#" not in self.text[start:end]:
            self._place(kind, start + found.start(), start + found.end(), list(new))

    def _add(self, kind: str, node: ast.AST, new: list[str]) -> None:
        self._place(kind, *self._span(node), new)

    def _place(self, kind: str, start: int, end: int, new: list[str]) -> None:
        one_place = [Mistake(self._file, kind, start, end, text, self._lines) for text in new]
        self.places.append(one_place)

    def _span(self, node: Any) -> tuple[int, int]:
        """Returns a node's first character and the one after its last. Python counts bytes."""

        def place(line: int, column: int) -> int:
            whole = self.text[self._starts[line - 1] : self._starts[line]].encode()
            return self._starts[line - 1] + len(whole[:column].decode())

        return place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)

    def _source(self, node: ast.AST) -> str:
        return self.text[slice(*self._span(node))]


def _is_string(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _names(node: ast.AST, context: type) -> set[str]:
    every = (one for one in ast.walk(node) if isinstance(one, ast.Name))
    return {one.id for one in every if isinstance(one.ctx, context)}


def _last_line(node: Any) -> int:
    """Returns the last line of a statement before the statements inside it."""
    inner = getattr(node, "body", None) or getattr(node, "cases", None)
    if not inner:
        return node.end_lineno
    first = getattr(inner[0], "pattern", inner[0])
    starts = [first, *getattr(first, "decorator_list", [])]
    return max(node.lineno, min(one.lineno for one in starts) - 1)


@cache
def find(file: str) -> Finder:
    """Returns the mistakes of a file of the project."""
    return Finder(file, (ROOT / file).read_text())


def source_files(within: str = "") -> list[str]:
    """Returns the files of ebmjax/ and experiments/ below ``within`` in which a mistake fits."""
    paths = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    files = [path.relative_to(ROOT).as_posix() for path in paths]
    return [file for file in files if file.startswith(within) and find(file).places]


def draw(number: int, seed: int, within: str = "") -> list[Mistake]:
    """Draws different mistakes: a file by its lines of code, a place in it, a mistake there."""
    generator = random.Random(seed)
    files = source_files(within)
    weights = [len(find(file).code_lines) for file in files]
    drawn: dict[Mistake, None] = {}
    while len(drawn) < number:
        places = find(generator.choices(files, weights)[0]).places
        drawn[generator.choice(generator.choice(places))] = None
    return list(drawn)
