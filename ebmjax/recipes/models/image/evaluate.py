"""The full evaluation of a finished image energy, for evaluation.json."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, evaluate
from ebmjax._phases import say_part
from ebmjax.evaluate import Chains, energy_moments, finite_images
from ebmjax.learning import ChainPlan
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators.over_training import over_training
from ebmjax.recipes.folder.workdir import read_rows
from ebmjax.recipes.models.build import Use
from ebmjax.recipes.models.image import plots
from ebmjax.recipes.models.image.chains import (
    Trained,
    densities_of,
    energies_in_batches,
    make_fresh_chains,
    trained,
    with_larger_steps,
)
from ebmjax.recipes.models.image.checks import chosen
from ebmjax.recipes.models.image.monitor import ImageMonitor
from ebmjax.recipes.models.image.parts import kinds
from ebmjax.recipes.parts.samplers import implied_temperature, larger, temperature
from ebmjax.training import TrainState
from ebmjax.types import Key, PyTree

LONG = 10
"""Default length of a fresh chain, in lengths of a training step's."""
NUM_DIAGNOSED = 16


@dataclass(frozen=True)
class ImageEvaluation:
    """``state -> report``: distances of samples, energies, mixing of long chains.

    Attributes:
      monitor: the run's monitor.
      plan: plan of chains: training's, at ``eval.step_factor`` times the steps.
      config: sections sampler and eval are read.
    """

    monitor: ImageMonitor
    plan: ChainPlan
    config: Config

    def __call__(self, state: TrainState) -> dict[str, Any]:
        """Returns the report, by the averaged parameters and without selecting samples."""
        model = with_larger_steps(trained(state, self._beta), self.config.eval.step_factor)
        short_key, long_key, mixing_key = jax.random.split(self.monitor.key, 3)
        sets, num = {}, self.config.eval.num_generated
        if num:
            sets["short"] = self._chains(short_key, model, self.config.sampler.num_steps)
            sets["fresh"] = self._chains(long_key, model, self.num_chain_steps)
            buffered = self.monitor.buffered(state, num)
            if buffered is not None:
                sets["buffer"] = buffered
        report: dict[str, Any] = {
            "num_chain_steps": self.num_chain_steps,
            "step_factor": self.config.eval.step_factor,
        }
        report["samplers"] = self._samplers(model)
        first = report["samplers"][self.config.sampler.names[0]]
        report |= {name: first[name] for name in ("temperature", "implied_temperature")}
        report["energies"], energies = self._energies(model, sets)
        report["mixing"] = self._mixing(mixing_key, model)
        images = {name: finite_images(chains.ends) for name, chains in sets.items()}
        if sets:
            report["generation"] = self.monitor.distances.generation(sets, self.monitor.test)
            images["starts"] = finite_images(sets["fresh"].starts)
        report["over_training"] = over_training(read_rows(self.monitor.workdir))
        plots.evaluated(self.monitor.workdir, images, energies)
        arrays: dict[str, Any] = dict(images)
        np.savez_compressed(self.monitor.workdir / "evaluation.npz", **arrays)
        return report

    def use(self, state: TrainState) -> Use:
        """Returns the trained energy, ``apply(params, images, labels=None)``.

        Images are float32 (N, H, W, C) in [-1, 1]; labels (N,) belong to a conditional energy.
        Scores are "log_density", up to a constant, and for a conditional energy
        "class_probability" (N, classes). Samples come from fresh chains of the run's samplers.
        """
        model = with_larger_steps(trained(state, self._beta), self.config.eval.step_factor)
        num_classes, energy_of = self.plan.num_classes, self.monitor.energy_of

        def apply(params: PyTree, images: jax.Array, labels: Any = None) -> jax.Array:
            if labels is None:
                if num_classes > 1:
                    raise ValueError("labels must be given to a conditional energy, got None.")
                labels = jnp.zeros(len(images), jnp.int32)
            return energy_of(params)(images, labels)

        def sample(key: Key, num: int, num_steps: int | None = None) -> dict[str, np.ndarray]:
            config = self.config.copy_and_resolve_references()
            config.eval.num_generated = num
            steps = num_steps or self.num_chain_steps
            chains = dataclasses.replace(self, config=config)._chains(key, model, steps)
            is_finite = np.isfinite(chains.ends).all(axis=(1, 2, 3))
            labels = {"labels": np.asarray(chains.labels)[is_finite]} if num_classes > 1 else {}
            return {"images": finite_images(chains.ends), **labels}

        @jax.jit
        def log_densities(model: Trained, images: jax.Array) -> jax.Array:
            energy, size = energy_of(model.params), self.config.eval.batch_size

            def of_class(label: jax.Array) -> jax.Array:
                labels = jnp.full(len(images), label)
                return -energies_in_batches(energy, images, labels, size)

            return jax.lax.map(of_class, jnp.arange(num_classes, dtype=jnp.int32)).T

        def score(images: np.ndarray) -> dict[str, np.ndarray]:
            found = log_densities(model, data.to_signed_unit(jnp.asarray(images)))
            scores = {"log_density": np.asarray(jax.nn.logsumexp(found, axis=1))}
            if num_classes > 1:
                scores["class_probability"] = np.asarray(jax.nn.softmax(found, axis=1))
            return scores

        return Use(model.params, apply, sample, score)

    @property
    def num_chain_steps(self) -> int:
        """Number of steps of each long chain."""
        return self.config.eval.num_chain_steps or LONG * self.config.sampler.num_steps

    def _samplers(self, model: Trained) -> dict[str, Any]:
        """Returns every sampler's temperature, as configured and as implied by its moves."""
        factor = self.config.eval.step_factor
        samplers = {name: larger(one, factor) for name, one in chosen(self.config).items()}
        return {
            name: {
                "temperature": temperature(sampler),
                "implied_temperature": implied_temperature(sampler),
                "step_size": float(np.exp(model.adaptation[name].log_step_size))
                if name in model.adaptation
                else sampler.options.get("step_size"),
            }
            for name, sampler in samplers.items()
        }

    @property
    def _beta(self) -> float:
        """Share of the energy that chains lack at the end of training."""
        loss = self.config.loss
        return loss.beta if loss.name == "beta" else 0.0

    def _chains(self, key: Key, model: Trained, num_steps: int) -> Chains:
        """Runs ``eval.num_generated`` chains from the initial law."""
        say_part(f"{self.config.eval.num_generated:,} chains of {num_steps:,} steps")
        run = make_fresh_chains(
            self.monitor.energy_of,
            self.plan,
            num=self.config.eval.num_generated,
            num_steps=num_steps,
            batch_size=self.config.eval.batch_size,
        )
        return run(key, model)

    def _energies(
        self, model: Trained, sets: Mapping[str, Chains]
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Returns means and standard deviations of finite energies in nats; and the energies."""
        test = self.monitor.test

        @jax.jit
        def energies(model: Trained, images: jax.Array, labels: jax.Array) -> jax.Array:
            energy = self.monitor.energy_of(model.params)
            return energies_in_batches(energy, images, labels, self.config.eval.batch_size)

        say_part(f"energies of {len(test.images):,} test images and of the samples")
        floats = data.to_signed_unit(jnp.asarray(test.images))
        everything = {"test": (floats, test.labels)}
        everything |= {name: (chains.ends, chains.labels) for name, chains in sets.items()}
        found = {name: np.asarray(energies(model, *pair)) for name, pair in everything.items()}
        report: dict[str, Any] = {name: energy_moments(e) for name, e in found.items()}
        if "fresh" in found:
            # A chain that left for an infinite energy has no place in a gap that looks small.
            ends, images = (np.mean(found[name], dtype=np.float64) for name in ("fresh", "test"))
            report["gap"] = float(ends - images)
        return report, found

    def _mixing(self, key: Key, model: Trained) -> dict[str, Any]:
        """Returns the mixing of each sampler's chains over their second half, and the worst.

        It has R-hat over parallel chains from the initial law, for the energy and as a median over
        pixels, and the squared distance that a chain moves, a pixel. A conditional energy uses
        chains of class 0, because classes need not agree.
        """
        by_sampler = {}
        for name in self.config.sampler.names:
            say_part(f"mixing of {NUM_DIAGNOSED} chains of {name}, {self.num_chain_steps:,} steps")
            found = self._diagnose(name)(key, model)
            by_sampler[name] = {k: float(value) for k, value in found.items()}
        return {"by_sampler": by_sampler, **worst(by_sampler)}

    def _diagnose(self, name: str) -> Callable[..., dict[str, jax.Array]]:
        @jax.jit
        def diagnose(key: Key, model: Trained) -> dict[str, jax.Array]:
            label = jnp.int32(0)
            start_key, chain_key = jax.random.split(key)
            keys = jax.random.split(start_key, NUM_DIAGNOSED)
            return evaluate.mixing(
                chain_key,
                self.plan.kinds_at(model.adaptation)[name].sampler,
                densities_of(self.monitor.energy_of)(model)(label),
                jax.vmap(self.plan.law, (0, None))(keys, label),
                num_steps=self.num_chain_steps,
            )

        return diagnose


def make_evaluation(
    monitor: ImageMonitor, config: Config, image_shape: tuple[int, ...]
) -> ImageEvaluation:
    """The full evaluation of ``config``, with chains at ``eval.step_factor`` times the steps."""
    larger_steps = kinds(config, image_shape, config.eval.step_factor)
    plan = dataclasses.replace(monitor.plan, kinds=larger_steps)
    return ImageEvaluation(monitor=monitor, plan=plan, config=config)


def worst(by_sampler: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Returns the worst mixing over samplers; NaN if one of them has no number."""

    def of(name: str) -> list[float]:
        return [found[name] for found in by_sampler.values()]

    return {
        "rhat_energy": float(np.max(of("rhat_energy"))),
        "rhat_pixel": float(np.max(of("rhat_pixel"))),
        "acceptance": float(np.min(of("acceptance"))),
    }
