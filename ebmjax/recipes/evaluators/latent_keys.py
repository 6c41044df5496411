"""Random keys of the evaluators of a latent EBM."""

from typing import NamedTuple

import jax

from ebmjax.types import Key


class Keys(NamedTuple):
    """Keys made of one key, each named after its use."""

    samples: Key
    powers: Key
    evidence: Key
    gradients: Key
    generated: Key
    sizes: Key
    methods: Key
    cost: Key


def keys_of(key: Key) -> Keys:
    """Returns the keys of a repeat's evaluators."""
    distances, *others = jax.random.split(jax.random.fold_in(key, 4), 3)
    return Keys(*jax.random.split(key, 4), *jax.random.split(distances), *others)
