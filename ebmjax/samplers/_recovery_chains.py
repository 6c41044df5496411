"""Langevin chains that recover a position from a noisier one."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ebmjax._checks import check_at_least, check_key, check_positive
from ebmjax.types import Key


def run_recovery_chains(
    key: Key,
    noisy: jax.Array,
    log_density_fn: Callable[[jax.Array], jax.Array],
    *,
    noise_scale: Any,
    num_steps: int,
    relative_step: Any = 0.1,
) -> jax.Array:
    r"""Takes Langevin steps on p(x) N(noisy; x, noise^2 I), from the noisy position itself.

    .. math::
        x \leftarrow x + \epsilon \left( s(x) + \frac{\tilde x - x}{\tau^2} \right)
        + \sqrt{2 \epsilon}\, \xi, \qquad \epsilon = \alpha \tau^2

    with score s of p and noise :math:`\tau`. Where it is small the law is nearly one Gaussian,
    which few steps reach.

    Args:
      key: consumed by the noise.
      noisy: one position, or many (N, ...).
      log_density_fn: position to scalar, or (N, ...) to (N,), rows apart from each other.
      noise_scale: :math:`\tau`, positive: of a scalar, or one a position, (N,).
      num_steps: of each chain, at least 1 (static).
      relative_step: :math:`\alpha`, positive, a scalar. Drift and noise are stable while it is well
        below 2 / (1 + curvature of -log p times the squared noise).

    Returns:
      The ends, like ``noisy``.

    Source: Gao et al. 2021, Alg. 1 and 2, whose b^2 / 2 is :math:`\alpha`; positions in units of
    the data, which the paper shrinks at each level.

    Example:
      >>> ends = run_recovery_chains(
      ...     jax.random.key(0), jnp.zeros((5, 2)), lambda x: -0.5 * jnp.sum(x**2, axis=-1),
      ...     noise_scale=0.5, num_steps=10)
      >>> ends.shape
      (5, 2)
    """
    check_key("key", key)
    check_positive("noise_scale", noise_scale)
    check_positive("relative_step", relative_step)
    check_at_least("num_steps", num_steps, 1)
    noisy = jnp.asarray(noisy)
    tau = jnp.asarray(noise_scale, noisy.dtype)
    tau = tau.reshape(*tau.shape, *[1] * (noisy.ndim - tau.ndim))
    step_size = relative_step * jnp.square(tau)
    score_fn = jax.grad(lambda x: jnp.sum(log_density_fn(x)))

    def step(x: jax.Array, key: Key) -> tuple[jax.Array, None]:
        noise = jax.random.normal(key, x.shape, x.dtype)
        drift = step_size * score_fn(x) + relative_step * (noisy - x)
        return (x + drift + jnp.sqrt(2.0 * step_size) * noise).astype(x.dtype), None

    return jax.lax.scan(step, noisy, jax.random.split(key, num_steps))[0]
