"""Evaluators that configurations can name: each is the function of a file of its own name.

``evaluator(key, model, data, *, FIELD=DEFAULT, ...)`` returns numbers by name, or a ``Found``. Its
keyword arguments are the fields of its section, with their ranges and lines of ``Args:``.
"""

import importlib
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from ebmjax._ranges import COUNT, Range
from ebmjax.recipes.config.declare import Field, When, read_fields, under
from ebmjax.recipes.config.errors import Config

END, NEVER = "end", "never"
EVERY = Range(
    "'end', 'never', or an integer of at least 1",
    lambda v: v in (END, NEVER) or COUNT.holds(v),
    object,
    (END, NEVER, 1, 3),
)
IN_TRAINING = Range(
    "'never', or an integer of at least 1",
    lambda v: v == NEVER or COUNT.holds(v),
    object,
    (NEVER, 1, 3),
)

EVALUATORS = {
    "classification": 1,
    "samples": 1,
    "profile": NEVER,
    "ood": END,
    "robustness": END,
    "generation": END,
    "energies": 1,
    "mixing": END,
    "nats": NEVER,
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
READ = ("density", "evidence")
"""Evaluators whose fields others read, too: the plane's grid, what scores images."""


def wants(config: Config, name: str) -> bool:
    """Returns whether a configuration runs an evaluator."""
    return config.get(f"evals.{name}.every", NEVER) != NEVER


def find_evaluator(name: str) -> Callable[..., Any]:
    """Returns an evaluator of ours."""
    return getattr(importlib.import_module(f"ebmjax.recipes.evaluators.{name}"), name)


def fields(
    name: str, *when: When, without: Collection[str] = (), **changes: Any
) -> dict[str, Field]:
    """Returns an evaluator's fields, ``evals.<name>.<field>``, as a family declares them.

    Args:
      name: in the table.
      when: conditions under which the family can run it.
      without: fields that the family does not have.
      changes: defaults in place of the signature's, by field.
    """
    values, text = EVERY, "N: at every N-th evaluation of training and at its end; end: only then"
    if name in TRAINING_ALONE:
        values, text = IN_TRAINING, "N: at every N-th evaluation of training"
    every = Field(EVALUATORS[name], values, f"{text}; never: off", off=NEVER)
    own = read_fields(find_evaluator(name))
    is_run = When(f"config.evals.{name}.every other than never", lambda c: wants(c, name))
    made = {"every": every, **(own if name in READ else under(own, is_run))}
    made = {key: one for key, one in made.items() if key not in without}
    for key, value in changes.items():
        made[key] = replace(made[key], default=value)
    return {f"evals.{name}.{key}": one for key, one in under(made, *when).items()}
