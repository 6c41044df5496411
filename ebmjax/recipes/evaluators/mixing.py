"""Mixing of long parallel chains of each sampler."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import evaluate
from ebmjax._phases import say_part
from ebmjax.data import ImageData
from ebmjax.types import Key

NUM_CHAINS, LEAST_STEPS = 16, 8
"""Chains of a sampler, and their least steps: split R-hat takes four draws of the second half."""
WORST = {"rhat_energy": np.max, "rhat_pixel": np.max, "acceptance": np.min}


def mixing(key: Key, model: Any, data: ImageData) -> dict[str, Any]:
    """Returns "mixing": R-hat, acceptance and displacement of each sampler, and the worst.

    Chains begin at the start distribution, and their second half counts. R-hat is that of the
    energy, and a median over pixels; the squared distance that a chain moves is per pixel. A model
    of classes uses chains of class 0, because classes need not agree.
    """
    del data
    key, by_sampler = jax.random.split(key, 3)[2], {}
    num_steps = max(model.num_chain_steps, LEAST_STEPS)

    def diagnose(name: str, key: Key, trained: Any, start_fn: Any) -> dict[str, jax.Array]:
        label = jnp.int32(0)
        start_key, chain_key = jax.random.split(key)
        keys = jax.random.split(start_key, NUM_CHAINS)
        return evaluate.mixing(
            chain_key,
            model.plan.kinds_at(trained.adaptation)[name].sampler,
            model.densities_of(trained)(label),
            jax.vmap(start_fn, (0, None))(keys, label),
            num_steps=num_steps,
        )

    for name in model.plan.kinds:
        say_part(f"mixing of {NUM_CHAINS} chains of {name}, {num_steps:,} steps")
        make = partial(jax.jit, partial(diagnose, name))
        program = model.program(("mixing", name, num_steps), make)
        found = program(key, model.trained, model.plan.start_fn)
        by_sampler[name] = {k: float(value) for k, value in found.items()}
    worst = {
        name: float(worst_of([one[name] for one in by_sampler.values()]))  # NaN if one is
        for name, worst_of in WORST.items()
    }
    return {"mixing": {"by_sampler": by_sampler, **worst}}
