"""Draws the picture of the README: four samplers on one curved, skewed density.

python docs/pictures.py
"""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
from matplotlib.axes import Axes

from ebmjax import samplers
from ebmjax.recipes.evaluators.plots import figure
from ebmjax.types import Sampler

NUM = 150
PATH = Path(__file__).parent / "images" / "samplers.png"


def log_density(x: jax.Array) -> jax.Array:
    """A banana, thicker at one end: position (2,) to scalar."""
    along, across = x[0], x[1] - 0.35 * x[0] ** 2
    return -0.5 * along**2 - 0.5 * (across / (0.5 + 0.2 * jnp.tanh(along))) ** 2


def after(sampler: Sampler, num_steps: int, is_particles: bool) -> jax.Array:
    """Positions of 150 chains or particles after ``num_steps`` from a tight ball, (150, 2)."""
    start = jnp.array([-1.5, 1.4]) + 0.3 * jax.random.normal(jax.random.key(0), (NUM, 2))
    init = sampler.init if is_particles else jax.vmap(sampler.init)
    step = sampler.step if is_particles else samplers.batch_step(sampler.step)
    run = jax.jit(lambda key, state: samplers.run_chain(key, state, step, num_steps)[0])
    return samplers.position_of(run(jax.random.key(1), init(start)))


def panel(axes: Axes, title: str, points: jax.Array) -> None:
    """Points over the density."""
    x, y = jnp.meshgrid(jnp.linspace(-3.2, 3.2, 200), jnp.linspace(-1.6, 4.2, 200))
    values = jax.vmap(jax.vmap(log_density))(jnp.stack([x, y], axis=-1))
    axes.contourf(x, y, jnp.exp(values), levels=14, cmap="Blues")
    axes.scatter(points[:, 0], points[:, 1], s=9, color="C1", edgecolors="white", lw=0.3)
    axes.set(xticks=[], yticks=[], xlim=(-3.2, 3.2), ylim=(-1.6, 4.2))
    axes.set_title(title)


def main() -> None:
    """Draws and saves."""
    shown: list[tuple[str, Callable[[], jax.Array]]] = [
        ("gradient descent", lambda: after(descent, 2000, False)),
        ("MALA", lambda: after(mala, 2000, False)),
        ("SVGD", lambda: after(svgd, 2000, True)),
        ("stochastic SVGD", lambda: after(hybrid, 4000, True)),
    ]
    descent = samplers.gradient_descent(log_density, step_size=0.02)
    mala = samplers.mala(log_density, step_size=0.08)
    svgd = samplers.svgd(log_density, step_size=0.2)
    hybrid = samplers.stochastic_svgd(log_density, step_size=0.4)
    PATH.parent.mkdir(exist_ok=True)
    with figure(PATH, 1, len(shown), size=(2.5, 2.6)) as (grid,):
        for axes, (title, points) in zip(grid, shown, strict=True):
            panel(axes, title, points())


if __name__ == "__main__":
    main()
