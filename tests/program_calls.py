"""Prints, for every driver and loop, how often equal calls outside of jit compile once it ran.

At the end it prints how many of the arrays are still there that only a user's function held.
"""

import gc
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import evaluate, evidence, metrics, optim, samplers
from ebmjax.data import ImageData
from ebmjax.samplers import batch_step, run_chain, sgld, trace_chain


def parabola(x: jax.Array) -> jax.Array:
    return -0.5 * jnp.sum(x**2)


def start() -> Any:
    return jax.vmap(sgld(parabola, step_size=0.1).init)(jnp.ones((2, 3)))


held: list[Any] = []


def new_classifier(key: Any) -> Callable[[jax.Array], jax.Array]:
    """A classifier made anew, whose weights nobody else is to keep."""
    weights = jax.random.normal(key, (4, 2))
    held.append(weakref.ref(weights))
    return lambda x: x.reshape(len(x), 4) @ weights


def attacked(key: Any, shape: tuple[int, ...] = (2, 2, 2)) -> tuple[Any, Any, jax.Array, jax.Array]:
    """A key, a classifier made anew, and two images with their labels."""
    logits_fn = new_classifier(key)
    return key, lambda key, x: logits_fn(x), jnp.zeros(shape), jnp.array([0, 1])


ATTACK: dict[str, Any] = {"norm": "linf", "num_steps": 2}
TEST = ImageData(np.zeros((2, 2, 2, 1), np.uint8), np.array([0, 1]))
start_fn = samplers.uniform_start((2,), -1.0, 1.0)
tilt = partial(samplers.mala, step_size=0.3)
CALLS: dict[str, Callable[[Any], Any]] = {
    "run_chain": lambda key: run_chain(
        key, sgld(parabola, step_size=0.1).init(jnp.ones(3)), sgld(parabola, step_size=0.1).step, 7
    ),
    "run_chain_of_many": lambda key: run_chain(
        key, start(), batch_step(sgld(parabola, step_size=0.1).step), 7, burn_in=1
    ),
    "trace_chain": lambda key: trace_chain(
        jax.random.split(key, 7), start(), batch_step(sgld(parabola, step_size=0.1).step)
    ),
    "svgd": lambda key: samplers.svgd_direction(jax.random.normal(key, (5, 2)), parabola),
    "stochastic_svgd": lambda key: samplers.stochastic_svgd_step(
        key, samplers.svgd_init(jnp.arange(12.0).reshape(6, 2), parabola), parabola, step_size=0.1
    ),
    "pyld": lambda key: samplers.pyld_step(
        key,
        samplers.pyld_init(jnp.ones(3), lambda x: 2 * x, parabola),
        lambda x: 2 * x,
        parabola,
        step_size=0.1,
        num_inner=2,
    ),
    "replay_buffer": lambda key: samplers.replay_buffer_draw(
        key, samplers.replay_buffer_init(key, 8, start_fn), 4, start_fn, reinit_prob=0.5
    ),
    "annealed_importance_sampling": lambda key: evidence.annealed_importance_sampling(
        key, jnp.zeros(4), jnp.linspace(0, 1, 3), parabola, parabola, sampler=tilt, num_steps=2
    ),
    "landscape": lambda key: metrics.energy_landscape(
        lambda w: jnp.sum(w**2), jnp.ones(2), jnp.ones(2), jnp.arange(2.0), [0.0, 1.0], [0.0, 1.0]
    ),
    "pgd_attack": lambda key: metrics.pgd_attack(*attacked(key), epsilon=0.1, **ATTACK),
    "apgd_attack": lambda key: metrics.apgd_attack(
        *attacked(key), epsilon=0.1, norm="linf", num_steps=2
    ),
    "robustness": lambda key: evaluate.robustness(key, new_classifier(key), TEST, num_steps=2),
    "classifier": lambda key: evaluate.classifier(new_classifier(key), TEST),
    "sam": lambda key: optim.sam_gradients(lambda w: (jnp.sum(w**2), {}), jnp.ones(2), rho=0.1),
}


if __name__ == "__main__":
    names: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: names.append(name))
    for label, call in CALLS.items():
        for seed in range(2):
            call(jax.random.key(seed))
        names.clear()
        for seed in range(3):
            call(jax.random.key(seed))
        print(f"{label}={sum('backend_compile' in name for name in names)}")
    gc.collect()
    print(f"arrays_held={sum(ref() is not None for ref in held)}")
