"""The samplers by name, read from the library: tests over them include a new one at once."""

import inspect
from functools import partial

import jax

from ebmjax import samplers

NAMES = [name.removesuffix("_step") for name in sorted(vars(samplers)) if name.endswith("_step")]
NAMES.remove("batch")
NAMES.remove("tilted_metropolis")  # of images alone, whose moves its base makes


SEED = 3


def taking(argument):
    """Returns the names of the samplers that take a hyperparameter of this name."""
    return [
        name for name in NAMES if argument in inspect.signature(getattr(samplers, name)).parameters
    ]


PLAIN = taking("log_density_fn")
"""All but those on a density in two parts."""
PARTICLES = taking("axis_name")
ONE_CHAIN = [name for name in PLAIN if name not in PARTICLES]


def init_of(name):
    """Returns ``init(position, log_density_fn)``; what it draws is drawn as by ``with_a_key``."""
    init = getattr(samplers, f"{name}_init")
    if "key" not in inspect.signature(init).parameters:
        return init
    return partial(init, jax.random.key(SEED))


def with_a_key(sampler):
    """Returns ``sampler`` with an ``init`` that draws by a fixed key where none is given."""

    def init(position, key=None):
        key = jax.random.key(SEED) if key is None else key
        return samplers.start_chain(key, sampler, position)

    return samplers.Sampler(init, sampler.step)
