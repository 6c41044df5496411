"""Runs a benchmark by its name.

python benchmarks                       lists them
python benchmarks repeats --timings 3   the same as python benchmarks/repeats.py --timings 3
"""

import ast
import runpy
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def main() -> None:
    """Hands the command line over to the benchmark that it names."""
    paths = {path.stem: path for path in sorted(FOLDER.glob("[a-z]*.py"))}
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in paths:
        sys.argv = [str(paths[name]), *arguments]
        runpy.run_path(str(paths[name]), run_name="__main__")
        return
    heads = {name: ast.get_docstring(ast.parse(path.read_text())) for name, path in paths.items()}
    lines = [f"  {name:20}{(head or '').splitlines()[0]}" for name, head in heads.items()]
    print("\n".join(["usage: python benchmarks NAME ...", "", *lines]))
    if name not in ("--help", "-h"):
        print(f"error: there is no benchmark {name}; the names are above.", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
