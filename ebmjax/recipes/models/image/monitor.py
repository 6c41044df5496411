"""Measures and pictures an image energy while it trains."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax.evaluate import Chains, rms_displacement
from ebmjax.learning import ChainPlan, EnergyOf, step_size
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators.buffers import buffered
from ebmjax.recipes.evaluators.chain_profiles import KEY_NUMBER
from ebmjax.recipes.evaluators.chains import make_profile
from ebmjax.recipes.evaluators.distances import Distances
from ebmjax.recipes.evaluators.pictures import samples_beside_starts, shown
from ebmjax.recipes.folder.workdir import save_snapshot
from ebmjax.recipes.models.image.chains import (
    Trained,
    densities_of,
    energies_in_batches,
    make_fresh_chains,
    trained,
)
from ebmjax.recipes.models.image.checks import chosen
from ebmjax.recipes.parts.samplers import temperature
from ebmjax.recipes.parts.samplers.literal_mala import log_proposal_ratio
from ebmjax.samplers import clip_score, sgld_init
from ebmjax.training import TrainState
from ebmjax.types import Key, LogDensityFn

NUM_WEIGHED = 100
"""Samples whose next move is weighed by every accept ratio."""


@dataclass(frozen=True)
class ImageMonitor:
    """Energies of test images and chains, and accept ratios of a Langevin move.

    Attributes:
      workdir: gets ``monitor/<step>.npz`` and ``plots/samples_<step>.png``.
      key: used at every monitored step.
      energy_of: the model.
      plan: plan of training's negatives.
      test: the test images.
      distances: distances of samples from the data.
      beta_fn: training's beta at a step; its chains follow ``class_densities``.
      config: sections sampler and eval are read.
    """

    workdir: Path
    key: Key
    energy_of: EnergyOf
    plan: ChainPlan
    test: data.ImageData
    distances: Distances
    beta_fn: Callable[[jax.Array], Any]
    config: Config

    def __call__(self, state: TrainState, step: int) -> dict[str, Any]:
        """Returns the row of ``step``; saves its arrays and pictures."""
        model = trained(state, self.beta_fn(state.shards.step[0]))
        pictures = self._profiled(state, model)
        num = self.config.eval.num_samples
        chains = self.buffered(state, num) if num else None
        if num and chains is None:
            chains = self._fresh_chains(self.key, model)
        row = jax.device_get(self._test_energy(model))
        if chains is not None:
            ends, labels = jnp.asarray(chains.ends), jnp.asarray(chains.labels)
            row |= jax.device_get(self._report(self.key, model, ends, labels))
            row |= self.distances.along_training(chains)
            if chains.are_the_same:
                row["sample_rms_displacement"] = rms_displacement(chains.starts, chains.ends)
            pictures |= {"samples": shown(chains.ends)}
            samples_beside_starts(
                self.workdir, step, pictures["samples"], shown(chains.starts), row
            )
        save_snapshot(self.workdir, step, pictures)
        return {name: np.asarray(value).tolist() for name, value in row.items()}

    def buffered(self, state: TrainState, num: int) -> Chains | None:
        """Returns ``num`` slots of the buffer and draws of its law; None without a buffer."""
        return buffered(self.key, self.plan, state, num)

    @cached_property
    def _fresh_chains(self) -> Callable[..., Chains]:
        """Chains as training draws them without a buffer."""
        return make_fresh_chains(
            self.energy_of,
            self.plan,
            num=self.config.eval.num_samples,
            num_steps=self.config.sampler.num_steps,
            batch_size=self.config.eval.batch_size,
        )

    def _profiled(self, state: TrainState, model: Trained) -> dict[str, np.ndarray]:
        """Returns the profile of ``eval.num_profiled`` chains that start as training's do."""
        num = self.config.eval.num_profiled
        if not num:
            return {}
        chains = self.buffered(state, num)
        if chains is not None:
            return self._profile(model, chains.ends, chains.labels)
        labels = jnp.arange(num, dtype=jnp.int32) % self.plan.num_classes
        start_keys = jax.random.split(jax.random.fold_in(self._profile_key, 0), num)
        return self._profile(model, jax.vmap(self.plan.law)(start_keys, labels), labels)

    @property
    def _profile_key(self) -> Key:
        return jax.random.fold_in(self.key, KEY_NUMBER)

    @cached_property
    def _profile(self) -> Callable[..., dict[str, np.ndarray]]:
        return make_profile(self._profile_key, self.plan, densities_of(self.energy_of))

    @cached_property
    def _report(self) -> Callable[..., Any]:
        name = self.config.sampler.names[0]
        sampler = chosen(self.config)[name]

        def report(key: Key, model: Trained, samples: Any, labels: Any) -> dict[str, jax.Array]:
            energy, size = self.energy_of(model.params), self.config.eval.batch_size
            row = {"sample_energy": jnp.mean(energies_in_batches(energy, samples, labels, size))}
            if sampler.part is not None:  # a user's sampler makes no Langevin move that is known
                return row
            size_of_step = jnp.float32(sampler.options["step_size"])
            if name in model.adaptation:
                size_of_step = step_size(model.adaptation[name])
            noise_scale = sampler.options.get("noise_scale")
            if noise_scale is None:
                noise_scale = jnp.sqrt(2.0 * size_of_step * (temperature(sampler) or 0.0))
            first = (samples[:NUM_WEIGHED], labels[:NUM_WEIGHED])
            return {
                **row,
                **anatomy(key, self._densities(model), *first, size_of_step, noise_scale),
            }

        return jax.jit(report)

    @cached_property
    def _test_energy(self) -> Callable[..., dict[str, jax.Array]]:
        def test_energy(model: Trained) -> dict[str, jax.Array]:
            images = data.to_signed_unit(jnp.asarray(self.test.images))
            labels, size = jnp.asarray(self.test.labels), self.config.eval.batch_size
            energy = self.energy_of(model.params)
            return {"test_energy": jnp.mean(energies_in_batches(energy, images, labels, size))}

        return jax.jit(test_energy)

    def _densities(self, model: Trained) -> Callable[[jax.Array], LogDensityFn]:
        """Returns the class densities of training's chains, with clipped scores if theirs are."""
        max_score, densities = self.config.sampler.max_score, densities_of(self.energy_of)(model)
        if max_score is None:
            return densities
        return lambda label: clip_score(densities(label), max_score)


def anatomy(
    key: Key,
    density: Callable[[jax.Array], LogDensityFn],
    starts: Any,
    labels: Any,
    step_size: Any,
    noise_scale: Any,
) -> dict[str, jax.Array]:
    """Weighs one Langevin move from each start by every accept ratio; rejects none.

    Args:
      key: split among the starts.
      density: ``density(label) -> log_density_fn`` that chains follow. If it clips scores
        (``ebmjax.samplers.clip_score``), both drifts are clipped; log densities are not.
      starts: (n, ...).
      labels: (n,) int32.
      step_size: step size of the move.
      noise_scale: standard deviation of the move's noise.

    Returns:
      Means over the starts. "acceptance_literal" is the thesis's, with energies and noise of
      variance 2 step. "acceptance_energies" has only its first error and "acceptance_twice_step"
      only its second, at temperature 1. "acceptance_decoupled" is correct at temperature 1.
      "acceptance_implied" is correct at ``noise_scale^2 / (2 step_size)``; its log ratio is
      "log_ratio_energy" plus "log_ratio_proposal". "squared_drift_to_noise" is the squared drift
      over the squared noise, a pixel. "score_change" is the distance of both scores over the
      first's norm, 0 on a straight slope.
    """
    implied = jnp.square(noise_scale) / (2.0 * step_size)

    def one(key: Key, x: jax.Array, label: jax.Array) -> dict[str, jax.Array]:
        before = sgld_init(x, density(label))
        noise = noise_scale * jax.random.normal(key, x.shape)
        after = sgld_init(x + step_size * before.score + noise, density(label))
        rise = after.log_density - before.log_density
        quotient = jnp.log(jnp.maximum(after.log_density / before.log_density, 0.0))
        wide, true = (
            log_proposal_ratio(step_size, noise, before, after, variance)
            for variance in (2.0 * step_size, jnp.square(noise_scale))
        )
        logarithms = {
            "literal": quotient + wide,
            "energies": quotient + true,
            "twice_step": rise + wide,
            "decoupled": rise + true,
            "implied": rise / implied + true,
        }
        norm = jnp.linalg.norm(jnp.ravel(before.score))
        return {
            **{f"acceptance_{k}": jnp.exp(jnp.minimum(v, 0.0)) for k, v in logarithms.items()},
            "log_ratio_energy": rise / implied,
            "log_ratio_proposal": true,
            "squared_drift_to_noise": jnp.square(step_size * norm / noise_scale) / x.size,
            "score_change": jnp.linalg.norm(jnp.ravel(after.score - before.score)) / norm,
        }

    found = jax.vmap(one)(jax.random.split(key, len(starts)), starts, labels)
    return {name: jnp.mean(values) for name, values in found.items()}
