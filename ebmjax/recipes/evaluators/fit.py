"""Tests of fit: does the density fit held-out data, and are samples like them?"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import metrics
from ebmjax._groups import map_groups
from ebmjax._phases import say_part
from ebmjax._ranges import TWO_OR_MORE
from ebmjax._stored import take_rows
from ebmjax.data import ImageData, to_signed_unit
from ebmjax.evaluate import finite_images
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators import Found
from ebmjax.types import Key

TESTS = ("ksd", "mmd", "c2st")
LEAST = 4
"""Fewest examples of a set that the classifier's test takes."""


def fit(
    key: Key, model: Any, data: ImageData, *, num_samples: Annotated[int, TWO_OR_MORE] = 500
) -> Found:
    """Returns "fit": statistic (or accuracy) and p-value of each test of every set.

    The kernel Stein discrepancy asks whether a set follows the density that chains aim at, at their
    temperature and in their box. MMD and a classifier ask whether a set is like held-out data; for
    images they look at the features of the run's extractor.

    Args:
      num_samples: chains, and examples of each other set
    """
    chain_key, held_key, train_key, *keys = jax.random.split(key, 3 + len(TESTS))
    if hasattr(model.trained, "beta"):  # chains follow the model itself, as in ``density``
        model = replace(model, trained=model.trained._replace(beta=jnp.float32(0)))
    say_part(f"{num_samples:,} chains of {model.num_chain_steps:,} steps")
    chains = model.fresh_chains(chain_key, num_samples, model.num_chain_steps)
    ends = np.asarray(chains.ends)
    is_finite = np.isfinite(ends).all(axis=tuple(range(1, ends.ndim)))
    sets = {
        "held_out": _choose(held_key, data.images, num_samples),
        "samples": ends[is_finite],
        "starts": np.asarray(chains.starts),
        "train": _choose(train_key, model.train.images, num_samples),
    }
    temperature = model.about().get("implied_temperature") or 1.0
    notes: list[str] = []
    if is_finite.sum() < LEAST:
        del sets["samples"]
        notes.append(f"{is_finite.sum()} chains stayed finite, too few to test samples.")
    report: dict[str, Any] = {
        "num_samples": num_samples,
        "num_diverged": int(np.sum(~is_finite)),
        "temperature": temperature,
        "notes": notes,
    }
    features = {place: _features(model, x) for place, x in sets.items()}
    held_out = features.pop("held_out")
    for name, one in zip(TESTS, keys, strict=True):
        say_part(f"p-values of {name}")
        if name == "ksd":
            found = _stein(one, model, temperature, sets, notes)
        elif name == "mmd":
            test = partial(metrics.kernel_two_sample_test, one)
            found = {place: test(x, held_out) for place, x in features.items()}
        else:
            test, theirs = partial(metrics.classifier_two_sample_test, one), _as_floats(held_out)
            found = {place: test(_as_floats(x), theirs) for place, x in features.items()}
        report[name] = {
            place: {k: float(v) for k, v in one._asdict().items()} for place, one in found.items()
        }
    return Found({"fit": report})


def check(model: Any, data: ImageData, *, num_samples: int, **_: Any) -> None:
    """Refuses sets that are too small for a test."""
    num = min(num_samples, len(data.images), len(model.train.images))
    if num < LEAST:
        raise ConfigError(
            f"config.evals.fit needs at least {LEAST} samples, test and training examples, got "
            f"{num}: raise config.evals.fit.num_samples or config.data.max_test, or set "
            "--config.evals.fit.every=never."
        )


def _choose(key: Key, images: Any, num: int) -> np.ndarray:
    """Returns examples in random order, ``num`` or all."""
    order = np.asarray(jax.random.permutation(key, len(images)))
    return take_rows(images, np.sort(order[:num]))


def _stein(
    key: Key, model: Any, temperature: float, sets: Mapping[str, np.ndarray], notes: list[str]
) -> dict[str, Any]:
    """Returns the kernel Stein discrepancy of each set that lies in the box; notes of others."""

    def scores(trained: Any, temperature: jax.Array, x: jax.Array) -> jax.Array:
        def log_density(one: jax.Array) -> jax.Array:
            by_class = model.class_log_densities(trained, one)
            return trained.scale / model.output_scale * jax.nn.logsumexp(by_class) / temperature

        return map_groups(jax.grad(log_density), x, min(model.config.evals.batch_size, len(x)))

    program = model.program("scores of the fit", lambda: jax.jit(scores))
    section, found = model.config.sampler, {}
    box = None if section.box == "none" else (section.low, section.high)
    for place, x in sets.items():
        x = jnp.asarray(x)
        x = to_signed_unit(x) if x.dtype == jnp.uint8 else x
        if box and (num := int(jnp.sum((x < box[0]) | (x > box[1])))):
            notes.append(
                f"ksd leaves out {place}: {num} of {x.size} numbers are outside of "
                f"config.sampler.low={box[0]:g} to config.sampler.high={box[1]:g}."
            )
            continue
        at = program(model.trained, jnp.float32(temperature), x)
        found[place] = metrics.kernel_stein_discrepancy(key, x, at, box=box)
    return found


def _features(model: Any, x: np.ndarray) -> np.ndarray:
    """Returns features (n, d) of images, or points as they are."""
    if model.distances is None:
        return x
    return model.distances.outputs(x if x.dtype == np.uint8 else finite_images(x))[0]


def _as_floats(x: Any) -> jax.Array:
    return jnp.asarray(x, jnp.float32)
