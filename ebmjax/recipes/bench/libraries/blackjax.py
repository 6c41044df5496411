"""MALA, HMC and NUTS of BlackJAX; its kernels run under our ``run_chain``."""

from functools import partial

import jax.numpy as jnp

from ebmjax.recipes.bench.libraries.ours import drive

PACKAGE = "blackjax"
TASKS = {"sample": {"mala": "exact", "hmc": "exact", "nuts": "exact"}}
LENGTH = 10  # gradients of a move of HMC; NUTS makes as many moves


def sample(target, method, starts, step_size, num_gradients, num_kept, seed):
    """Returns draws and gradients of a chain; a leapfrog step is that of MALA, sqrt(2 step)."""
    import blackjax

    density = partial(target.log_density, jnp)
    if method == "mala":
        sampler, num_steps = blackjax.mala(density, jnp.float32(step_size)), num_gradients
    else:
        options = {"num_integration_steps": LENGTH} if method == "hmc" else {"max_num_doublings": 6}
        leap, metric = jnp.float32((2.0 * step_size) ** 0.5), jnp.ones(target.dim)
        sampler = getattr(blackjax, method)(density, leap, metric, **options)
        num_steps = max(num_gradients // LENGTH // num_kept, 1) * num_kept
    draws, infos = drive(sampler, starts, num_steps, num_kept, seed)
    per_step = jnp.mean(getattr(infos, "num_integration_steps", jnp.ones(1)))
    return draws, float(per_step) * num_steps
