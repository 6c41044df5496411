"""Checks a study or a search before its first run: what it says, and whether its data are there."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebmjax._ranges import FUNCTION, PATH
from ebmjax._shown import near_path, trim
from ebmjax._user_function import is_function_name, user_function
from ebmjax.recipes.config import declare, families
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.points import is_drawn, is_points
from ebmjax.recipes.study.reader import folder_name

if TYPE_CHECKING:
    from ebmjax.recipes.study.cells import Cell, Study

TAKEN = {"", ".", "..", "slurm", "table.md", "table.json"}
"""Names in a study's folder that no row can have."""

COLUMN = "(name, factor, decimals), such as ('classification.accuracy', 100.0, 1)"
ROW = "'CONFIG[:VARIANT]', or a list of it and further '--config.FIELD=VALUE'"

HELD_OUT = re.compile(
    r"(over_training\.last\.)?test_(accuracy|ece|nll|brier|\w*log_evidence|reconstruction_error)"
    r"|(classification|ood|robustness|evidence)\.(?!.*(num_images|protocol)).+"
)
"""Numbers of the images that judge a run, and that are comparable between runs."""
EXACT = re.compile(r"density\.(density|sample)_.+")
"""Numbers of points against the law that they are drawn from."""
LARGER_IS_BETTER = re.compile("accuracy|auroc|log_evidence")
SMALLER_IS_BETTER = re.compile(r"(^|[._])(ece|nll|brier|kl|tv|reconstruction_error)$")


def check_study(study: "Study") -> None:
    """Raises ConfigError for anything of the wrong type or out of range in ``study``."""
    for name in ("rows", "columns"):
        _expect(isinstance(getattr(study, name), Mapping), name, "a dict", getattr(study, name))
    _expect(len(study.rows) > 0, "rows", "a dict of at least one row", study.rows)
    owners: dict[str, str] = {}
    for label, row in study.rows.items():
        _check_row(label, row)
        name = folder_name(label)
        other = owners.setdefault(name.casefold(), label)
        if name in TAKEN or other != label:
            raise ConfigError(f"rows {other!r} and {label!r} need another folder than {name!r}.")
    for heading, column in study.columns.items():
        _expect(_is_text(heading), f"the heading of a column, {heading!r},", "text", heading)
        _expect(_is_column(column), f"column {heading!r}", COLUMN, column)
    is_count = type(study.num_seeds) is int and study.num_seeds >= 1
    _expect(is_count, "num_seeds", "an integer of at least 1", study.num_seeds)
    _expect(_is_texts(study.common), "common", "a tuple of '--config.FIELD=VALUE'", study.common)
    for argument in study.common:
        check_argument(argument, f"common has {argument!r}, but")
    _expect(study.draw is None or callable(study.draw), "draw", "a function or None", study.draw)
    is_sweep = isinstance(study.sweep, Mapping) and len(study.sweep) <= 1
    is_sweep = is_sweep and all(isinstance(v, list | tuple) and v for v in study.sweep.values())
    _expect(is_sweep, "sweep", "a dict of one field to its values", study.sweep)


def check_argument(argument: str, where: str) -> None:
    """Raises ConfigError unless an argument is ``--config.FIELD=VALUE`` of another field than seed.

    The message begins with ``where``.
    """
    name, equals, _ = argument.partition("=")
    if not name.startswith("--config.") or not equals:
        raise ConfigError(f"{where} only --config.FIELD=VALUE changes a field of runs.")
    if name == "--config.seed":
        raise ConfigError(
            f"{where} the seed is each run's own, from 0 on; --seeds=N, or num_seeds of the "
            "study, says how many runs a row has."
        )


def check_data(cells: Sequence["Cell"]) -> None:
    """Raises ConfigError if a file or function that a row's fields name is not there."""
    seen: set[str] = set()
    for cell in cells:
        named = _find_outside(cell.config)
        new = {str(sorted(named.items()))} - seen
        seen |= new
        if new:
            try:
                _check_outside(cell.config, named)
            except (ValueError, OSError, RuntimeError) as error:
                raise ConfigError(f"row {cell.label!r}: {error}") from error


def _expect(is_right: bool, what: str, expected: str, got: Any) -> None:
    if not is_right:
        raise ConfigError(f"{what} must be {expected}; got {trim(repr(got))}.")


def _check_row(label: Any, row: Any) -> None:
    _expect(
        _is_text(label) and label.isprintable() and len(folder_name(label).encode()) < 200,
        "the label of a row",
        "a line of text",
        label,
    )
    parts = [row] if isinstance(row, str) else row
    _expect(_is_texts(parts) and len(parts) > 0 and parts[0] != "", f"row {label!r}", ROW, row)
    for argument in parts[1:]:
        check_argument(argument, f"row {label!r} has {argument!r}, but")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != ""


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)


def _is_column(value: Any) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 3:
        return False
    name, factor, decimals = value
    is_number = isinstance(factor, int | float) and not isinstance(factor, bool)
    is_count = type(decimals) is int and decimals >= 0
    return _is_text(name) and is_number and math.isfinite(factor) and factor != 0 and is_count


def _find_outside(config: Config) -> dict[str, Any]:
    """Returns the fields of ``config`` that name something outside of it, with their values."""
    fields = families.fields_of(config)
    outside = {"data.name", *declare.find_code(fields, config)}
    outside |= {name for name in fields if fields[name].values in (PATH, FUNCTION)}
    return {name: config[name] for name in sorted(outside & set(fields)) if config[name]}


def _check_outside(config: Config, named: Mapping[str, Any]) -> None:
    for name, value in named.items():
        if families.fields_of(config)[name].values is PATH:
            if not (place := Path(value).expanduser()).exists():
                where = f"from {Path.cwd()}.{near_path(place)}"
                raise ConfigError(f"config.{name}={value!r} does not exist, {where}")
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            if is_function_name(one):
                user_function(one)
    has_images = "data.test_split" in families.fields_of(config) and not is_points(config)
    if has_images and config.data.name != "digits":
        from ebmjax.recipes.parts import image_data

        image_data.check(config)


def check_held_out(name: str, direction: str, config: Config) -> None:
    """Raises ConfigError unless the number ``name`` of a run may choose its settings.

    That is a number of held-out images, or of points against the law that they are drawn from, or
    one that a function of the user may report.
    """
    is_exact = is_drawn(config)
    if not is_exact and not config.data.get("holdout"):
        raise ConfigError(
            "config.data.holdout must hold out the training images that a search compares its "
            f"trials by, got {config.data.get('holdout')}: set --config.data.holdout=0.2."
        )
    if not is_exact and config.evals.use_test_split:
        raise ConfigError("config.evals.use_test_split must be False in a search, got True.")
    is_allowed = (EXACT if is_exact else HELD_OUT).fullmatch(name)
    if not is_allowed and not config.evals.get("functions"):
        raise ConfigError(
            f"a search cannot compare trials by {name!r}: it must be a number of held-out images, "
            "such as classification.nll, or of your own config.evals.functions."
        )
    for better, words in {"maximize": LARGER_IS_BETTER, "minimize": SMALLER_IS_BETTER}.items():
        if better != direction and words.search(name):
            raise ConfigError(f"--{direction}={name} makes it worse: name it --{better}={name}.")
