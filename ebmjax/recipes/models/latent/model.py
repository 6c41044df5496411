"""A trained latent EBM: its chains, its images, and what evaluators ask of it."""

import timeit
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import latent, metrics
from ebmjax._groups import map_groups
from ebmjax._phases import say_part
from ebmjax._stored import take_rows
from ebmjax.evaluate import Chains
from ebmjax.recipes.evaluators.evidence import evidence_of_each, keys_of
from ebmjax.recipes.evaluators.inpainting import Given
from ebmjax.recipes.models.build import ImageModel, root_keys
from ebmjax.recipes.models.latent.parts import Examples
from ebmjax.types import Key

LONG = 50
"""Length of a chain on the posterior of given pixels, in lengths of training's, which are short."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LatentEBM(ImageModel):
    """A latent EBM.

    Gradients are measured with fresh chains, also where training's persist.

    Attributes:
      networks: energy of the prior and generator.
      chains: samplers and lengths.
      powers: the schedule, (num_powers,), from 0 to 1.
      gradient_fn: training's gradient function.
      examples: the training data, with their indices.
    """

    networks: latent.LatentModel
    chains: latent.LatentChains
    powers: jax.Array
    gradient_fn: Callable[..., Any]
    examples: Examples

    def apply(self, params: latent.LatentParams, latents: jax.Array) -> jax.Array:
        """Returns images float32 (N, H, W, C) in [-1, 1] of latents (N, d)."""
        return jax.vmap(partial(self.networks.generator_fn, params.generator))(latents)

    def sample(self, key: Key, num: int, num_steps: int | None = None) -> dict[str, np.ndarray]:
        """Returns ``Chains.images`` of fresh chains of the prior."""
        return self.fresh_chains(key, num, num_steps).images()

    def score(self, images: np.ndarray) -> dict[str, np.ndarray]:
        """Returns "log_evidence" (N,) of uint8 images in nats, estimated as the run monitors it."""
        key, num_chains = root_keys(self.config.seed)[2], self.config.evals.evidence.num_chains
        found = evidence_of_each(key, self, images, num_chains=num_chains)
        trapezium = found["test_trapezium_log_evidence"]
        return {"log_evidence": found.get("test_log_evidence", trapezium)}

    def about(self) -> dict[str, Any]:
        """Returns the powers, and the cost of one learning gradient and of all, chains included.

        The time is the median of five calls after compilation.
        """
        say_part("timing a step")
        key = keys_of(root_keys(self.config.seed)[2])["cost"]
        batch = self.batch(np.arange(self.config.train.batch_size))
        # Not on each device, which would all do the same.
        arguments = key, jax.device_get(self.params), (), batch

        timer = timeit.Timer(lambda: jax.block_until_ready(self.gradient(*arguments)))
        seconds = float(np.median(timer.repeat(repeat=6, number=1)[1:]))
        num_steps = int(self.state.step) if self.state else 0
        cost = {
            "seconds_per_step": seconds,
            "flops_per_step": metrics.compiled_flops(self.gradient, *arguments),
            "steps": num_steps,
            "train_seconds": seconds * num_steps,
        }
        return {"powers": self.powers.tolist(), "cost": cost}

    @property
    def gradient(self) -> Callable[..., Any]:
        """Training's gradient function, jitted."""
        return self.program("gradient", lambda: jax.jit(self.gradient_fn))

    def batch(self, index: np.ndarray) -> Examples:
        """Returns the training examples of ``index``."""
        return jax.tree.map(lambda leaf: take_rows(leaf, index), self.examples)

    def draw_ladder(
        self, key: Key, params: latent.LatentParams, observations: jax.Array
    ) -> jax.Array:
        """Returns a chain for every power and observation, (num_powers, N, d); prior first."""
        return latent.sample_ladder(
            key, params, self.networks, observations, self.powers, self.chains
        )[0]

    def conditional_chains(self, given: Given, num: int, num_steps: int | None, label: Any) -> Any:
        """Returns chains of latents given pixels or observations, as ``Given.run`` takes them.

        Free pixels are the generator's, without the noise of the likelihood.
        """
        chains, networks = self.chains, self.networks
        steps = self.config.evals.get("num_chain_steps") or LONG * chains.posterior_steps
        see = given.operator or (lambda image: image[~given.mask])
        seen_model = networks._replace(
            generator_fn=lambda params, z: see(networks.generator_fn(params, z)),
            likelihood_scale=given.noise or networks.likelihood_scale,
        )
        options: Any = {"sampler": chains.posterior_sampler, "num_steps": num_steps or steps}

        def one(params: latent.LatentParams, row: Any) -> list[jax.Array]:
            (start_key, chain_key), dim = jax.random.split(row[0]), chains.latent_dim
            seen = see(row[1]) if given.operator is None else row[2]
            start = networks.base_scale * jax.random.normal(start_key, (1, num, dim))
            model = params, seen_model, jnp.broadcast_to(seen, (num, *seen.shape)), jnp.ones(1), dim
            ends, _ = latent.sample_power_posteriors(chain_key, *model, start=start, **options)
            return [self.apply(params, z[0])[:, given.mask] for z in (start, ends)]

        return one, self.params, None

    def fresh_chains(self, key: Key, num: int, num_steps: int | None = None) -> Chains:
        """Returns the chains of ``latent.sample_prior`` with this key, whose ways are latents'."""
        chains, networks = self.chains, self.networks
        steps = num_steps or self.config.evals.get("num_chain_steps") or chains.prior_steps
        size = min(self.config.evals.batch_size, 2 * num)

        @jax.jit
        def draw(key: Key, params: latent.LatentParams) -> tuple[jax.Array, ...]:
            normals = jax.random.normal(jax.random.split(key)[0], (num, chains.latent_dim))
            starts = networks.base_scale * normals
            options: dict[str, Any] = {"sampler": chains.prior_sampler, "num_steps": steps}
            ends, _ = latent.sample_prior(
                key, params, networks, num, chains.latent_dim, start=starts, **options
            )
            generate = partial(networks.generator_fn, params.generator)
            images = map_groups(generate, jnp.concatenate([ends, starts]), size)
            return images[num:], images[:num], ends - starts

        program = self.program(("prior", num, steps), lambda: draw)
        starts, ends, ways = jax.device_get(program(key, self.params))
        return Chains(starts, ends, ways=ways)
