"""Evaluators that configurations can name: each is the function of a file of its own name.

``evaluator(key, model, data, *, FIELD=DEFAULT, ...)`` returns numbers by name, or a ``Found``. Its
keyword arguments are the fields of its section, with their ranges and lines of ``Args:``.
"""

import importlib
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ebmjax import evaluate
from ebmjax._ranges import COUNT, Range
from ebmjax.recipes.config.declare import Field, When, read_fields, under
from ebmjax.recipes.config.errors import Config

END, NEVER = "end", "never"

EVALUATORS = {
    "classification": 1,
    "samples": 1,
    "profile": NEVER,
    "ood": END,
    "robustness": END,
    "generation": END,
    "energies": 1,
    "nats": NEVER,
    "inpainting": NEVER,
    "density": 1,
    "comparison": NEVER,
    "reconstruction": 1,
    "evidence": 1,
    "gradient_variance": 1,
    "landscape": END,
}
"""When each runs by default, in the order in which they run."""
TRAINING_ALONE = ("samples", "profile")
"""Evaluators that have no part in the evaluation after training."""
DRAWN_IN_TRAINING = ("samples", "density")
"""Evaluators whose pictures are drawn during training."""
READ = ("density", "evidence")
"""Evaluators whose fields others read, too: the plane's grid, what scores images."""


def find(name: str, part: str = "") -> Any:
    """Returns an evaluator of ours, or a part of its file; None if the file has no such part."""
    module = importlib.import_module(f"ebmjax.recipes.evaluators.{name}")
    return getattr(module, part or name, None)


def own_fields(name: str) -> dict[str, Field]:
    """Returns the fields of an evaluator's function, and of the library's of this name."""
    return read_fields(getattr(evaluate, name, find(name))) | read_fields(find(name))


def options(config: Config, name: str) -> dict[str, Any]:
    """Returns the options of an evaluator: a configuration's, else those of its signature."""
    section = config.get(f"evals.{name}", {})
    return {key: section.get(key, one.default) for key, one in own_fields(name).items()}


def fields(name: str, *when: When, without: Collection[str] = ()) -> dict[str, Field]:
    """Returns the fields ``evals.<name>.<field>`` of an evaluator, as a family declares them.

    ``when`` are conditions under which the family can run it, ``without`` fields that it lacks.
    """
    words, text = (NEVER, END), " and at its end; end: only then"
    if name in TRAINING_ALONE:
        words, text = (NEVER,), ""
    values = Range(
        f"{', '.join(map(repr, words))}, or an integer of at least 1",
        lambda v: v in words or COUNT.holds(v),
        object,
        (*words, 1, 3),
    )
    text = f"N: at every N-th evaluation of training{text}; never: off"
    every = f"evals.{name}.every"
    is_run = When(f"config.{every} other than never", lambda c: c.get(every, NEVER) != NEVER)
    own = own_fields(name)
    if name not in READ:
        own = {key: replace(one, off=one.default) for key, one in under(own, is_run).items()}
    made = under({"every": Field(EVALUATORS[name], values, text, off=NEVER), **own}, *when)
    return {f"evals.{name}.{key}": one for key, one in made.items() if key not in without}
