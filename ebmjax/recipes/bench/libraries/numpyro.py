"""HMC and NUTS of NumPyro, under its ``MCMC``."""

from functools import partial
from typing import Any

PACKAGE = "numpyro"
TASKS = {"sample": {"hmc": "exact", "nuts": "exact"}}
LENGTH = 10
"""Gradients of a move of HMC; NUTS is given as many moves."""


def sample(target: Any, method: str, starts: Any, *numbers: Any) -> tuple[Any, float]:
    """Returns draws and gradients of a chain, without a warm-up; a leapfrog step is MALA's."""
    step_size, num_gradients, num_kept, seed = numbers
    import jax
    import jax.numpy as jnp
    import numpy as np
    from numpyro import infer  # pyright: ignore[reportAttributeAccessIssue]

    leap = (2.0 * step_size) ** 0.5
    length = {"num_steps": LENGTH, "trajectory_length": None}
    length = length if method == "hmc" else {"max_tree_depth": 6}
    kernel = {"hmc": infer.HMC, "nuts": infer.NUTS}[method](
        potential_fn=lambda x: -partial(target.log_density, jnp)(x), step_size=leap,
        adapt_step_size=False, adapt_mass_matrix=False, **length,
    )  # fmt: skip
    flat = jnp.asarray(starts, jnp.float32).reshape(-1, target.dim)
    thinning = max(num_gradients // LENGTH // num_kept, 1)
    mcmc = infer.MCMC(
        kernel, num_warmup=0, num_samples=num_kept * thinning, num_chains=len(flat),
        thinning=thinning, chain_method="vectorized", progress_bar=False,
    )  # fmt: skip
    mcmc.run(jax.random.key(seed), init_params=flat, extra_fields=("num_steps",))
    draws = np.asarray(mcmc.get_samples(group_by_chain=True))
    per_step = np.mean(np.asarray(mcmc.get_extra_fields()["num_steps"]))
    return draws.reshape(*np.shape(starts)[:2], num_kept, -1), float(per_step * num_kept * thinning)
