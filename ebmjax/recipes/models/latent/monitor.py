"""Measures and pictures a latent EBM while it trains."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, latent
from ebmjax._stored import take_rows
from ebmjax.evaluate import Chains, rms_displacement
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators.distances import RunDistances
from ebmjax.recipes.evaluators.evaluator import is_due
from ebmjax.recipes.evaluators.samples import draw_beside_starts, take_first
from ebmjax.recipes.evaluators.table import NEVER
from ebmjax.recipes.folder.workdir import save_snapshot
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.latent import gradient_variance as latent_variance
from ebmjax.recipes.models.latent.parts import Examples, params_of_repeats
from ebmjax.training import TrainState, tree_digest

PARTS = ("reconstruction", "evidence", "gradient_variance", "samples")
"""Evaluators of a latent EBM while it trains."""


class Programs(NamedTuple):
    """Programs of a monitor, compiled one by one.

    A run that differs from another only in its gradient then finds the rest in the compile cache.
    """

    sample: Callable[..., Any]
    reconstructions: Callable[..., Any]
    evidence: Callable[..., Any]
    gradient: Callable[..., Any]
    gradient_variance: Callable[..., Any]


class PriorSamples(NamedTuple):
    """N samples of fresh prior chains, and the chains' starts.

    Attributes:
      images: (N, H, W, C) in [-1, 1], from the chains' ends.
      start_images: (N, H, W, C) in [-1, 1], from the chains' starts.
      latents: (N, d), the chains' ends.
      start_latents: (N, d), their starts, draws of N(0, base_scale^2 I).
    """

    images: Any
    start_images: Any
    latents: Any
    start_latents: Any


@dataclass(frozen=True)
class LatentMonitor:
    """Measures samples, reconstructions, log evidence and gradient variance of a state.

    Each repeat uses the same key at every step, so successive pictures start from the same noise.
    Gradients are measured with fresh chains, also where training's persist.

    Attributes:
      workdir: gets ``monitor/<step>.npz`` and ``plots/samples_<step>.png``.
      model: the latent EBM.
      chains: samplers and lengths.
      powers: the schedule, (num_powers,), from 0 to 1.
      gradient_fn: training's gradient function.
      train: the training data, with the indices of its examples.
      test: uint8 images (num_test, H, W, C) to reconstruct.
      distances: distances of samples from the training images.
      interval: steps between two evaluations of training.
      config: sections loss, eval and train are read.
    """

    workdir: Path
    model: latent.LatentModel
    chains: latent.LatentChains
    powers: jax.Array
    gradient_fn: Callable[..., Any]
    train: Examples
    test: np.ndarray
    distances: RunDistances
    interval: int
    config: Config

    def __call__(self, state: TrainState, step: int) -> dict[str, Any]:
        """Returns the row of ``step``; saves its arrays and pictures."""
        row, pictures = self.measure(state, step)
        starts = pictures.pop("starts", None)
        save_snapshot(self.workdir, step, pictures)
        row = {name: value.tolist() for name, value in row.items()}
        if starts is not None:
            is_of_repeats = starts.ndim == 5  # the first is shown, the scores are means
            ends, starts = (x[0] if is_of_repeats else x for x in (pictures["samples"], starts))
            draw_beside_starts(self.workdir, step, {"samples": ends, "starts": starts}, row)
        return row

    def measure(
        self, state: TrainState, step: int | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns numbers and pictures; several repeats are a leading axis.

        The last result is kept for the full evaluation after training.

        Args:
          state: of training.
          step: whose evaluators run; None: all of them.
        """
        params = params_of_repeats(state)
        names = [name for name in PARTS if self._runs(name, step)]
        digest = tree_digest(params), *names
        if digest not in self._last:
            repeats = [
                self._measure_one(common.root_keys(self.config, repeat)[2], one, names)
                for repeat, one in enumerate(params)
            ]
            parts = zip(*repeats, strict=True)
            self._last.clear()
            self._last[digest] = tuple(common.stack_arrays(part) for part in parts)
        rows, pictures = self._last[digest]
        return dict(rows), dict(pictures)

    @cached_property
    def _last(self) -> dict[Any, Any]:
        """Rows and pictures of the parameters measured last, by their digest."""
        return {}

    @cached_property
    def programs(self) -> Programs:
        """The programs, jitted."""
        return Programs(
            sample=jax.jit(self._sample, static_argnums=2),
            reconstructions=jax.jit(self._reconstructions),
            evidence=jax.jit(self._evidence),
            gradient=jax.jit(self.gradient_fn),
            gradient_variance=jax.jit(latent_variance.over_batches),
        )

    def _measure_one(
        self, key: jax.Array, params: latent.LatentParams, names: Sequence[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        sample_key, power_key, evidence_key, gradient_key = jax.random.split(key, 4)
        row: dict[str, Any] = {}
        pictures: dict[str, Any] = {}
        if "reconstruction" in names:
            row, images = self.programs.reconstructions(power_key, params)
            pictures = self._of_reconstructions(images)
        if "evidence" in names:
            row |= self.programs.evidence(evidence_key, params)
        if "gradient_variance" in names:
            row |= self.programs.gradient_variance(self._gradients(gradient_key, params))
        if "samples" in names:
            sampled = self.programs.sample(sample_key, params, self.config.eval.samples.num_images)
            scores, samples = self._of_samples(jax.device_get(sampled))
            row, pictures = row | scores, pictures | samples
        return jax.device_get((row, pictures))

    def _runs(self, name: str, step: int | None) -> bool:
        every = self.config.eval[name].every
        return is_due(every, step, self.interval) if step is not None else every != NEVER

    def _of_reconstructions(self, images: jax.Array) -> dict[str, Any]:
        """Returns the first reconstructions and originals, and the squared errors of all."""
        observations = data.to_signed_unit(jnp.asarray(self.test))
        found: dict[str, Any] = {"reconstructions": take_first(images)}
        found["squared_errors"] = jnp.mean(  # whose mean is the row's reconstruction error
            jnp.square(images - observations), axis=tuple(range(1, observations.ndim))
        )
        return found | {"originals": self.test[: len(found["reconstructions"])]}

    def _of_samples(self, found: PriorSamples) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Returns scores of samples and of their starts, and the first of both."""
        is_finite = np.isfinite(found.images).all(axis=(1, 2, 3))
        ends, starts = found.latents[is_finite], found.start_latents[is_finite]
        row = {
            "num_diverged_samples": np.sum(~is_finite),
            **self.distances.along_training(Chains(found.start_images, found.images)),
            "sample_rms_displacement": rms_displacement(starts, ends),
        }
        return row, {"samples": take_first(found.images), "starts": take_first(found.start_images)}

    def _generate(self, params: latent.LatentParams, latents: jax.Array) -> jax.Array:
        return jax.vmap(lambda z: self.model.generator_fn(params.generator, z))(latents)

    def _sample(
        self, key: jax.Array, params: latent.LatentParams, num_samples: int
    ) -> PriorSamples:
        """Samples from fresh prior chains, the same as ``_prior`` with this key."""
        shape = (num_samples, self.chains.latent_dim)
        starts = self.model.base_scale * jax.random.normal(jax.random.split(key)[0], shape)
        ends = self._prior(key, params, num_samples, starts)
        images = jax.lax.map(
            lambda z: self.model.generator_fn(params.generator, z),
            jnp.concatenate([ends, starts]),
            batch_size=min(self.config.eval.batch_size, 2 * num_samples),
        )
        return PriorSamples(images[:num_samples], images[num_samples:], ends, starts)

    def _prior(
        self,
        key: jax.Array,
        params: latent.LatentParams,
        num_chains: int,
        start: jax.Array | None = None,
    ) -> jax.Array:
        latents, _ = latent.sample_prior(
            key,
            params,
            self.model,
            num_chains,
            self.chains.latent_dim,
            sampler=self.chains.prior_sampler,
            num_steps=self.chains.prior_steps,
            start=start,
        )
        return latents

    def _ladder(
        self, key: jax.Array, params: latent.LatentParams, observations: jax.Array
    ) -> jax.Array:
        """Returns a chain for every power and observation, (num_powers, batch, d); prior first."""
        samples, _ = latent.sample_ladder(
            key, params, self.model, observations, self.powers, self.chains
        )
        return samples.power_latents

    def _reconstructions(
        self, key: jax.Array, params: latent.LatentParams
    ) -> tuple[dict[str, jax.Array], jax.Array]:
        """Returns E_t and errors on all test images, and their reconstructions."""
        observations = data.to_signed_unit(jnp.asarray(self.test))
        nodes = self._ladder(key, params, observations)
        _, along = latent.telescoped_loss(
            params, self.model, observations, nodes, nodes[0], self.powers
        )
        row = {
            "test_reconstruction_error": along["reconstruction_error"],
            "test_mean_log_likelihoods": along["mean_log_likelihoods"],
        }
        return row, self._generate(params, nodes[-1])

    def _evidence(self, key: jax.Array, params: latent.LatentParams) -> dict[str, jax.Array]:
        """Returns the log evidence a test image, each with separate chains and Gaussians.

        The correction has weight 1 and full covariances, whatever the objective does, so that runs
        are comparable.
        """
        images = jnp.asarray(self.test[: self.config.eval.evidence.num_images])
        rows = self.evidence_of_each(key, params, images)
        return {name: values.mean() for name, values in rows.items()}

    def evidence_of_each(
        self, key: jax.Array, params: latent.LatentParams, images: jax.Array
    ) -> dict[str, jax.Array]:
        """Returns the numbers of ``_evidence`` for each of the uint8 images (N, H, W, C)."""
        section, floats = self.config.eval.evidence, data.to_signed_unit(images)

        def one(pair: tuple[jax.Array, jax.Array]) -> dict[str, jax.Array]:
            key, x = pair
            observations = jnp.repeat(x[None], section.num_chains, axis=0)
            nodes = self._ladder(key, params, observations)
            of_chain = jax.vmap(lambda z: latent.log_likelihood(params, self.model, z, x))
            energies = jax.vmap(of_chain)(nodes).mean(axis=1)
            row = {"test_trapezium_log_evidence": latent.log_evidence(energies, self.powers)}
            if not section.divergences:
                return row
            forward, backward = latent.fitted_divergences(nodes)
            corrected = latent.log_evidence(
                energies, self.powers, kl_forward=forward, kl_backward=backward
            )
            # Error of the trapezium rule on this schedule.
            discrepancy = 0.5 * jnp.sum(forward - backward)
            return row | {"test_log_evidence": corrected, "quadrature_discrepancy": discrepancy}

        return jax.lax.map(one, (jax.random.split(key, len(images)), floats))

    def _gradients(self, key: jax.Array, params: latent.LatentParams) -> list[Any]:
        """Returns gradients over independent minibatches and chains of training's size."""
        num_examples, batch_size = len(self.train.index), self.config.train.batch_size

        def one(key: jax.Array) -> Any:
            index_key, chain_key = jax.random.split(key)
            index = jax.random.choice(index_key, num_examples, (batch_size,), replace=False)
            return self.programs.gradient(chain_key, params, (), self.batch(np.asarray(index)))[0]

        num = self.config.eval.gradient_variance.num_gradients
        return [one(key) for key in jax.random.split(key, num)]

    def batch(self, index: np.ndarray) -> Examples:
        """Returns the training examples of ``index``."""
        return jax.tree.map(lambda leaf: take_rows(leaf, index), self.train)
