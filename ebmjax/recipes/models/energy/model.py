"""A trained image energy: its energies, its chains, and what evaluators ask of it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._groups import map_groups
from ebmjax._phases import say_part
from ebmjax.evaluate import Chains, finite_images
from ebmjax.learning import ChainPlan, DualAveraging, EnergyNetwork, EnergyOf, NoiseLevels
from ebmjax.optim import averaged_parameters
from ebmjax.recipes.evaluators import chains
from ebmjax.recipes.evaluators.image_model import ImageModel, floats, images_of
from ebmjax.recipes.models.energy.checks import find_samplers
from ebmjax.recipes.parts.samplers import implied_temperature, larger, temperature
from ebmjax.training import TrainState
from ebmjax.types import Key, LogDensityFn, PyTree


class TrainedEnergy(NamedTuple):
    """Parts of a run's state that are used.

    Attributes:
      params: averaged over training.
      adaptation: of the first shard, at the averaged step sizes.
      beta: scalar, of the robust objective; 0 without.
    """

    params: PyTree
    adaptation: dict[str, DualAveraging]
    beta: Any


def extract_trained(state: TrainState, beta: Any) -> TrainedEnergy:
    """Returns the trained model of ``state``."""
    adaptation = chains.average_step_sizes(state.carry.adaptation)
    return TrainedEnergy(averaged_parameters(state.opt_state), adaptation, jnp.float32(beta))


def densities_of(energy_of: EnergyOf) -> chains.DensitiesOf:
    """Returns the densities that chains of a trained model follow, (1 - beta) f."""
    network = EnergyNetwork(energy_of)
    return lambda model: network.densities(model.params, (), 1.0 - model.beta)


def make_fresh_chains(
    densities_of: chains.DensitiesOf,
    plan: ChainPlan,
    *,
    num: int,
    num_steps: int,
    batch_size: int,
    levels: NoiseLevels | None = None,
) -> Callable[[Key, TrainedEnergy], Chains]:
    """Returns chains from the start distribution, of the classes in turn: ``(key, model)``.

    Args:
      densities_of: what chains follow.
      plan: how training draws its negatives. Every sampler moves the same number of chains of a
        group; surplus chains of the last group are dropped.
      num: of chains.
      num_steps: of each chain.
      batch_size: of chains that run at the same time, or by a few more, one for each sampler.
      levels: noise levels that chains are annealed through, from noise; None for plan's samplers.
    """
    num_kinds = len(plan.kinds)
    # Groups of equal size: cutting the last one to num drops no sampler's chains.
    size = -(-num // (-(-num // batch_size) * num_kinds)) * num_kinds
    num_groups = -(-num // size)
    labels = np.arange(num_groups * size, dtype=np.int32) % plan.num_classes
    run = chains.make_fresh_chains(plan, densities_of, num_steps, levels)

    def fresh_chains(key: Key, model: TrainedEnergy) -> Chains:
        starts, ends = run(key, model, labels.reshape(num_groups, size))
        return Chains(starts[:num], ends[:num], labels[:num])

    return fresh_chains


@dataclass(frozen=True, kw_only=True, eq=False)
class EnergyModel(ImageModel):
    """An energy of images, or E(x, y) of images with labels.

    Attributes:
      energy_of: parameters to energy.
      beta_of: function of a state, the share of the energy that chains lack.
      step_factor: chains' steps, in steps of training's.
      levels: of an energy E(x, noise), through which fresh chains are annealed; else None.
    """

    energy_of: EnergyOf
    beta_of: Callable[[TrainState], Any]
    step_factor: float = 1.0
    levels: NoiseLevels | None = None

    def extract_trained(self, state: TrainState) -> TrainedEnergy:
        """Returns the averaged parameters, and ``step_factor`` times the steps that adapted."""
        trained, longer = extract_trained(state, self.beta_of(state)), math.log(self.step_factor)
        steps = trained.adaptation.items()
        adaptation = {k: s._replace(log_step_size=s.log_step_size + longer) for k, s in steps}
        return trained._replace(adaptation=adaptation)

    def apply(self, params: PyTree, images: jax.Array, labels: Any = None) -> jax.Array:
        """Returns energies (N,) of images (N, H, W, C) in [-1, 1].

        Args:
          params: like ``self.params``.
          images: float32.
          labels: (N,), of a conditional energy.
        """
        if labels is None:
            if self.num_classes > 1:
                raise ValueError("labels must be given to a conditional energy, got None.")
            labels = jnp.zeros(len(images), jnp.int32)
        return self.whole_energy(self.trained._replace(params=params))(images, labels)

    def whole_energy(self, trained: TrainedEnergy) -> Callable[..., jax.Array]:
        """Returns the energy of the density that chains follow: the network's and its base's."""
        energy, log_base = self.energy_of(trained.params), self.plan and self.plan.log_base
        if log_base is None:
            return energy
        scale = self.chain_scale(trained)
        return lambda x, labels: energy(x, labels) - log_base(x) / scale

    @property
    def num_classes(self) -> int:
        """Number of classes of a conditional energy, else 1."""
        assert self.plan is not None
        return self.plan.num_classes

    def class_log_densities(self, trained: TrainedEnergy, x: jax.Array) -> jax.Array:
        """Returns the log density (classes,) of one image (H, W, C) in [-1, 1] by its class."""
        return self._by_class(self.whole_energy(trained), x)

    def _by_class(self, energy: Callable[..., jax.Array], x: jax.Array) -> jax.Array:
        return -jax.vmap(lambda label: energy(x, label))(jnp.arange(self.num_classes))

    def chain_scale(self, trained: TrainedEnergy) -> Any:
        """Returns the factor by which chains follow the log density."""
        return 1.0 - trained.beta

    def any_class_density(self, trained: TrainedEnergy) -> LogDensityFn:
        """Returns what chains of no class follow: the sum of the classes' densities."""
        if self.num_classes == 1:
            return self.densities_of(trained)(jnp.int32(0))
        scale, energy = self.chain_scale(trained), self.energy_of(trained.params)
        return lambda x: scale * jax.nn.logsumexp(self._by_class(energy, x))

    def energies(self, images: Any, labels: Any) -> np.ndarray:
        """Returns energies (N,) of uint8 images, or float32 ones in [-1, 1]."""

        def make() -> Any:
            size = self.config.evals.batch_size

            @jax.jit
            def energies(trained: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
                energy, pairs = self.whole_energy(trained), (images, labels)
                return map_groups(lambda pair: energy(*pair), pairs, min(size, len(images)))

            return energies

        images = floats(images) if np.asarray(images).dtype == np.uint8 else jnp.asarray(images)
        program = self.program("energies", make)
        return np.asarray(program(self.trained, images, jnp.asarray(labels)))

    def score(self, images: np.ndarray) -> dict[str, np.ndarray]:
        """Returns "log_density" (N,), up to a constant, of uint8 images.

        A conditional energy also gives "class_probability" (N, classes).
        """
        by_class = [
            -self.energies(images, np.full(len(images), label, np.int32))
            for label in range(self.num_classes)
        ]
        found = np.stack(by_class, axis=1)
        scores = {"log_density": np.asarray(jax.nn.logsumexp(found, axis=1))}
        if self.num_classes > 1:
            scores["class_probability"] = np.asarray(jax.nn.softmax(found, axis=1))
        return scores

    def sample(self, key: Key, num: int, num_steps: int | None = None) -> dict[str, np.ndarray]:
        """Returns ``images_of`` of fresh chains of the run's samplers; "labels" of classes."""
        found = self.fresh_chains(key, num, num_steps or self.num_chain_steps)
        is_finite = np.isfinite(found.ends).all(axis=(1, 2, 3))
        labels = {"labels": np.asarray(found.labels)[is_finite]} if self.num_classes > 1 else {}
        return {**images_of(found), **labels}

    def fresh_chains(self, key: Key, num: int, num_steps: int) -> Chains:
        """Returns ``num`` chains from the start distribution."""

        def make() -> Any:
            assert self.plan is not None
            size = self.config.evals.batch_size
            if self.plan.is_interacting:  # as many particles as in training
                size = self.config.sampler.num_samples
            return make_fresh_chains(
                self.densities_of,
                self.plan,
                num=num,
                num_steps=num_steps,
                batch_size=size,
                levels=self.levels,
            )

        return self.program(("fresh", num, num_steps), make)(key, self.trained)

    def samples(self, key: Key, num: int) -> Chains:
        """Returns samples as training draws them: the buffer's, or without one fresh chains'."""
        chains = self.buffer(key, num)
        steps = self.config.sampler.num_steps
        return self.fresh_chains(key, num, steps) if chains is None else chains

    def sample_row(self, chains: Chains) -> dict[str, float]:
        """Returns the mean energy of samples."""
        return {"sample_energy": float(np.mean(self.energies(chains.ends, chains.labels)))}

    def classes_of(self, chains: Chains) -> Any:
        """Returns the classes of a conditional energy's samples."""
        return chains.labels if self.num_classes > 1 else None

    def draw_sets(self, key: Key, num: int) -> dict[str, Chains]:
        """Returns chains as long as training's, long ones, and the buffer."""
        short_key, long_key, _ = jax.random.split(key, 3)
        for name, one, steps in (
            ("short", short_key, self.config.sampler.num_steps),
            ("fresh", long_key, self.num_chain_steps),
        ):
            say_part(f"{num:,} chains of {steps:,} steps")
            self.known_sets[name] = self.fresh_chains(one, num, steps)
        buffer = self.buffer(key, num)
        if buffer is not None:
            self.known_sets["buffer"] = buffer
        return dict(self.known_sets)

    def about(self) -> dict[str, Any]:
        """Returns the length of long chains, and every sampler's step and temperature.

        A temperature is given as configured, and as its moves imply.
        """
        found = {}
        for name, one in find_samplers(self.config).items():
            sampler = larger(one, self.step_factor)
            adapted = self.trained.adaptation.get(name)
            found[name] = {
                "temperature": temperature(sampler),
                "implied_temperature": implied_temperature(sampler),
                "step_size": sampler.options.get("step_size")
                if adapted is None
                else float(np.exp(adapted.log_step_size)),
            }
        first = found[next(iter(found))]
        levels = {} if self.levels is None else {"noise_levels": self.levels._asdict()}
        return {
            **levels,
            "num_chain_steps": self.num_chain_steps,
            "step_factor": self.step_factor,
            "samplers": found,
            **{name: first[name] for name in ("temperature", "implied_temperature")},
        }

    def score_samples(self, name: str, chains: Chains) -> tuple[dict[str, float], dict[str, Any]]:
        """Returns no further means; finite samples, their starts and log densities."""
        is_finite = np.isfinite(chains.ends).all(axis=(1, 2, 3))
        log_densities = -self.energies(chains.ends, chains.labels)
        return {}, {
            "images": finite_images(chains.ends),
            "start_images": finite_images(chains.starts[is_finite]),
            "log_density": log_densities[is_finite],
        }

    def profile_starts(self, key: Key, num: int) -> tuple[Any, Any]:
        """Returns slots of the buffer, or without one draws of the start distribution."""
        found = super().profile_starts(key, num)
        if found is not None:
            return found
        assert self.plan is not None
        labels = jnp.arange(num, dtype=jnp.int32) % self.num_classes
        keys = jax.random.split(jax.random.fold_in(key, 0), num)
        return jax.vmap(self.plan.start_fn)(keys, labels), labels
