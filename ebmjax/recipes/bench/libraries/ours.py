"""Samplers, log Z and objectives of ebmjax."""

from functools import partial
from typing import Any

import numpy as np

PACKAGE = "ebmjax"
TASKS = {
    "sample": {"mala": "exact", "sgld": "step", "underdamped": "step", "svgd": "particles"},
    "logz": {"annealing": ""},
    "learn": {"denoising": "", "contrastive": "", "noise_contrastive": ""},
}


def sample(target: Any, method: str, starts: Any, *numbers: Any) -> tuple[Any, float]:
    """Returns draws and gradients of a chain; SGLD takes a tenth of MALA's step, the rest its."""
    step_size, num_gradients, num_kept, seed = numbers
    import jax.numpy as jnp

    from ebmjax import samplers

    density = partial(target.log_density, jnp)
    if method == "underdamped":
        sampler = samplers.underdamped_langevin(density, step_size=jnp.float32(0.5 * step_size))
    else:
        step = jnp.float32({"sgld": 0.1}.get(method, 1.0) * step_size)
        sampler = getattr(samplers, method)(density, step_size=step)
    draws, _ = drive(sampler, starts, num_gradients, num_kept, seed, method == "svgd")
    return draws, num_gradients


def drive(
    sampler: Any, starts: Any, num_steps: int, num_kept: int, seed: int, together: bool = False
) -> tuple[Any, Any]:
    """Returns draws, and the infos of the steps that led to them, of our samplers or BlackJAX's."""
    import jax
    import jax.numpy as jnp

    from ebmjax import samplers

    key, starts = jax.random.key(seed), jnp.asarray(starts, jnp.float32)
    shape, thinning = starts.shape, num_steps // num_kept
    states = samplers.start_chains(
        key, sampler, starts if together else starts.reshape(-1, shape[-1])
    )
    step = samplers.batch_step(sampler.step)
    _, draws, infos = samplers.run_chain(key, states, step, num_kept * thinning, thinning=thinning)
    draws = np.asarray(draws)
    draws = draws.swapaxes(1, 2) if together else draws.reshape(*shape[:2], num_kept, -1)
    return draws, infos


def logz(target: Any, method: str, num_seeds: int) -> tuple[Any, Any, float]:
    """Returns values and intervals of ``evidence.log_partition``."""
    import jax
    import jax.numpy as jnp

    from ebmjax import evidence

    def draw(key: Any) -> Any:
        return target.base_scale * jax.random.normal(key, (target.dim,))

    def log_base(x: Any) -> Any:
        return jnp.sum(jax.scipy.stats.norm.logpdf(x, scale=target.base_scale))

    found = [
        evidence.log_partition(
            jax.random.key(seed), partial(target.log_density, jnp), evidence.Base(draw, log_base),
            step_size=target.step_size, num_chains=128, num_powers=150, num_long=500,
        )
        for seed in range(num_seeds)
    ]  # fmt: skip
    gradients = 128 * (2 * 150 * 2 + 500)  # of both sides and the long run; the pilot's are more
    return [one.value for one in found], [one.interval for one in found], gradients


def learn(target: Any, method: str, data: Any, points: Any) -> Any:
    """Trains an MLP's energy on each seed's data, all seeds at once; returns -energy at points."""
    import jax
    import jax.numpy as jnp
    import optax

    from ebmjax import losses, networks, samplers

    # In coordinates of mean 0 and variance 1, whose densities differ by a constant.
    mean, scale = np.mean(data, (0, 1)), np.std(data, (0, 1))
    data, points = (jnp.asarray((x - mean) / scale, jnp.float32) for x in (data, points))
    network: Any = networks.MLPEnergy(hidden=(64, 64))

    def log_density(params: Any, x: Any) -> Any:  # falls off as a wide Gaussian does
        return -network.apply(params, x) - 0.125 * jnp.sum(x**2, -1)

    def loss_of(params: Any, key: Any, x: Any, chains: Any) -> Any:
        noise = jax.random.normal(key, x.shape)
        if method == "denoising":
            score = jax.vmap(jax.grad(partial(log_density, params)))(x + 0.15 * noise)
            return losses.denoising_score_matching_loss(score, noise, noise_scale=0.15)[0]
        if method == "contrastive":
            energies = (-log_density(params, one) for one in (x, chains))
            return losses.contrastive_divergence_loss(*energies, energy_l2=0.001)[0]

        def ratio(x: Any) -> Any:  # to the density of the noise
            return log_density(params, x) - jax.scipy.stats.norm.logpdf(x, scale=1.5).sum(-1)

        return losses.noise_contrastive_loss(ratio(x), ratio(1.5 * noise))[0]

    def train(key: Any, data: Any) -> Any:
        optimizer = optax.adam(optax.cosine_decay_schedule(3e-3, NUM_STEPS))
        params = network.init(key, points[0])

        def step(carry: Any, key: Any) -> Any:
            params, state, chains = carry
            keys = jax.random.split(key, 3)
            x = data[jax.random.randint(keys[0], (256,), 0, len(data))]
            if method == "contrastive":
                sampler = samplers.mala(partial(log_density, params), step_size=0.02)
                states = jax.vmap(sampler.init)(chains)
                one = samplers.batch_step(sampler.step)
                chains = samplers.run_chain(keys[1], states, one, 5, thinning=5)[0].position
            gradient = jax.grad(loss_of)(params, keys[2], x, chains)
            updates, state = optimizer.update(gradient, state)
            return (optax.apply_updates(params, updates), state, chains), None

        first = params, optimizer.init(params), data[:256]
        (params, *_), _ = jax.lax.scan(step, first, jax.random.split(key, NUM_STEPS))
        return log_density(params, points)

    return np.asarray(
        jax.jit(jax.vmap(train))(jax.random.split(jax.random.key(0), len(data)), data)
    )


NUM_STEPS = 2000
"""Training steps, each of 256 examples."""
