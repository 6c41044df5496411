"""Costs of a joint model's chains beside their gradients, and a train step's speed.

  python benchmarks/joint_training.py
  python benchmarks/joint_training.py --torch_python=ENVIRONMENT/bin/python --out FOLDER

Two comparisons, each of two things timed in turn, so that the ratios survive a machine whose speed
drifts:

- A chain of K steps of SGLD on a WRN-10-1, as training runs it, against K bare jitted gradients of
  the same log density. A ratio of 1 means that the sampler costs nothing.
- A train step of JEM on the digits under ``training.fit``, chains included, against the same step
  in plain PyTorch (_torch_jem.py), which runs in a process of its own. Below 1 ebmjax is faster.
  PyTorch is no dependency of this project: give --torch_python the Python of an environment that
  has it and NumPy. Without, this ratio is left out.

Prints one table; with --out also writes it as text and JSON, with a plot.
"""

import argparse
import datetime
import json
import os
import platform
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from _jem_step import make_classifier, make_plan, time_train_step
from sampler_throughput import at_least_one, seconds

from ebmjax import learning, losses
from ebmjax.recipes.__main__ import quietly
from ebmjax.types import Key, PyTree

TORCH = "PyTorch"
GRADIENTS = 60  # a timing of a chain is about as long, whatever the number of steps


class Row(NamedTuple):
    """One comparison: medians over the repeats, NaN where there was nothing to compare with.

    Attributes:
      subject: what was timed.
      reference: what it was timed against.
      subject_ms: what the one took.
      reference_ms: what the other took.
      ratio: of the two.
      ratio_low: smallest ratio of the repeats.
      ratio_high: largest.
      asked: what the ratio should not exceed.
    """

    subject: str
    reference: str
    subject_ms: float
    reference_ms: float
    ratio: float
    ratio_low: float
    ratio_high: float
    asked: float


def compare(subject: str, reference: str, pairs: list[tuple[float, float]], asked: float) -> Row:
    """The row of pairs of milliseconds."""
    times = np.array(pairs)
    ratios = times[:, 0] / times[:, 1]
    return Row(
        subject,
        reference,
        subject_ms=float(np.median(times[:, 0])),
        reference_ms=float(np.median(times[:, 1])),
        ratio=float(np.median(ratios)),
        ratio_low=float(ratios.min()),
        ratio_high=float(ratios.max()),
        asked=asked,
    )


def measure_chain(shape: tuple[int, ...], batch_size: int, num_steps: int, repeats: int) -> Row:
    """Times a chain against its bare gradients."""
    network = make_classifier()
    params, _ = jax.jit(network.init)(jax.random.key(0), jnp.zeros(shape))
    plan = make_plan(shape, batch_size, num_steps)
    starts = jax.random.uniform(jax.random.key(1), (batch_size, *shape), minval=-1.0)
    labels = jnp.zeros(batch_size, jnp.int32)

    def log_density(params: PyTree, x: jax.Array) -> jax.Array:
        return losses.joint_log_density(network.apply(params, {}, x)[0])

    @jax.jit
    def chain(keys: Key, params: PyTree, starts: jax.Array) -> Any:
        density = partial(log_density, params)
        return learning.run_chains(keys, lambda label: density, plan, starts, labels)

    @jax.jit
    def gradient(params: PyTree, x: jax.Array) -> Any:
        return jax.vmap(jax.value_and_grad(partial(log_density, params)))(x)

    keys, calls = jax.random.split(jax.random.key(2), 1), -(-GRADIENTS // num_steps)

    def pair() -> tuple[float, float]:
        chains = 1e3 * seconds(lambda: [chain(keys, params, starts) for _ in range(calls)])
        bare = 1e3 * seconds(lambda: [gradient(params, starts) for _ in range(calls * num_steps)])
        return chains / calls, bare / calls

    pairs = [pair() for _ in range(repeats + 1)][1:]  # the first compiles
    size = "x".join(map(str, shape))
    return compare(f"SGLD, {num_steps} steps, {size}", f"{num_steps} gradients", pairs, 1.1)


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    header = (
        f"{'subject':27} {'ms':>8}  {'reference':12} {'ms':>8} {'ratio':>6} {'(min-max)':>13} "
        f"{'asked':>8}"
    )
    lines = [
        f"{r.subject:27} {r.subject_ms:8.2f}  {r.reference:12} {r.reference_ms:8.2f} "
        f"{r.ratio:6.2f} {f'({r.ratio_low:.2f}-{r.ratio_high:.2f})':>13} {f'<= {r.asked}':>8}"
        for r in rows
    ]
    return "\n".join([header, "-" * len(header), *lines])


def machine(options: argparse.Namespace, loads: list[float], note: str) -> str:
    """Date, device, versions and how busy the machine was, for the head of the table."""
    device = jax.devices()[0]
    return (
        f"{datetime.date.today()}  {device.device_kind}, {os.cpu_count()} cores  jax "
        f"{jax.__version__}  {note}  python {platform.python_version()}  batch {options.batch}, "
        f"median of {options.repeats} repeats  load {min(loads):.1f} to {max(loads):.1f}"
    )


def plot(rows: list[Row], path: Path, title: str) -> None:
    """The ratios with their ranges, and what was asked of them."""
    from ebmjax.recipes.core.plots import figure

    with figure(path, size=(7, 1.2 + 0.4 * len(rows))) as ((axes,),):
        for place, row in enumerate(rows):
            ends = [[row.ratio - row.ratio_low], [row.ratio_high - row.ratio]]
            axes.barh(place, row.ratio, 0.6, xerr=ends, color=f"C{int(row.reference == TORCH)}")
            axes.vlines(row.asked, place - 0.4, place + 0.4, color="black", ls=":")
        axes.set_yticks(range(len(rows)), [f"{row.subject}\n/ {row.reference}" for row in rows])
        axes.invert_yaxis()
        axes.set(xlabel="ratio of times (dotted: asked)", xlim=(0, None), title=title)


def image_shape(text: str) -> tuple[int, ...]:
    """An argument such as 8x8x1."""
    parts = text.split("x")
    if len(parts) != 3:
        raise argparse.ArgumentTypeError(f"must be HEIGHTxWIDTHxCHANNELS, got {text!r}")
    return tuple(map(at_least_one, parts))


def main() -> None:
    """Measures everything and reports."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", nargs="+", type=image_shape, default=[(8, 8, 1), (16, 16, 1)])
    parser.add_argument("--steps", nargs="+", type=at_least_one, default=[5, 10, 20])
    parser.add_argument("--batch", type=at_least_one, default=64)
    parser.add_argument("--jem_steps", type=at_least_one, default=20, help="of JEM's chains")
    parser.add_argument("--block", type=at_least_one, default=22, help="train steps a timing")
    parser.add_argument("--repeats", type=at_least_one, default=9)
    parser.add_argument("--torch_python", type=Path, help="a Python that has PyTorch and NumPy")
    parser.add_argument("--out", type=Path, help="folder for the table, the JSON and the plot")
    options = parser.parse_args()

    loads = [os.getloadavg()[0]]
    rows = []
    for shape in options.images:
        for num_steps in options.steps:
            rows.append(measure_chain(shape, options.batch, num_steps, options.repeats))
            loads.append(os.getloadavg()[0])
    pairs, note = time_train_step(
        options.batch, options.jem_steps, options.block, options.repeats, options.torch_python
    )
    rows.append(compare(f"JEM train step, {options.jem_steps} steps", TORCH, pairs, 1.0))
    loads.append(os.getloadavg()[0])
    report(rows, machine(options, loads, note), options.out)


def report(rows: list[Row], head: str, folder: Path | None) -> None:
    """Prints the table and writes it into ``folder``."""
    text = f"{head}\n{table(rows)}".replace("nan", "  -")
    print(text)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        stem = folder / "joint_training"
        stem.with_suffix(".txt").write_text(text + "\n")
        plain = [
            {k: None if v != v else v for k, v in row._asdict().items()}  # JSON has no NaN
            for row in rows
        ]
        payload = {"machine": head, "rows": plain}
        stem.with_suffix(".json").write_text(json.dumps(payload, indent=1) + "\n")
        plot([row for row in rows if row.ratio == row.ratio], stem.with_suffix(".png"), head)


if __name__ == "__main__":
    quietly(main)
