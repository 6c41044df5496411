"""Chains of densities of noisy data: down all noise levels, and from one level to the next."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._checks import check_at_least, check_key, check_positive, is_traced
from ebmjax.types import Key


def run_annealed_langevin(
    key: Key,
    position: jax.Array,
    log_density_fn: Callable[[jax.Array, jax.Array], jax.Array],
    *,
    noise_scales: Any,
    relative_step: Any = 0.5,
) -> jax.Array:
    r"""Takes one Langevin step at each noise level, and at last a step that removes the noise.

    .. math::
        x \leftarrow x + \alpha \sigma_k^2\, s(x, \sigma_k) + \sqrt{2 \alpha}\, \sigma_k\, \xi,
        \qquad x \leftarrow x + \sigma_K^2\, s(x, \sigma_K)

    with score :math:`s = \nabla \log p`. For many chains, take ``jax.vmap``.

    Args:
      key: consumed by the noise.
      position: of one chain, an array; a draw of about the first level's law.
      log_density_fn: ``(position, noise scale) -> scalar``: data under this noise, in nats.
      noise_scales: (K,), positive, from the largest to the smallest, in units of the position. For
        several steps at a level, repeat it.
      relative_step: :math:`\alpha`, positive, a scalar. At 1 a step moves to the mean of what a
        Gaussian level denoises to.

    Returns:
      The end, like ``position``: the mean of the data given the last noisy position.

    Source: Song & Ermon 2019, Alg. 1, whose step is twice ours; Jolicoeur-Martineau et al. 2021 for
    the last step.
    """
    check_key("key", key)
    check_positive("noise_scales", noise_scales)
    check_positive("relative_step", relative_step)
    if jnp.ndim(noise_scales) != 1 or not jnp.size(noise_scales):
        raise ValueError(
            f"noise_scales must have shape (K,), K at least 1, got {jnp.shape(noise_scales)}."
        )
    if not is_traced(noise_scales) and np.any(np.diff(np.asarray(noise_scales, float)) > 0):
        raise ValueError("noise_scales must go from the largest to the smallest: sort them.")
    position = jnp.asarray(position)
    noise_scales = jnp.asarray(noise_scales, position.dtype)
    score_fn = jax.grad(log_density_fn)

    def step(position: jax.Array, inputs: tuple[Key, jax.Array]) -> tuple[jax.Array, None]:
        key, noise_scale = inputs
        noise = jax.random.normal(key, position.shape, position.dtype)
        drift = relative_step * noise_scale**2 * score_fn(position, noise_scale)
        moved = position + drift + jnp.sqrt(2.0 * relative_step) * noise_scale * noise
        return moved.astype(position.dtype), None

    keys = jax.random.split(key, len(noise_scales))
    position, _ = jax.lax.scan(step, position, (keys, noise_scales))
    return position + noise_scales[-1] ** 2 * score_fn(position, noise_scales[-1])


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
