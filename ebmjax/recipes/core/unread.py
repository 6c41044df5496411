"""Refuses fields that are set but have no effect."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ebmjax.recipes.core.fields import Config, ConfigError


class Rule(NamedTuple):
    """A field that only some configurations read.

    Attributes:
      name: of the field, dotted.
      unset: its value where nobody sets it.
      is_read: whether a configuration reads it.
      needs: what to set for that.
    """

    name: str
    unset: Any
    is_read: Callable[[Config], Any]
    needs: str


def check(config: Config, rules: Iterable[Rule]) -> None:
    """Raises ConfigError at the first field that is set and not read."""
    for rule in rules:
        value = config[rule.name]
        if value != rule.unset and not rule.is_read(config):
            raise ConfigError(
                f"config.{rule.name}={value} has no effect here: it needs {rule.needs}. Set that, "
                f"or --config.{rule.name}={rule.unset}."
            )


WEIGHTS = Rule(
    "eval.inception_sha256",
    "",
    lambda config: config.eval.inception_weights,
    "the weights that it is the hash of, config.eval.inception_weights",
)
WHOLE_BATCH = Rule(
    "mesh.whole_batch",
    True,
    lambda config: config.mesh.num_shards > 1,
    "several shards to divide the batch among, config.mesh.num_shards above 1",
)
