"""The table of samplers and wrapped samplers that the contract is checked over: a row each."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from sampler_names import init_of, with_a_key

from ebmjax import samplers
from ebmjax.samplers import clamp, clip_drift, clip_score, reflect, schedule


def skewed(position):
    """A log density of any PyTree, asymmetric in every coordinate."""
    return sum(jnp.sum(1.5 * leaf - jnp.exp(leaf)) for leaf in jax.tree.leaves(position))


class Row(NamedTuple):
    """A sampler under test, whose ``init`` needs no key: without one it draws by a fixed one.

    ``hyperparameters`` are numbers and may all be traced; ``options`` are static. ``functional``
    is the pair (init, step), which wrapped samplers do not have. ``uses_in_program`` counts the log
    density and its derivative in a step's program.
    """

    make: Callable[..., samplers.Sampler]
    hyperparameters: dict[str, Any]
    functional: tuple[Callable[..., Any], Callable[..., Any]] | None = None
    options: dict[str, Any] = {}  # noqa: RUF012 (never written to)
    is_random: bool = True
    has_particles: bool = False
    uses_in_program: tuple[int, int] = (1, 1)
    info_shapes: tuple[tuple[int, ...], ...] = ((), (6,))

    def bind(self, log_density_fn, **overrides):
        return with_a_key(
            self.make(log_density_fn, **self.hyperparameters, **self.options, **overrides)
        )

    @property
    def sampler(self):
        return self.bind(skewed)

    @property
    def compiled(self):
        """``sampler`` compiled: one compilation serves every test of the row."""
        return compiled_sampler(id(self))


@cache
def compiled_sampler(entry_id):
    (entry,) = [entry for entry in TABLE.values() if id(entry) == entry_id]
    sampler = entry.sampler
    return samplers.Sampler(jax.jit(sampler.init), jax.jit(sampler.step))


def row(name, hyperparameters, **fields):
    functional = (init_of(name), getattr(samplers, f"{name}_step"))
    return Row(getattr(samplers, name), hyperparameters, functional, **fields)


psgld = {"step_size": 0.05, "temperature": 0.8, "decay": 0.9, "damping": 0.1}
TABLE = {
    "gradient_descent": row("gradient_descent", {"step_size": 0.1}, is_random=False),
    "sgld": row("sgld", {"step_size": 0.1, "temperature": 0.5}),
    "sgld_free_noise": row("sgld", {"step_size": 0.1, "noise_scale": 0.3}),
    "psgld": row("psgld", psgld),
    "psgld_image_form": row(
        "psgld", {"step_size": 0.05, "noise_scale": 0.2, "decay": 0.9, "damping": 0.1}
    ),
    # The Hessian-vector product differentiates a second gradient.
    "psgld_curvature": row(
        "psgld", psgld, options={"curvature_drift": True}, uses_in_program=(2, 3)
    ),
    "tilted_langevin": row("tilted_langevin", {"step_size": 0.1, "temperature": 0.5}),
    "mala": row("mala", {"step_size": 0.2, "noise_scale": 0.5, "temperature": 0.7}),
    "hmc": row(
        "hmc", {"step_size": 0.1, "temperature": 0.7}, options={"num_integration_steps": 3}
    ),
    "tempered_mala": row(
        "tempered_mala",
        {"step_size": 0.2, "noise_scale": 0.3, "acceptance_threshold": 0.75,
         "temperature_growth": 3.0, "acceptance_decay": 0.2},
    ),
    "underdamped_langevin": row(
        "underdamped_langevin",
        {"step_size": 0.05, "friction": 0.7},
    ),
    # Swaps evaluate every replica, which is then scored anew.
    "parallel_tempering": row(
        "parallel_tempering",
        {"step_size": 0.1},
        options={"powers": (0.2, 0.5, 1.0)},
        uses_in_program=(3, 2),
        info_shapes=((), (2,), (3,)),
    ),
    "svgd": row("svgd", {"step_size": 0.3}, is_random=False, has_particles=True),
    "svgd_fixed_bandwidth": row(
        "svgd",
        {"step_size": 0.3, "bandwidth": 0.7, "drive": 0.8},
        is_random=False,
        has_particles=True,
    ),
    # A first step has no history for the decay to weigh.
    "adaptive_svgd": row(
        "adaptive_svgd",
        {"step_size": 0.1, "damping": 0.1},
        options={"decay": 0.8},
        is_random=False,
        has_particles=True,
    ),
    "stochastic_svgd": row(
        "stochastic_svgd",
        {"step_size": 0.1, "bandwidth": 0.7, "temperature": 0.9, "langevin_weight": 0.1},
        has_particles=True,
    ),
    "stochastic_svgd_median_rule": row("stochastic_svgd", {"step_size": 0.1}, has_particles=True),
    # Split where nothing comes before the head; tests/samplers/test_pyld.py splits for real.
    "pyld": Row(
        partial(samplers.pyld, lambda position: position),
        {"step_size": 0.1, "noise_scale": 0.2, "max_score": 0.5, "outer_step_size": 0.05,
         "low": -0.4, "high": 0.3},
        options={"num_inner": 3},
    ),
    "reflected_mala": Row(reflect(samplers.mala, -0.5, 0.5), {"step_size": 0.1}),
    "clamped_sgld": Row(clamp(samplers.sgld, -0.5, 0.5), {"step_size": 0.1}),
    "clipped_sgld": Row(clip_drift(samplers.sgld, 0.05), {"step_size": 0.1}),
    "sgld_of_clipped_score": Row(
        lambda log_density_fn, **options: samplers.sgld(
            clip_score(log_density_fn, 0.5), **options
        ),
        {"step_size": 0.1},
    ),
    "scheduled_sgld": Row(
        schedule(samplers.sgld),
        {"noise_scale": 0.1},
        options={"step_size": optax.exponential_decay(0.2, 2, 0.5)},
    ),
}  # fmt: skip
