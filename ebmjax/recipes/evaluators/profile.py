"""Profiles of training's chains, step by step."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax import data
from ebmjax.learning import profile_chains
from ebmjax.recipes.evaluators import chain_profiles
from ebmjax.recipes.evaluators.evaluator import Evaluator, Found
from ebmjax.types import Key, Metrics


@dataclass(frozen=True)
class Profile(Evaluator):
    """Acceptance, displacement and more at every step of some chains, which start as training's do.

    It uses ``model.profile_starts``, ``model.plan`` and ``model.densities_of``.

    Attributes:
      num_chains: chains; interacting particles come in training's number.
    """

    num_chains: int = 64
    at_end = False

    def __call__(self, model: Any, test: data.ImageData, key: Key) -> Found:
        """Returns arrays by the names of ``chain_profiles``, for ``plots/chains.png``."""
        key = jax.random.fold_in(key, chain_profiles.KEY_NUMBER)
        begun = None if model.plan is None else model.profile_starts(key, self.num_chains)
        if begun is None:
            return Found({}, {})
        starts, labels = map(jnp.asarray, begun)

        def make() -> Any:
            @jax.jit
            def profile(trained: Any, key: Key, starts: Any, labels: Any) -> dict[str, Metrics]:
                kinds = model.plan.single(model.plan.num_samples).kinds_at(trained.adaptation)
                densities = model.densities_of(trained)
                return {
                    name: profile_chains(key, densities, kind, starts, labels)
                    for name, kind in kinds.items()
                }

            return profile

        found = model.program(self, make)(model.trained, key, starts, labels)
        arrays: dict[str, Any] = {}
        for name, numbers in found.items():
            arrays |= chain_profiles.named(name, numbers)
        return Found({}, {}, arrays)
