"""Names of the samplers, read from the library: tests over them include a new one at once."""

import inspect

from ebmjax import samplers

NAMES = [name.removesuffix("_step") for name in sorted(vars(samplers)) if name.endswith("_step")]
NAMES.remove("batch")


def taking(argument: str) -> list[str]:
    """Returns the names of the samplers that take a hyperparameter of this name."""
    return [
        name for name in NAMES if argument in inspect.signature(getattr(samplers, name)).parameters
    ]


PLAIN = taking("log_density_fn")
"""All but those on a density in two parts."""
PARTICLES = taking("axis_name")
ONE_CHAIN = [name for name in PLAIN if name not in PARTICLES]
