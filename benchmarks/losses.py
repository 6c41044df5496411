"""Losses and their gradients beside ebmkit's and torchebm's, at equal weights and draws.

An MLP's energy of points, in float64. Nothing is timed. Where a library's
loss has another factor or constant, it is brought to ours first:

- denoising: theirs is d / (2 sigma^2) times ours, which is per coordinate and weighted by sigma^2;
  of many levels, where ebmkit weighs by sigma^2 too, d / 2 times;
- energy discrepancy: ebmkit's is log(M) above ours;
- sliced: torchebm's has the projected score's square, ours and ebmkit's the score's norm.
"""

import argparse
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import _harness as harness
import jax
import jax.numpy as jnp
import numpy as np
from _peers import TorchProcess

from ebmjax import losses
from ebmjax.types import PyTree

WEIGHTS = ("w0", "b0", "w1", "w2")
NUM, DIMENSION, WIDTH, COPIES = 64, 3, 32, 8


def draw_arrays(seed: int) -> dict[str, np.ndarray]:
    """Returns weights, points and all draws, float64."""
    rng = np.random.default_rng(seed)
    shapes = {"w0": (DIMENSION, WIDTH), "b0": (WIDTH,), "w1": (WIDTH, WIDTH), "w2": (WIDTH,)}
    shapes |= {"x": (NUM, DIMENSION), "noise": (NUM, DIMENSION), "negatives": (2 * NUM, DIMENSION)}
    shapes |= {"copies": (NUM, COPIES, DIMENSION), "signs": (NUM, DIMENSION)}
    found = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    found |= {name: found[name] / math.sqrt(len(found[name])) for name in ("w0", "w1")}
    found["signs"] = np.sign(found["signs"])
    found["sigmas"] = np.array([1.0, 0.3, 0.1])
    found["levels"] = rng.integers(3, size=NUM)
    numbers = {"sigma": 0.3, "l2": 0.01, "log_z": 0.7, "stabiliser": 0.5}
    return found | {name: np.asarray(value) for name, value in numbers.items()}


def our_losses(arrays: dict[str, Any]) -> dict[str, Callable[[PyTree], Any]]:
    """Returns our losses as functions of the weights, by the names of the peers' rows."""
    a = {name: jnp.asarray(array) for name, array in arrays.items()}
    x, noise, signs, sigma = a["x"], a["noise"], a["signs"], a["sigma"]

    def energy(weights: PyTree, x: jax.Array) -> jax.Array:
        hidden = jax.nn.silu(jnp.dot(x, weights["w0"]) + weights["b0"][None])
        return jnp.dot(jax.nn.silu(jnp.dot(hidden, weights["w1"])), weights["w2"])

    def score_fn(weights: PyTree) -> Callable[[jax.Array], jax.Array]:
        return jax.grad(lambda x: -jnp.sum(energy(weights, x)))

    def divergence(weights: PyTree) -> Any:
        found = losses.contrastive_divergence_loss(
            energy(weights, x), energy(weights, a["negatives"]), energy_l2=a["l2"]
        )
        return found[0]

    def denoising(weights: PyTree) -> Any:
        score = score_fn(weights)(x + sigma * noise)
        loss, _ = losses.denoising_score_matching_loss(score, noise, noise_scale=sigma)
        return loss * DIMENSION / (2 * sigma**2)

    def of_levels(weights: PyTree) -> Any:
        scales = a["sigmas"][a["levels"]]
        score = score_fn(weights)(x + scales[:, None] * noise)
        loss, _ = losses.denoising_score_matching_loss(score, noise, noise_scale=scales)
        return loss * DIMENSION / 2

    def exact(weights: PyTree) -> Any:
        jacobians = jax.vmap(jax.jacfwd(score_fn(weights)))(x)
        traces = jnp.trace(jacobians, axis1=1, axis2=2)
        return losses.score_matching_loss(score_fn(weights)(x), traces)[0]

    def sliced(weights: PyTree, is_projected: bool = False) -> Any:
        score, slope = jax.jvp(score_fn(weights), (x,), (signs,))
        projected = jnp.sum(score * signs, axis=1, keepdims=True)
        squared = projected if is_projected else score
        return losses.score_matching_loss(squared, jnp.sum(slope * signs, axis=1))[0]

    def discrepancy(weights: PyTree) -> Any:
        copies = x[:, None] + sigma * noise[:, None] + sigma * a["copies"]
        perturbed = energy(weights, copies.reshape(-1, DIMENSION)).reshape(NUM, COPIES)
        loss, _ = losses.energy_discrepancy_loss(
            energy(weights, x), perturbed, stabiliser=a["stabiliser"]
        )
        return loss + math.log(COPIES)

    def contrastive(weights: PyTree) -> Any:
        def ratio(x: jax.Array) -> jax.Array:
            log_noise = -0.5 * jnp.sum(x**2, axis=1) - 0.5 * DIMENSION * math.log(2 * math.pi)
            return -energy(weights, x) - a["log_z"] - log_noise

        return losses.noise_contrastive_loss(ratio(x), ratio(a["negatives"]))[0]

    both = {"contrastive divergence": divergence, "denoising": denoising, "score matching": exact}
    return {
        **{f"{name}, {peer}": fn for name, fn in both.items() for peer in ("ebmkit", "torchebm")},
        "denoising of many levels, ebmkit": of_levels,
        "sliced, ebmkit": sliced,
        "sliced, torchebm": lambda weights: sliced(weights, True),
        "energy discrepancy, ebmkit": discrepancy,
        "noise-contrastive, ebmkit": contrastive,
    }


def compare(arrays: dict[str, np.ndarray], theirs: dict[str, Any]) -> Iterator[harness.Row]:
    """Yields a row for each loss and library: values, and relative differences."""
    weights = {name: jnp.asarray(arrays[name]) for name in WEIGHTS}
    for name, fn in our_losses(arrays).items():
        value, gradients = jax.value_and_grad(fn)(weights)
        gradient = np.concatenate([np.ravel(gradients[one]) for one in WEIGHTS])
        there = np.asarray(theirs[name]["gradient"])
        loss, peer = name.split(", ")
        yield {
            "loss": loss,
            "library": peer,
            "ours": float(value),
            "theirs": theirs[name]["loss"],
            "difference": abs(float(value) / theirs[name]["loss"] - 1),
            "of gradients": float(np.linalg.norm(gradient - there) / np.linalg.norm(there)),
        }


def rows(name: str, options: argparse.Namespace) -> Iterator[harness.Row]:
    """Compares all losses."""
    del name, options
    process, arrays = TorchProcess(1), draw_arrays(seed=0)
    harness.VERSIONS.update(process.about)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "arrays.npz"
        np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
        theirs = process.ask("losses", file=str(file))
    process.close()
    with jax.enable_x64(True):
        found = list(compare(arrays, theirs))
    yield from found
