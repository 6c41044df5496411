"""Costs of a joint model's chains beside their gradients, and a train step's speed.

  python benchmarks/joint_training.py
  python benchmarks/joint_training.py --torch_python=ENVIRONMENT/bin/python --out FOLDER

Two comparisons, each of two things timed in turn, so that the ratios survive a machine whose speed
drifts:

- A chain of K steps of SGLD on a WRN-10-1, as training runs it, against K bare jitted gradients of
  the same log density. A ratio of 1 means that the sampler costs nothing.
- A train step of JEM on the digits under ``training.fit``, chains included, against the same step
  in plain PyTorch (_torch.py), which runs in a process of its own. Below 1 ebmjax is faster.
  PyTorch is no dependency of this project: give --torch_python the Python of an environment that
  has it and NumPy. Without, this ratio is left out.

Prints one table; with --out also writes it as text and JSON, with a figure.
"""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import _harness as harness
import jax
import jax.numpy as jnp
from _chains import beside_gradients
from _jem_step import make_classifier, make_jem_step, make_plan, start_torch, time_blocks

from ebmjax import data, learning, losses
from ebmjax.recipes.__main__ import quietly
from ebmjax.types import Key, PyTree

GRADIENTS = 60  # a timing of a chain is about as long, whatever the number of steps


def compare(
    subject: str,
    reference: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    per: int,
    asked: float,
) -> harness.Row:
    """Returns a row of seconds, each of ``per`` times the work; ``asked`` limits the ratio."""
    return {
        "subject": subject,
        "ms": harness.median_ms(ours) / per,
        "reference": reference,
        "its ms": harness.median_ms(theirs) / per,
        "ratio": harness.spread_of_ratios(ours, theirs),
        "asked": f"<= {asked}",
    }


def measure_chain(
    shape: tuple[int, ...], batch_size: int, num_steps: int, repeats: int
) -> harness.Row:
    """Times a chain against its bare gradients."""
    network, plan = make_classifier(), make_plan(shape, batch_size, num_steps)
    params, _ = jax.jit(network.init)(jax.random.key(0), jnp.zeros(shape))
    starts = jax.random.uniform(jax.random.key(1), (batch_size, *shape), minval=-1.0)
    keys, labels = jax.random.split(jax.random.key(2), 1), jnp.zeros(batch_size, jnp.int32)

    def log_density(params: PyTree, x: jax.Array) -> jax.Array:
        return losses.joint_log_density(network.apply(params, {}, x)[0])

    @jax.jit
    def chain(keys: Key, params: PyTree, starts: jax.Array) -> Any:
        density = partial(log_density, params)
        return learning.run_chains(keys, lambda label: density, plan, starts, labels)

    @jax.jit
    def gradient(params: PyTree, x: jax.Array) -> Any:
        return jax.vmap(jax.value_and_grad(partial(log_density, params)))(x)

    calls = -(-GRADIENTS // num_steps)
    both = partial(chain, keys, params, starts), partial(gradient, params, starts)
    ours, bare = beside_gradients(*both, num_steps, repeats, calls)
    subject = f"SGLD, {num_steps} steps, {'x'.join(map(str, shape))}"
    return compare(subject, f"{num_steps} gradients", ours, bare, calls, 1.1)


def measure_train_step(
    batch_size: int, num_steps: int, block: int, repeats: int, torch_python: Path | None
) -> tuple[harness.Row, str]:
    """Times JEM's train step beside PyTorch's; also says what PyTorch it was."""
    step, state = make_jem_step(batch_size, num_steps)
    timed = partial(time_blocks, step, state, data.load_digits("train"), (batch_size, batch_size))
    if torch_python is None:
        times, note = timed(block, repeats)[0], "no PyTorch, for want of --torch_python"
    else:
        torch = start_torch(torch_python, state.params, batch_size=batch_size, num_steps=num_steps)
        note = f"PyTorch {torch.about['PyTorch']} with {torch.about['threads']} threads"
        times, _ = timed(block, repeats, lambda: torch.ask("train", calls=block))
        torch.close()
    return compare(f"JEM train step, {num_steps} steps", "PyTorch", *times, block, 1.0), note


def image_shape(text: str) -> tuple[int, ...]:
    """Reads an argument such as 8x8x1."""
    parts = text.split("x")
    if len(parts) != 3:
        raise argparse.ArgumentTypeError(f"must be HEIGHTxWIDTHxCHANNELS, got {text!r}")
    return tuple(map(harness.at_least_one, parts))


def main() -> None:
    """Measures everything and reports."""
    parser, count = harness.make_parser(__doc__), harness.at_least_one
    parser.add_argument("--images", nargs="+", type=image_shape, default=[(8, 8, 1), (16, 16, 1)])
    parser.add_argument("--steps", nargs="+", type=count, default=[5, 10, 20])
    parser.add_argument("--batch", type=count, default=64)
    parser.add_argument("--jem_steps", type=count, default=20, help="of JEM's chains")
    parser.add_argument("--block", type=count, default=22, help="train steps a timing")
    parser.add_argument("--repeats", type=count, default=9)
    parser.add_argument("--torch_python", type=Path, help="a Python that has PyTorch and NumPy")
    options = parser.parse_args()
    rows = [
        measure_chain(shape, options.batch, num_steps, options.repeats)
        for shape in options.images
        for num_steps in options.steps
    ]
    row, note = measure_train_step(
        options.batch, options.jem_steps, options.block, options.repeats, options.torch_python
    )
    batch = f"batch {options.batch}, median of {options.repeats} repeats"
    harness.report("joint_training", [*rows, row], options.out, note, batch)


if __name__ == "__main__":
    quietly(main)
