"""Contrastive divergence on four Gaussians, for samplers to be compared on what was learned."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax import data, losses, samplers
from ebmjax.densities import from_energy
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.plane import beta, own_points, samplers_plots
from ebmjax.recipes.models.plane.samplers_chains import mean_acceptance, run_from
from ebmjax.recipes.models.plane.samplers_monitor import SamplersMonitor
from ebmjax.recipes.parts.samplers import PLAIN, of_shared
from ebmjax.training import init_state, make_train_step
from ebmjax.types import Key, Metrics, PyTree

NUM_MODES = 4


def build(config: Config, workdir: Path) -> common.Experiment:
    """The experiment of ``config`` (see ``plane/fields.py`` for the fields)."""
    params_key, _, further_key = common.root_keys(config)
    points_key, buffer_key, eval_key = jax.random.split(further_key, 3)
    toy, means, num_points, about = truth(config)
    points = toy.points(points_key, num_points)
    plan = common.plan(config, len(points))
    energy_fn, params = beta.network(config, params_key)
    optimizer = beta.adam(config, plan.total_steps)
    start_fn = partial(start, points, config.sampler.start_scale)
    monitor = SamplersMonitor(workdir, eval_key, energy_fn, toy, config, means, start_fn)
    monitor.check()
    return common.Experiment(
        state=init_state(params, optimizer, buffers(config, buffer_key, start_fn)),
        train_step=make_train_step(
            partial(denoise, config, energy_fn)
            if config.loss.name == "denoising"
            else partial(learn, config, energy_fn, start_fn),
            optimizer,
            max_abs_loss=config.train.max_abs_loss,
        ),
        data=points,
        plan=plan,
        monitor=monitor,
        draw=partial(samplers_plots.draw, workdir, config),
        evaluate=monitor.evaluate,
        use=monitor.use,
        about_data=about,
    )


def truth(config: Config) -> tuple[beta.ToyData, jax.Array, int, tuple[str, ...]]:
    """Returns the data, their modes' means, how many are learnt from, and lines about them."""
    if config.data.name != "npy":
        return *gaussians(config), config.data.num_points, ()
    own = own_points.own_points(config)
    num, about = min(config.data.num_points, own.num), own_points.about(config, own.num)
    return beta.ToyData(own.points, own.log_density_fn), jnp.asarray(own.mean)[None], num, about


def gaussians(config: Config) -> tuple[beta.ToyData, jax.Array]:
    """Four of unit variance with their means, (4, 2), on a circle of ``data.radius``."""
    means = data.circle_means(NUM_MODES, config.data.radius)
    points = partial(data.gaussian_mixture_points, means=means, scale=1.0)
    density = partial(data.gaussian_mixture_log_density, means=means, scale=1.0)
    return beta.ToyData(points, density), means


def start(points: jax.Array, scale: float, key: Key, label: Any = 0) -> jax.Array:
    """One start of a chain, (2,): a random one of ``points`` under noise that covers the plane."""
    del label
    point_key, noise_key = jax.random.split(key)
    return jax.random.choice(point_key, points) + scale * jax.random.normal(noise_key, (2,))


def buffers(config: Config, key: Key, start_fn: samplers.StartFn) -> PyTree:
    """A replay buffer for every shard, or none."""
    size, num_shards = config.sampler.buffer.size, config.mesh.num_shards
    if not size:
        return ()
    fill = partial(samplers.replay_buffer_init, size=size // num_shards, start_fn=start_fn)
    return jax.vmap(fill)(jax.random.split(key, num_shards))


def learn(
    config: Config,
    energy_fn: Callable[..., jax.Array],
    start_fn: samplers.StartFn,
    key: Key,
    params: PyTree,
    buffer: PyTree,
    positives: jax.Array,
) -> tuple[PyTree, PyTree, Metrics]:
    """A ``training.GradientFn``: the thesis's Alg. 1, or the same from persistent chains."""
    start_key, chain_key = jax.random.split(key)
    if config.sampler.buffer.size:
        drawn = samplers.replay_buffer_draw(
            start_key,
            buffer,
            len(positives),
            start_fn,
            reinit_prob=config.sampler.buffer.reinit_prob,
        )
        negatives, chains = run(config, energy_fn, chain_key, params, drawn.positions)
        buffer = samplers.replay_buffer_write(buffer, drawn.slots, negatives)
    else:
        noise = jax.random.normal(start_key, positives.shape)
        starts = positives + config.sampler.start_scale * noise
        negatives, chains = run(config, energy_fn, chain_key, params, starts)

    def loss_fn(params: PyTree) -> tuple[jax.Array, Metrics]:
        return losses.contrastive_divergence_loss(
            energy_fn(params, positives),
            energy_fn(params, negatives),
            energy_l2=config.loss.energy_l2,
        )

    (loss, metrics), gradients = jax.value_and_grad(loss_fn, has_aux=True)(params)
    return gradients, buffer, {"loss": loss, **metrics, **chains}


def denoise(
    config: Config,
    energy_fn: Callable[..., jax.Array],
    key: Key,
    params: PyTree,
    carry: PyTree,
    points: jax.Array,
) -> tuple[PyTree, PyTree, Metrics]:
    """A ``training.GradientFn``: denoising score matching, without chains."""
    noise, noise_scale = jax.random.normal(key, points.shape), config.loss.noise_scale

    def loss_fn(params: PyTree) -> tuple[jax.Array, Metrics]:
        score = jax.grad(lambda x: -jnp.sum(energy_fn(params, x)))(points + noise_scale * noise)
        return losses.denoising_score_matching_loss(score, noise, noise_scale=noise_scale)

    (loss, metrics), gradients = jax.value_and_grad(loss_fn, has_aux=True)(params)
    return gradients, carry, {"loss": loss, **metrics}


def run(
    config: Config,
    energy_fn: Callable[..., jax.Array],
    key: Key,
    params: PyTree,
    starts: jax.Array,
) -> tuple[jax.Array, Metrics]:
    """Ends of the training's chains, (n, 2), and their reports."""
    density, chosen = from_energy(partial(energy_fn, params)), of_shared(config, "sampler", PLAIN)
    ends, _, infos = run_from(
        chosen, config.sampler, key, starts, density, config.sampler.num_steps
    )
    distance = jnp.mean(jnp.linalg.norm(ends - starts, axis=1))
    return ends, {"chain_distance": distance, **mean_acceptance(infos)}
