"""Cost of one training step of a latent EBM: time, and operations with loops counted in full."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax

from ebmjax import metrics

TIMED_STEPS = 5


def cost(
    gradient_fn: Callable[..., Any], *arguments: Any, num_steps: int, pilot_seconds: float = 0.0
) -> dict[str, Any]:
    """Returns the cost of one repeat's gradient, chains included; the optimiser's is small.

    Args:
      gradient_fn: training's gradient function, jitted.
      *arguments: key, parameters, shard and a batch of training's size.
      num_steps: steps of the whole training.
      pilot_seconds: time of the pilot run without compilation.

    Returns:
      ``seconds_per_step`` (median of five calls after compilation), ``flops_per_step``, ``steps``,
      ``pilot_seconds``, and ``train_seconds`` of pilot and steps together.
    """
    _seconds(gradient_fn, arguments)  # compiles it, if need be
    seconds = statistics.median(_seconds(gradient_fn, arguments) for _ in range(TIMED_STEPS))
    return {
        "seconds_per_step": seconds,
        "flops_per_step": metrics.compiled_flops(gradient_fn, *arguments),
        "steps": num_steps,
        "pilot_seconds": pilot_seconds,
        "train_seconds": pilot_seconds + seconds * num_steps,
    }


def _seconds(gradient_fn: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    started = time.perf_counter()
    jax.block_until_ready(gradient_fn(*arguments))
    return time.perf_counter() - started
