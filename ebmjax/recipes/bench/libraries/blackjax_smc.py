"""log Z by the adaptive tempered SMC of BlackJAX, whose moves are MALA's."""

from typing import Any

import jax
import jax.numpy as jnp

PACKAGE = "blackjax"
TASKS = {"logz": {"smc": ""}}
NUM_PARTICLES, NUM_MOVES = 512, 10


def logz(target, method, num_seeds):
    """Returns values, no intervals, and gradients of a seed."""
    import blackjax
    from blackjax.smc import extend_params, resampling

    def log_base(x):
        return jnp.sum(jax.scipy.stats.norm.logpdf(x, scale=target.base_scale))

    step: Any = {"step_size": jnp.float32(target.step_size)}
    smc: Any = blackjax.adaptive_tempered_smc(
        log_base, lambda x: target.log_density(jnp, x) - log_base(x), blackjax.mala.build_kernel(),
        blackjax.mala.init, extend_params(step),
        resampling.systematic, 0.5, num_mcmc_steps=NUM_MOVES,
    )  # fmt: skip

    def run(key):
        def rung(carry):
            state, total, count = carry
            state, info = smc.step(jax.random.fold_in(key, count), state)
            return state, total + info.log_likelihood_increment, count + 1

        starts = target.base_scale * jax.random.normal(key, (NUM_PARTICLES, target.dim))
        more = lambda carry: (carry[0].tempering_param < 1.0) & (carry[2] < 200)  # noqa: E731
        return jax.lax.while_loop(more, rung, (smc.init(starts), 0.0, 0))[1:]

    values, counts = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(0), num_seeds))
    return values, None, float(counts.mean()) * NUM_PARTICLES * NUM_MOVES
