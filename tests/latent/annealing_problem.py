"""The path from a base Gaussian to a posterior whose normalising constants are known."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ebmjax import latent
from ebmjax.samplers import mala
from ebmjax.types import Sampler

MODEL = latent.linear_gaussian_model(base_scale=1.3, likelihood_scale=0.6)
PARAMS = latent.LatentParams(
    latent.QuadraticPrior(jnp.array([[0.7, 0.2], [0.2, 0.3]]), jnp.array([0.8, -0.4])),
    latent.LinearGenerator(jnp.array([[1.0, -0.5], [0.3, 0.9]]), jnp.array([0.1, -0.2])),
)
X = jnp.array([1.5, -0.8])
LOG_Z = float(latent.linear_gaussian_log_normalizer(PARAMS, MODEL))
LOG_EVIDENCE = float(latent.linear_gaussian_log_evidence(PARAMS, MODEL, X))
POWERS = latent.power_schedule(6, 2.0)
MALA = functools.partial(mala, step_size=0.1)


def base_draws(seed, shape):
    return MODEL.base_scale * jax.random.normal(jax.random.key(seed), (*shape, 2))


class State(NamedTuple):
    position: Any


def fixed_shift(shift):
    """A step that moves by ``shift``, so that the weights can be followed by hand."""

    def factory(log_density_fn):
        return Sampler(
            init=lambda position: State(position),
            step=lambda key, state: (State(state.position + shift), log_density_fn(state.position)),
        )

    return factory


BAD_INPUT = [
    ({"num_steps": 0}, "num_steps.*at least 1"),
    ({"powers": jnp.array([0.0, 0.5])}, "run from 0"),
    ({"start": jnp.zeros(())}, "start must be arrays that share their leading axis"),
    ({"tilt": lambda z: jnp.stack([z, z])}, "must return a scalar"),
]


def try_with(estimator, sampler, start, *, powers=POWERS, tilt=lambda z: z, num_steps=1):
    """``estimator`` on a path of numbers, with the arguments that can be bad."""
    key, base = jax.random.key(0), lambda z: -(z**2)
    return estimator(key, start, powers, base, tilt, sampler=sampler, num_steps=num_steps)
