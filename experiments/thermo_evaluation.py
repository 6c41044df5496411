"""What is measured and pictured of a latent EBM while it trains."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, latent, metrics
from ebmjax.training import TrainState
from experiments.config import Config
from experiments.plots import image_grid


@dataclass(frozen=True)
class ThermoEvaluation:
    """Samples, reconstructions, log evidence and gradient variance of a state.

    The same key every time: pictures of successive evaluations start from the same noise.

    Attributes:
      workdir: gets ``evaluations/<step>.npz`` and ``plots/samples_<step>.png``.
      key: of all evaluations.
      model: the latent EBM.
      chains: samplers and lengths, as ``make_latent_gradient_fn`` takes them.
      powers: the schedule, (num_powers,), from 0 to 1.
      gradient_fn: the one that trains.
      train: the training data.
      test: uint8 images (num_test, H, W, C) to reconstruct.
      config: sections loss, eval and train are read.
    """

    workdir: Path
    key: jax.Array
    model: latent.LatentModel
    chains: dict[str, Any]
    powers: jax.Array
    gradient_fn: Callable[..., Any]
    train: data.ImageData
    test: np.ndarray
    config: Config

    def __call__(self, state: TrainState, step: int) -> dict[str, Any]:
        """The row of this evaluation; its pictures go to the run's folder."""
        report, pictures = jax.device_get(self._report(state.params))
        pictures["originals"] = self.test[: len(pictures["reconstructions"])]
        for folder in ("evaluations", "plots"):
            (self.workdir / folder).mkdir(exist_ok=True)
        np.savez_compressed(self.workdir / "evaluations" / f"{step:06d}.npz", **pictures)
        image_grid(self.workdir / "plots" / f"samples_{step:06d}.png", pictures["samples"])
        return {name: np.asarray(value).tolist() for name, value in report.items()}

    @cached_property
    def _report(self) -> Callable[..., Any]:
        def report(params: latent.LatentParams) -> tuple[dict[str, Any], dict[str, Any]]:
            sample_key, power_key, gradient_key = jax.random.split(self.key, 3)
            samples = self._samples(sample_key, params)
            row, reconstructions = self._thermodynamics(power_key, params)
            row |= self._gradient_variance(gradient_key, params)
            num_shown = self.config.eval.num_samples
            pictures = {"samples": samples, "reconstructions": reconstructions[:num_shown]}
            return row, {name: data.from_signed_unit(x) for name, x in pictures.items()}

        return jax.jit(report)

    def _generate(self, params: latent.LatentParams, latents: jax.Array) -> jax.Array:
        return jax.vmap(lambda z: self.model.generator_fn(params.generator, z))(latents)

    def _prior(self, key: jax.Array, params: latent.LatentParams, num_chains: int) -> jax.Array:
        latents, _ = latent.sample_prior(
            key,
            self.model,
            params,
            num_chains,
            self.chains["latent_dim"],
            sampler=self.chains["prior_sampler"],
            num_steps=self.chains["prior_steps"],
        )
        return latents

    def _samples(self, key: jax.Array, params: latent.LatentParams) -> jax.Array:
        return self._generate(params, self._prior(key, params, self.config.eval.num_samples))

    def _thermodynamics(
        self, key: jax.Array, params: latent.LatentParams
    ) -> tuple[dict[str, jax.Array], jax.Array]:
        """E_t and log evidence on the test images, and their reconstructions."""
        observations = data.to_signed_unit(jnp.asarray(self.test))
        prior_key, power_key = jax.random.split(key)
        latents, _ = latent.sample_power_posteriors(
            power_key,
            self.model,
            params,
            observations,
            self.powers[1:],
            self.chains["latent_dim"],
            sampler=self.chains["posterior_sampler"],
            num_steps=self.chains["posterior_steps"],
            warm_start=self.chains["warm_start"],
        )
        nodes = jnp.concatenate([self._prior(prior_key, params, len(self.test))[None], latents])
        _, along = latent.telescoped_loss(
            params, self.model, observations, nodes, nodes[0], self.powers
        )
        energies = along["mean_log_likelihoods"]
        mean, covariance = latent.gaussian_moments(nodes, covariance=self.config.loss.kl_covariance)
        forward = latent.gaussian_kl(mean[:-1], covariance[:-1], mean[1:], covariance[1:])
        backward = latent.gaussian_kl(mean[1:], covariance[1:], mean[:-1], covariance[:-1])
        row = {
            "test_reconstruction_error": along["reconstruction_error"],
            "test_mean_log_likelihoods": energies,
            "test_trapezium_log_evidence": latent.log_evidence(energies, self.powers),
            "test_log_evidence": latent.log_evidence(
                energies,
                self.powers,
                kl_forward=forward,
                kl_backward=backward,
                kl_weight=self.config.loss.kl_weight,
            ),
        }
        return row, self._generate(params, nodes[-1])

    def _gradient_variance(
        self, key: jax.Array, params: latent.LatentParams
    ) -> dict[str, jax.Array]:
        """Over independent minibatches and chains, each of the size that trains."""
        num_examples, batch_size = len(self.train.images), self.config.train.batch_size

        def one(key: jax.Array) -> Any:
            index_key, chain_key = jax.random.split(key)
            index = jax.random.choice(index_key, num_examples, (batch_size,), replace=False)
            batch = jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], self.train)
            return self.gradient_fn(chain_key, params, (), batch)[0]

        keys = jax.random.split(key, self.config.eval.num_gradients)
        measured = metrics.gradient_variance(jax.lax.map(one, keys))
        return {
            "gradient_variance": measured.variance,
            "gradient_mean_norm": measured.mean_norm,
            "gradient_signal_to_noise": measured.signal_to_noise,
        }
