"""Finds a mistyped column of a study before its runs."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ebmjax.recipes.config.errors import Config, ConfigError, did_you_mean
from ebmjax.recipes.config.points import NOT_DRAWN, is_points
from ebmjax.recipes.evaluators.known_numbers import PATTERNS, expand, is_known, patterns

HELD_OUT = re.compile(
    r"(over_training\.last\.)?test_(accuracy|ece|nll|brier|\w*log_evidence|reconstruction_error)"
    r"|(classification|ood|robustness|evidence)\.(?!.*(num_images|protocol)).+"
)
"""Numbers of the images that judge a run, and that are comparable between runs."""
EXACT = re.compile(r"density\.(density|sample)_.+")
"""Numbers of points against the law that they are drawn from."""
LARGER_IS_BETTER = re.compile("accuracy|auroc|log_evidence")
SMALLER_IS_BETTER = re.compile(r"(^|[._])(ece|nll|brier|kl|tv|reconstruction_error)$")


def check_held_out(name: str, config: Config) -> None:
    """Raises ConfigError unless the number ``name`` of a run may choose its settings.

    That is a number of held-out images, or of points against the law that they are drawn from, or
    one that a part of the user may report.
    """
    allowed = EXACT if is_points(config) and not NOT_DRAWN.holds(config) else HELD_OUT
    if allowed is HELD_OUT and not config.data.get("holdout"):
        raise ConfigError(
            "config.data.holdout must hold out the training images that a search compares its "
            f"trials by, got {config.data.get('holdout')}: set --config.data.holdout=0.2."
        )
    if allowed is HELD_OUT and config.eval.use_test_split:
        raise ConfigError(
            "config.eval.use_test_split must be False: a search chooses by held-out images and not "
            "by test images, got True."
        )
    is_own = config.family not in PATTERNS or bool(config.eval.get("functions"))
    is_ours = is_known(name, config.family)
    if (is_ours and allowed.fullmatch(name)) or (is_own and not is_ours):
        return
    known = [one for pattern in patterns(config.family) for one in expand(pattern)]
    fitting = [one for one in known if allowed.fullmatch(one)]
    raise ConfigError(
        f"a search cannot compare trials by {name!r}: it must be a number of held-out images, none "
        "of training images, of chains, of their distance from training images, nor of energies, "
        f"which have no common zero.{did_you_mean(name, fitting)} There are "
        f"{', '.join([*fitting[:12], 'those of your own config.eval.functions'])}."
    )


def check_direction(name: str, direction: str) -> None:
    """Raises ConfigError for a number that a search would make worse."""
    for better, words in {"maximize": LARGER_IS_BETTER, "minimize": SMALLER_IS_BETTER}.items():
        if better != direction and words.search(name):
            raise ConfigError(
                f"--{direction}={name}: "
                f"{'larger' if better == 'maximize' else 'smaller'} is better, so name it "
                f"--{better}={name}."
            )


def check_columns(
    columns: Mapping[str, Sequence[Any]], of: Collection[str], has_own_parts: bool = False
) -> list[str]:
    """Returns a line for each column whose name no report of the families ``of`` is known to hold.

    Raises:
      ConfigError: if such a name is near a known one, and no part of the user may bring it.
    """
    known = [name for one in of for pattern in patterns(one) for name in expand(pattern)]
    own = sorted({*of} - PATTERNS.keys())
    lines = []
    for heading, (name, *_) in columns.items():
        if any(is_known(name, family) for family in of):
            continue
        near = "" if own else did_you_mean(name, known)
        told = f"column {heading!r}: no report of a run of these rows is known to hold {name!r}."
        if near and not has_own_parts:
            raise ConfigError(told + near)
        lines.append(
            f"{told}{near} It stays empty unless {' or '.join(own) or 'your own part'} adds it."
        )
    return lines
