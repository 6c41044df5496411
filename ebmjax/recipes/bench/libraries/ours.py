"""Samplers, log Z and objectives of ebmjax."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from ebmjax import evidence, losses, networks, samplers

PACKAGE = "ebmjax"
TASKS = {
    "sample": {"mala": "exact", "sgld": "step", "underdamped": "step", "svgd": "particles"},
    "logz": {"annealing": ""},
    "learn": {"denoising": "", "contrastive": "", "noise_contrastive": ""},
}
NUM_STEPS = 2000  # of training, each of 256 examples


def sample(target: Any, method: str, starts: Any, *numbers: Any) -> tuple[Any, float]:
    """Returns draws and gradients of a chain; SGLD takes a tenth of MALA's step."""
    step_size, num_gradients, num_kept, seed = numbers
    step = jnp.float32({"sgld": 0.1, "underdamped": 0.5}.get(method, 1.0) * step_size)
    make = getattr(samplers, {"underdamped": "underdamped_langevin"}.get(method, method))
    sampler = make(partial(target.log_density, jnp), step_size=step)
    draws, _ = drive(sampler, starts, num_gradients, num_kept, seed, method == "svgd")
    return draws, num_gradients


def drive(
    sampler: Any, starts: Any, num_steps: int, num_kept: int, seed: int, together: bool = False
) -> tuple[Any, Any]:
    """Returns draws, and the infos of the steps that led to them, of our samplers or BlackJAX's."""
    key, thinning, dim = jax.random.key(seed), num_steps // num_kept, starts.shape[-1]
    flat = jnp.asarray(starts if together else starts.reshape(-1, dim), jnp.float32)
    states, step = samplers.start_chains(key, sampler, flat), samplers.batch_step(sampler.step)
    _, draws, infos = samplers.run_chain(key, states, step, num_kept * thinning, thinning=thinning)
    draws = draws.swapaxes(1, 2) if together else draws
    return draws.reshape(*starts.shape[:2], num_kept, dim), infos


def logz(target: Any, method: str, num_seeds: int) -> tuple[Any, Any, float]:
    """Returns values and intervals of ``evidence.log_partition``."""
    base = evidence.Base(
        lambda key: target.base_scale * jax.random.normal(key, (target.dim,)),
        lambda x: jax.scipy.stats.norm.logpdf(x, scale=target.base_scale).sum(),
    )
    found = [
        evidence.log_partition(
            jax.random.key(seed), partial(target.log_density, jnp), base,
            step_size=target.step_size, num_chains=128, num_powers=150, num_long=500,
        )
        for seed in range(num_seeds)
    ]  # fmt: skip
    gradients = 128 * (2 * 150 * 2 + 500)  # of both sides and the long run; the pilot's are more
    return [one.value for one in found], [one.interval for one in found], gradients


def learn(target: Any, method: str, data: Any, points: Any) -> Any:
    """Trains an MLP's energy on each seed's data, all seeds at once; returns -energy at points."""
    # In coordinates of mean 0 and variance 1, whose densities differ by a constant.
    mean, scale = data.mean((0, 1)), data.std((0, 1))
    data, points = (jnp.asarray((x - mean) / scale, jnp.float32) for x in (data, points))
    network: Any = networks.MLPEnergy(hidden=(64, 64))
    optimizer = optax.adam(optax.cosine_decay_schedule(3e-3, NUM_STEPS))

    def log_density(params: Any, x: Any) -> Any:  # falls off as a wide Gaussian does
        return -network.apply(params, x) - 0.125 * jnp.sum(x**2, -1)

    def loss_of(params: Any, key: Any, x: Any, chains: Any) -> Any:
        density, noise = partial(log_density, params), jax.random.normal(key, x.shape)
        if method == "denoising":
            score = jax.vmap(jax.grad(density))(x + 0.15 * noise)
            return losses.denoising_score_matching_loss(score, noise, noise_scale=0.15)[0]
        if method == "contrastive":
            energies = -density(x), -density(chains)
            return losses.contrastive_divergence_loss(*energies, energy_l2=0.001)[0]

        def ratio(x: Any) -> Any:  # to the density of the noise
            return density(x) - jax.scipy.stats.norm.logpdf(x, scale=1.5).sum(-1)

        return losses.noise_contrastive_loss(ratio(x), ratio(1.5 * noise))[0]

    def train(key: Any, data: Any) -> Any:
        def step(carry: Any, key: Any) -> Any:
            params, state, chains = carry
            keys = jax.random.split(key, 3)
            x = data[jax.random.randint(keys[0], (256,), 0, len(data))]
            if method == "contrastive":
                sampler = samplers.mala(partial(log_density, params), step_size=0.02)
                states, move = jax.vmap(sampler.init)(chains), samplers.batch_step(sampler.step)
                chains = samplers.run_chain(keys[1], states, move, 5, thinning=5)[0].position
            gradient = jax.grad(loss_of)(params, keys[2], x, chains)
            updates, state = optimizer.update(gradient, state)
            return (optax.apply_updates(params, updates), state, chains), None

        params = network.init(key, points[0])
        first, keys = (params, optimizer.init(params), data[:256]), jax.random.split(key, NUM_STEPS)
        return log_density(jax.lax.scan(step, first, keys)[0][0], points)

    return jax.jit(jax.vmap(train))(jax.random.split(jax.random.key(0), len(data)), data)
