"""Parts from a user's own file or module: ``FILE.py:FUNCTION`` in place of a name of ours.

The function is called as ours are, with the options of the section ``config.<section>.options`` as
keywords.
"""

import contextlib
import inspect
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from ebmjax._shown import trim
from ebmjax._user_function import user_function
from ebmjax.recipes.config import declare
from ebmjax.recipes.config.declare import Fields, is_users, read_fields
from ebmjax.recipes.config.errors import Config, ConfigError, did_you_mean


class UserPart(NamedTuple):
    """A function that the value ``name`` of a field names, with the options of its call."""

    field: str
    name: str
    function: Callable[..., Any]
    options: Mapping[str, Any]

    def call(self, *given: Any, **keywords: Any) -> Any:
        """Returns the function's value; whatever it raises is an error of the configuration."""
        with self.explain():
            return self.function(*given, **keywords)

    def hold(self, is_held: Any, must: str, got: str) -> None:
        """Raises ConfigError unless what the part does ``is_held`` by its contract."""
        if not is_held:
            raise ConfigError(f"config.{self.field}={self.name!r} must {must}; got {got}.")

    @contextlib.contextmanager
    def explain(self, note: str = "") -> Iterator[None]:
        """Turns whatever the part's code raises into a ConfigError with its line, and a note."""
        try:
            yield
        except ConfigError:
            raise
        except (Exception, SystemExit) as error:
            kind = "" if isinstance(error, TypeError | ValueError) else f"{type(error).__name__}: "
            text = " ".join(str(error).split()).rstrip(".") + "."
            if self.options:
                section, options = self.field.partition(".")[0], trim(repr(dict(self.options)))
                text += f" Its arguments, config.{section}.options: {options}."
            file = getattr(getattr(self.function, "__code__", None), "co_filename", None)
            frames = traceback.extract_tb(error.__traceback__)
            lines = [f", line {frame.lineno}" for frame in frames if frame.filename == file]
            place = f"config.{self.field}={self.name!r}{''.join(lines[-1:])}"
            raise ConfigError(f"{place}: {kind}{text}{note}") from error


def find_function(field: str, name: str) -> Callable[..., Any]:
    """Returns the function that ``config.<field>`` names, or raises ConfigError."""
    try:
        return user_function(name)
    except ValueError as error:
        raise ConfigError(f"config.{field}={error}") from error


def find_part(
    config: Config,
    field: str,
    name: str,
    first: Sequence[str] = (),
    others: Collection[str] = (),
    usual: Fields | None = None,
) -> UserPart:
    """Returns the user's part that the value ``name`` of ``config.<field>`` names.

    Args:
      config: has the options, in the section ``options`` beside the field.
      field: such as "sampler.name".
      name: its value.
      first: names of the arguments that the function must begin with.
      others: names of further arguments that the run gives, and that are no options.
      usual: fields whose ranges hold for options that are set and have none in the signature.

    Raises:
      ConfigError: if there is no such function, or an option is missing, unknown or out of range.
    """
    function, section = find_function(field, name), f"{field.partition('.')[0]}.options"
    chosen = config.get(section, ConfigDict()).to_dict()
    parameters, given = inspect.signature(function).parameters, (*first, *others)
    if [*parameters][: len(first)] != [*first]:
        raise ConfigError(
            f"config.{field}={name!r} must take ({', '.join(first)}); it has {[*parameters]}."
        )
    many = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    able = [key for key, one in parameters.items() if key not in given and one.kind not in many]
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    for key in chosen:
        if key in given or not (takes_any or key in able):
            raise ConfigError(
                f"config.{section}.{key} is no option of config.{field}={name!r}, which takes "
                f"{able}.{did_you_mean(key, able)}"
            )
    options = default_options(function, given) | chosen
    if missing := [key for key in able if key not in options]:
        raise ConfigError(
            f"config.{field}={name!r} has arguments {missing} without a value: the run gives "
            f"{sorted(given)}. Set --config.{section}.{missing[0]}=VALUE."
        )
    usual = {key: one for key, one in (usual or {}).items() if key in chosen}
    for key, one in {**usual, **read_fields(function)}.items():
        if one.values.refusal(options[key]) is not None:
            raise ConfigError(declare.refusal_of(one, f"{section}.{key}", options[key]))
    return UserPart(field, name, function, options)


def default_options(function: Callable[..., Any], given: Collection[str]) -> dict[str, Any]:
    """Returns a function's options where nothing sets them, without those in ``given``."""
    return {
        key: one.default
        for key, one in inspect.signature(function).parameters.items()
        if key not in given and one.default is not one.empty
    }


def option_fields(config: Config, fields: Fields) -> Fields:
    """Returns the fields that the user's functions, which ``fields`` name, declare as options."""
    found = {}
    for name in (one for one in declare.WITH_OPTIONS if one in fields):
        section = name.partition(".")[0]
        for entry in filter(is_users, declare.entries_of(config.get(name))):
            own = read_fields(find_function(name, entry)).items()
            found |= {f"{section}.options.{key}": one for key, one in own}
    return found
