"""One energy for many noise levels, from any network of one more channel or coordinate."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax.networks import Network
from ebmjax.samplers import run_annealed_langevin, run_recovery_chains
from ebmjax.types import Key, PyTree


class NoiseLevels(NamedTuple):
    """Noise levels of an energy, in units of the data.

    Attributes:
      lowest: noise at which the energy is used after training, positive.
      highest: noise that hides the data, above ``lowest``.
      data_scale: root mean square of the data.
      relative_step: of chains, see ``run_annealed_langevin`` and ``run_recovery_chains``.
      num_levels: of diffusion recovery, the highest not counted; None for a chain that is annealed
        through as many levels as it has steps.
    """

    lowest: float
    highest: float
    data_scale: float
    relative_step: float = 0.5
    num_levels: int | None = None

    def noise_at(self, level: Any) -> Any:
        """Returns the noise of a level, from 0 to ``num_levels``; its logarithm is even."""
        assert self.num_levels is not None
        return self.lowest * (self.highest / self.lowest) ** (level / self.num_levels)

    def noise_between(self, level: Any) -> Any:
        """Returns the noise that takes a level to the one above."""
        return jnp.sqrt(self.noise_at(level + 1) ** 2 - self.noise_at(level) ** 2)

    def draw_like(self, key: Key, positions: jax.Array) -> jax.Array:
        """Returns draws of about the law of the highest level, shaped like ``positions``."""
        scale = jnp.sqrt(self.highest**2 + self.data_scale**2)
        return scale * jax.random.normal(key, positions.shape, positions.dtype)

    def anneal(
        self,
        key: Key,
        position: jax.Array,
        log_density_fn: Callable[..., jax.Array],
        num_steps: int,
    ) -> jax.Array:
        """Returns the end of a chain of ``num_steps`` evaluations of the score, from above.

        The levels fall geometrically, one a step; the last evaluation removes the noise. With
        ``num_levels`` each has an equal part of the steps, and at least one.
        """
        if self.num_levels is not None:
            return self._recover(key, position, log_density_fn, num_steps // self.num_levels)
        num_levels = max(num_steps - 1, 1)
        return run_annealed_langevin(
            key,
            position,
            log_density_fn,
            noise_scales=jnp.geomspace(self.highest, self.lowest, num_levels),
            relative_step=self.relative_step,
        )

    def _recover(
        self, key: Key, position: jax.Array, log_density_fn: Callable[..., Any], num_steps: int
    ) -> jax.Array:
        def lower(position: jax.Array, inputs: Any) -> tuple[jax.Array, None]:
            key, level = inputs
            moved = run_recovery_chains(
                key,
                position,
                lambda x: log_density_fn(x, self.noise_at(level)),
                noise_scale=self.noise_between(level),
                num_steps=max(num_steps, 1),
                relative_step=self.relative_step,
            )
            return moved, None

        assert self.num_levels is not None
        keys, levels = jax.random.split(key, self.num_levels), jnp.arange(self.num_levels)
        return jax.lax.scan(lower, position, (keys, levels[::-1]))[0]


def condition_on_noise(
    energy_of: Callable[[PyTree], Callable[..., jax.Array]], levels: NoiseLevels, num_axes: int
) -> Callable[[PyTree], Callable[..., jax.Array]]:
    r"""Returns E(x, noise) from an energy of examples with one more channel, the noise's logarithm.

    .. math::
        E(x, \sigma) = \frac{|x|^2}{2 v} + \frac{\sigma_d}{\sigma}\,
        F\left(\frac{x}{\sqrt v}, \log \sigma\right), \qquad v = \sigma^2 + \sigma_d^2

    With F = 0 it is the energy of data N(0, :math:`\sigma_d^2`) under the noise.

    Args:
      energy_of: parameters to F: of examples (..., C + 1) and labels.
      levels: whose ``data_scale`` is :math:`\sigma_d`.
      num_axes: axes of an example: 1 for points, 3 for images.

    Returns:
      Parameters to ``energy(x, labels, noise_scale)``. The noise has the leading axes of x, or
      none; without it the energy is that of ``levels.lowest``.
    """

    show = _show_noise(levels, num_axes)

    def conditional_of(params: PyTree) -> Callable[..., jax.Array]:
        network = energy_of(params)

        def energy(x: jax.Array, labels: jax.Array, noise_scale: Any = None) -> jax.Array:
            shown, base, factor = show(x, noise_scale)
            return base + factor * network(shown, labels)

        return energy

    return conditional_of


def condition_classifier_on_noise(network: Network, levels: NoiseLevels) -> Network:
    r"""Returns logits of images and a noise level, from those of images with one more channel.

    .. math::
        h(x, \sigma) = \frac{\sigma_d}{\sigma}\, H\left(\frac{x}{\sqrt v}, \log \sigma\right)
        - \frac{|x|^2}{2 v}, \qquad v = \sigma^2 + \sigma_d^2

    The last term is that of all classes: it is in the density, and p(y | x) is without it. See
    ``condition_on_noise``.

    Args:
      network: H, a classifier of images (..., H, W, C + 1).
      levels: whose ``data_scale`` is :math:`\sigma_d`.

    Returns:
      A classifier whose ``apply`` takes a noise scale after the images, of their leading axes or a
      scalar; without it the noise is ``levels.lowest``.
    """
    show = _show_noise(levels, 3)

    def init(key: Key, images: jax.Array) -> tuple[PyTree, PyTree]:
        return network.init(key, show(images, None)[0])

    def condition(apply: Callable[..., tuple[Any, PyTree]]) -> Callable[..., tuple[Any, PyTree]]:
        def conditioned(
            params: PyTree,
            state: PyTree,
            images: jax.Array,
            noise_scale: Any = None,
            **options: Any,
        ) -> tuple[jax.Array, PyTree]:
            shown, base, factor = show(images, noise_scale)
            logits, state = apply(params, state, shown, **options)
            return factor[..., None] * logits - base[..., None], state

        return conditioned

    return Network(init, condition(network.apply))


def _show_noise(levels: NoiseLevels, num_axes: int) -> Callable[..., tuple[jax.Array, ...]]:
    """Returns ``(x, noise_scale) -> (what a network sees, |x|^2 / 2 v, its outputs' factor)``."""

    def show(x: jax.Array, noise_scale: Any) -> tuple[jax.Array, ...]:
        lowest, data_scale = levels.lowest, levels.data_scale
        leading = x.shape[: x.ndim - num_axes]
        noise_scale = lowest if noise_scale is None else noise_scale
        noise_scale = jnp.broadcast_to(jnp.asarray(noise_scale, x.dtype), leading)
        wide = noise_scale.reshape(*leading, *[1] * num_axes)
        scaled = x / jnp.sqrt(jnp.square(wide) + data_scale**2)
        level = jnp.broadcast_to(jnp.log(wide), (*x.shape[:-1], 1))
        base = 0.5 * jnp.sum(jnp.square(scaled), axis=range(-num_axes, 0))
        return jnp.concatenate([scaled, level], axis=-1), base, data_scale / noise_scale

    return show
