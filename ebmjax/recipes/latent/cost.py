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
    """Cost of one repeat's gradient, chains included; the optimiser's update is small beside it.

    Args:
      gradient_fn: the one that trains, jitted.
      *arguments: key, parameters, shard and a batch of training's size.
      num_steps: of the whole training.
      pilot_seconds: of a pilot run that training rests on, compilation left out.

    Returns:
      ``seconds_per_step``, the median of five calls after compilation; ``flops_per_step``;
      ``steps``; ``pilot_seconds``; ``train_seconds``, which are those and the steps' together.
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
