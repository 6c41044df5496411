"""Mixing of long parallel chains of each sampler."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, evaluate
from ebmjax._phases import say_part
from ebmjax.recipes.evaluators.evaluator import Evaluator, Found
from ebmjax.types import Key

NUM_CHAINS = 16


@dataclass(frozen=True)
class Mixing(Evaluator):
    """R-hat, acceptance and displacement over the second half of parallel chains.

    Chains begin at the start distribution. R-hat is that of the energy, and a median over pixels;
    the squared distance that a chain moves is per pixel. A model of classes uses chains of class 0,
    because classes need not agree. It uses ``model.plan`` and ``model.densities_of``.
    """

    def __call__(self, model: Any, test: data.ImageData, key: Key) -> Found:
        """Returns "mixing": the numbers of each sampler, and the worst of them."""
        key, by_sampler = jax.random.split(key, 3)[2], {}
        steps = model.num_chain_steps
        for name in model.plan.kinds:
            say_part(f"mixing of {NUM_CHAINS} chains of {name}, {steps:,} steps")
            found = self._diagnose(model, name)(key, model.trained)
            by_sampler[name] = {k: float(value) for k, value in found.items()}
        return Found({"mixing": {"by_sampler": by_sampler, **find_worst(by_sampler)}})

    def _diagnose(self, model: Any, name: str) -> Any:
        def diagnose(key: Key, trained: Any) -> dict[str, jax.Array]:
            label = jnp.int32(0)
            start_key, chain_key = jax.random.split(key)
            keys = jax.random.split(start_key, NUM_CHAINS)
            return evaluate.mixing(
                chain_key,
                model.plan.kinds_at(trained.adaptation)[name].sampler,
                model.densities_of(trained)(label),
                jax.vmap(model.plan.start_fn, (0, None))(keys, label),
                num_steps=model.num_chain_steps,
            )

        return model.program((self, name, model.num_chain_steps), lambda: jax.jit(diagnose))


def find_worst(by_sampler: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Returns the worst mixing over samplers; NaN if one of them has no number."""
    worst = {"rhat_energy": np.max, "rhat_pixel": np.max, "acceptance": np.min}
    return {
        name: float(worst_of([found[name] for found in by_sampler.values()]))
        for name, worst_of in worst.items()
    }
