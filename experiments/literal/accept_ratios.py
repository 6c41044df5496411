"""Weighs a Langevin move by the sampling-approaches thesis's accept ratio and by the right one.

For image energies: --config.evals.functions='("literal/accept_ratios.py:accept_ratios",)'.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax.recipes.config.files import project
from ebmjax.recipes.evaluators.samples import draw_samples
from ebmjax.recipes.models.energy.checks import find_samplers
from ebmjax.recipes.parts.samplers import temperature
from ebmjax.samplers import clip_score, sgld_init
from ebmjax.types import Key, LogDensityFn

log_proposal_ratio = project("literal.mala").log_proposal_ratio


def accept_ratios(key: Key, model: Any, data: Any, *, num: int = 100) -> dict[str, Any]:
    """Returns ``weigh_move`` of the run's first sampler, from ``num`` samples of training.

    ``model`` is an ``models.energy.model.EnergyModel``; test ``data`` are not used.
    """
    (name, sampler), *_ = find_samplers(model.config).items()
    max_score, chains = model.config.sampler.get("max_score"), draw_samples(key, model, num)

    def make() -> Any:
        @jax.jit
        def weigh(trained: Any, key: Key, starts: jax.Array, labels: jax.Array) -> Any:
            size = jnp.float32(sampler.options["step_size"])
            if name in trained.adaptation:
                size = jnp.exp(trained.adaptation[name].log_step_size)
            noise_scale = sampler.options.get("noise_scale")
            if noise_scale is None:
                noise_scale = jnp.sqrt(2.0 * size * (temperature(sampler) or 0.0))
            densities = model.densities_of(trained)
            clipped = lambda label: clip_score(densities(label), max_score)  # noqa: E731
            density = densities if max_score is None else clipped
            return weigh_move(key, density, starts, labels, size, noise_scale)

        return weigh

    weigh = model.program("accept ratios", make)
    return weigh(model.trained, key, jnp.asarray(chains.ends), jnp.asarray(chains.labels))


def weigh_move(
    key: Key,
    density: Callable[[jax.Array], LogDensityFn],
    starts: Any,
    labels: Any,
    step_size: Any,
    noise_scale: Any,
) -> dict[str, jax.Array]:
    """Weighs one Langevin move from each start by both accept ratios; rejects none.

    ``density(label)`` is the log density that chains follow. If it clips scores, both drifts are
    clipped; log densities are not.

    Returns:
      Means over the starts. "acceptance_literal" is the thesis's, with energies and noise of
      variance 2 step; "acceptance_implied" is right at ``noise_scale^2 / (2 step_size)``.
      "score_change" is the distance of both scores over the first's norm, 0 on a straight slope.
    """
    implied = jnp.square(noise_scale) / (2.0 * step_size)

    def one(key: Key, x: jax.Array, label: jax.Array) -> dict[str, jax.Array]:
        before = sgld_init(x, density(label))
        noise = noise_scale * jax.random.normal(key, x.shape)
        after = sgld_init(x + step_size * before.score + noise, density(label))
        quotient = jnp.log(jnp.maximum(after.log_density / before.log_density, 0.0))
        rise = (after.log_density - before.log_density) / implied
        wide, true = (
            log_proposal_ratio(step_size, noise, before, after, variance)
            for variance in (2.0 * step_size, jnp.square(noise_scale))
        )
        change = jnp.linalg.norm(jnp.ravel(after.score - before.score))
        return {
            "acceptance_literal": jnp.exp(jnp.minimum(quotient + wide, 0.0)),
            "acceptance_implied": jnp.exp(jnp.minimum(rise + true, 0.0)),
            "score_change": change / jnp.linalg.norm(jnp.ravel(before.score)),
        }

    found = jax.vmap(one)(jax.random.split(key, len(starts)), starts, labels)
    return {name: jnp.mean(values) for name, values in found.items()}
