"""log Z by the adaptive tempered SMC of BlackJAX, whose moves are MALA's."""

from typing import Any

PACKAGE = "blackjax"
TASKS = {"logz": {"smc": ""}}
NUM_PARTICLES, NUM_MOVES = 512, 10


def logz(target: Any, method: str, num_seeds: int) -> tuple[Any, Any, float]:
    """Returns values, no intervals, and gradients of a seed."""
    import blackjax
    import jax
    import jax.numpy as jnp
    from blackjax.smc import extend_params, resampling

    def log_base(x: Any) -> Any:
        return jnp.sum(jax.scipy.stats.norm.logpdf(x, scale=target.base_scale))

    step: Any = {"step_size": jnp.float32(target.step_size)}
    smc: Any = blackjax.adaptive_tempered_smc(
        log_base, lambda x: target.log_density(jnp, x) - log_base(x), blackjax.mala.build_kernel(),
        blackjax.mala.init, extend_params(step),
        resampling.systematic, 0.5, num_mcmc_steps=NUM_MOVES,
    )  # fmt: skip

    def run(key: Any) -> Any:
        def rung(carry: Any) -> Any:
            state, total, count = carry
            state, info = smc.step(jax.random.fold_in(key, count), state)
            return state, total + info.log_likelihood_increment, count + 1

        first = smc.init(target.base_scale * jax.random.normal(key, (NUM_PARTICLES, target.dim)))
        return jax.lax.while_loop(
            lambda c: (c[0].tempering_param < 1.0) & (c[2] < 200), rung, (first, 0.0, 0)
        )[1:]

    values, counts = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(0), num_seeds))
    return values, None, float(counts.mean()) * NUM_PARTICLES * NUM_MOVES
