"""From the fields of a family to one variant of a configuration file."""

from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict


def configure(
    config: ConfigDict, variant: str, base: Mapping[str, Any], variants: Mapping[str, Any]
) -> ConfigDict:
    """``config`` with ``base`` and then the changes of ``variant``, by dotted field names.

    "" is the base itself.

    Raises:
      ValueError: for a variant that does not exist.
    """
    known = {"": {}, **variants}
    if variant not in known:
        raise ValueError(
            f"unknown variant {variant!r}; there are {', '.join(filter(None, known))}."
        )
    config.update_from_flattened_dict({**base, **known[variant]})
    return config
