"""HMC and NUTS of NumPyro, under its ``MCMC``."""

import jax
import jax.numpy as jnp

PACKAGE = "numpyro"
TASKS = {"sample": {"hmc": "exact", "nuts": "exact"}}
LENGTH = 10  # gradients of a move of HMC; NUTS is given as many moves


def sample(target, method, starts, step_size, num_gradients, num_kept, seed):
    """Returns draws and gradients of a chain, without a warm-up; a leapfrog step is MALA's."""
    from numpyro import infer  # pyright: ignore[reportAttributeAccessIssue]

    length = {"num_steps": LENGTH, "trajectory_length": None}
    kernel = {"hmc": infer.HMC, "nuts": infer.NUTS}[method](
        potential_fn=lambda x: -target.log_density(jnp, x), step_size=(2.0 * step_size) ** 0.5,
        adapt_step_size=False, adapt_mass_matrix=False,
        **(length if method == "hmc" else {"max_tree_depth": 6}),
    )  # fmt: skip
    flat = jnp.asarray(starts, jnp.float32).reshape(-1, target.dim)
    thinning = max(num_gradients // LENGTH // num_kept, 1)
    mcmc = infer.MCMC(
        kernel, num_warmup=0, num_samples=num_kept * thinning, num_chains=len(flat),
        thinning=thinning, chain_method="vectorized", progress_bar=False,
    )  # fmt: skip
    mcmc.run(jax.random.key(seed), init_params=flat, extra_fields=("num_steps",))
    draws = mcmc.get_samples(group_by_chain=True).reshape(*starts.shape[:2], num_kept, -1)
    return draws, float(mcmc.get_extra_fields()["num_steps"].mean() * num_kept * thinning)
