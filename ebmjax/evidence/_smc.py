"""BlackJAX's tempered sequential Monte Carlo, for normalising constants."""

from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least, check_scalar_density, check_whole_ladder, leading_size
from ebmjax._programs import run_program
from ebmjax.evidence._weights import Estimate, log_mean_exp
from ebmjax.types import Key, LogDensityFn, PyTree, SamplerFn


def smc_log_normalizer(
    key: Key,
    start: PyTree,
    powers: jax.Array,
    log_base_fn: LogDensityFn,
    log_tilt_fn: LogDensityFn,
    *,
    sampler: SamplerFn,
    num_steps: int,
) -> Estimate:
    """Returns ``log Z_1 / Z_0`` along ``exp(log_base + t * log_tilt)`` by BlackJAX's tempered SMC.

    It is annealed importance sampling with systematic resampling by weights at every power before
    particles move. Each repeat's ratio is unbiased if the steps leave their densities invariant, so
    ratios are averaged, not their logs.

    Args:
      key, powers, log_base_fn, log_tilt_fn: as in ``annealed_importance_sampling``.
      start: exact independent draws of ``exp(log_base)``, leading axes (repeats, particles).
        Particles interact, so the standard error comes from the independent repeats, at least 2;
        with few repeats it is rough.
      sampler: as there; it must draw nothing at its start, where BlackJAX gives no key.
      num_steps: steps at every power below 1 (static).

    Returns:
      Scalars, in nats. The cost is that of ``annealed_importance_sampling``.

    Raises:
      ImportError: if BlackJAX is not installed.

    Source: Del Moral, Doucet & Jasra 2006; BlackJAX, ``blackjax.tempered_smc``.
    """
    check_whole_ladder(powers)
    check_at_least("num_steps", num_steps, 1)
    check_at_least("repeats (the first axis of start)", leading_size("start", start), 2)
    check_scalar_density(log_tilt_fn, jax.tree.map(lambda leaf: leaf[0, 0], start))
    try:
        import blackjax
        from blackjax.smc.resampling import systematic
    except ImportError as error:
        raise ImportError(
            "smc_log_normalizer runs BlackJAX's tempered SMC, and BlackJAX is not installed: "
            "pip install 'ebmjax[test]', or blackjax itself. annealed_importance_sampling needs no "
            "more than JAX."
        ) from error
    algorithm: Any = blackjax.tempered_smc(
        log_base_fn,
        log_tilt_fn,
        mcmc_step_fn=lambda key, state, log_density_fn: sampler(log_density_fn).step(key, state),
        mcmc_init_fn=lambda position, log_density_fn: sampler(log_density_fn).init(position),
        mcmc_parameters={},
        resampling_fn=systematic,
        num_mcmc_steps=num_steps,
    )
    powers = jnp.asarray(powers)

    def log_ratio(key: Key, particles: PyTree) -> jax.Array:
        def rung(state: Any, inputs: tuple[Key, jax.Array]) -> tuple[Any, jax.Array]:
            state, info = algorithm.step(inputs[0], state, inputs[1])
            return state, info.log_likelihood_increment

        # BlackJAX starts at a Python 0.0, whose weak type a scan does not accept.
        state = algorithm.init(particles)._replace(tempering_param=powers[0])
        keys = jax.random.split(key, powers.shape[0] - 1)
        return jnp.sum(jax.lax.scan(rung, state, (keys, powers[1:]))[1])

    keys = jax.random.split(key, leading_size("start", start))
    return log_mean_exp(run_program(jax.vmap(log_ratio), keys, start))
