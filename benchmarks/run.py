"""Runs benchmarks by their names.

  python benchmarks/run.py
  python benchmarks/run.py chains training plane svgd
  python benchmarks/run.py configuration --config=configs/jem_digits.py --flops

Prints each row as it is measured, and writes FOLDER/NAME.json with it: the rows with medians and
ranges, the machine, its load before and after, versions and the command. What is cut short keeps
the rows so far. NAME --help says more about one of these; the last are files of their own:
"""

import importlib
import os
import sys

from ebmjax.recipes.run.machine import variables

os.environ.update(variables())

import _harness as harness

from ebmjax.recipes.__main__ import quietly

BENCHMARKS = {
    "chains": ("peers", "chains on wide ResNets, beside PyTorch"),
    "training": ("peers", "training steps of JEM, beside PyTorch"),
    "plane": ("peers", "Langevin chains in the plane, beside BlackJAX"),
    "svgd": ("peers", "SVGD, beside BlackJAX"),
    "sampler_throughput": ("sampler_throughput", "every sampler, beside its bare gradients"),
    "configuration": ("configuration", "what a configuration costs on this machine"),
}
"""Name to the file, and what it is for."""
FILES = {
    "compile_for.py": "a step's program for TPUs that are not at hand",
    "league.py": "sets of images, our defaults beside other models, in the same minutes",
    "accelerator.py": "others of these in an accelerator's sizes, most valuable first",
}
"""Benchmarks that have a command line of their own: ``python benchmarks/FILE``."""


def main() -> None:
    """Runs the benchmarks that the command line names, one after the other."""
    asked = [one for one in sys.argv[1:] if one in BENCHMARKS]
    every = {name: text for name, (_, text) in BENCHMARKS.items()} | FILES
    listed = "\n".join(f"  {name:20}{text}" for name, text in every.items())
    modules = {name: importlib.import_module(BENCHMARKS[name][0]) for name in asked}
    said = [module.__doc__ or "" for module in modules.values()] or [f"{__doc__}{listed}"]
    parser = harness.make_parser("\n".join(dict.fromkeys(said)))
    parser.add_argument("names", nargs="*", help="benchmarks")
    for module in modules.values():
        module.add_options(parser)
    options, rest = parser.parse_known_intermixed_args()
    for name in set(options.names).difference(BENCHMARKS):
        parser.error(f"there is no benchmark {name}; the names are:\n{listed}")
    # "svgd" may be a benchmark, or a value of --samplers.
    modules = {name: modules[name] for name in options.names}
    if rest and not all(getattr(module, "TAKES_FIELDS", False) for module in modules.values()):
        parser.error(f"unexpected arguments: {' '.join(rest)}")
    if not modules:
        parser.print_help()
        return
    harness.warn_if_busy()
    options.fields = rest
    for name, module in modules.items():
        harness.report(name, module.rows(name, options), options.out)


if __name__ == "__main__":
    quietly(main)
