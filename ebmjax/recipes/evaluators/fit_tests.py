"""Tests of fit: does the density fit held-out data, and are samples like them?"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, metrics
from ebmjax._groups import map_groups
from ebmjax._phases import say_part
from ebmjax._stored import take_rows
from ebmjax.evaluate import finite_images
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators.evaluator import Evaluator, Found
from ebmjax.recipes.evaluators.image_model import floats
from ebmjax.recipes.evaluators.plots import figure
from ebmjax.types import Key

TITLES = {
    "ksd": "KSD: does the density fit?",
    "mmd": "MMD: like held-out data?",
    "c2st": "classifier: like held-out data?",
}
LEVEL, LOWEST = 0.05, 1e-3
"""Dashed line of the picture, and the least p-value that it shows."""
LEAST = 4
"""Fewest examples of a set that the classifier's test takes."""


@dataclass(frozen=True)
class FitTests(Evaluator):
    """P-values of three tests, each beside the same test of starts and of training data.

    The kernel Stein discrepancy asks whether a set follows the density that chains aim at, at their
    temperature and in their box. MMD and a classifier ask whether a set is like held-out data; for
    images they look at the features of the run's extractor.

    It uses ``model.fresh_chains``, ``model.class_log_densities``, ``model.chain_scale``,
    ``model.train`` and ``model.distances``.
    """

    num_samples: int = 500
    tests: tuple[str, ...] = tuple(TITLES)
    batch_size: int = 128

    def check(self, model: Any, test: data.ImageData) -> None:
        """Refuses sets that are too small for a test."""
        num = min(self.num_samples, len(test.images), len(model.train.images))
        if num < LEAST:
            raise ConfigError(
                f"config.eval.fit needs at least {LEAST} samples, test and training examples, got "
                f"{num}: raise config.eval.fit.num_samples or config.data.max_test, or set "
                "--config.eval.fit.every=never."
            )

    def __call__(self, model: Any, test: data.ImageData, key: Key) -> Found:
        """Returns "fit": statistic (or accuracy) and p-value of every test and set."""
        chain_key, held_key, train_key, *keys = jax.random.split(key, 3 + len(TITLES))
        if hasattr(model.trained, "beta"):  # chains follow the model itself, as in ``density``
            model = replace(model, trained=model.trained._replace(beta=jnp.float32(0)))
        steps = model.num_chain_steps
        say_part(f"{self.num_samples:,} chains of {steps:,} steps")
        chains = model.fresh_chains(chain_key, self.num_samples, steps)
        chains = chains["fresh"] if isinstance(chains, dict) else chains
        ends = np.asarray(chains.ends)
        is_finite = np.isfinite(ends).all(axis=tuple(range(1, ends.ndim)))
        sets = {
            "held_out": self._draw(held_key, test.images),
            "samples": ends[is_finite],
            "starts": np.asarray(chains.starts),
            "train": self._draw(train_key, model.train.images),
        }
        facts = {**model.about(), **model.describe_chains()}
        temperature = facts.get("implied_temperature") or 1.0
        section, notes = model.config.sampler, []
        box = None if section.box == "none" else (section.low, section.high)
        if is_finite.sum() < LEAST:
            del sets["samples"]
            notes.append(f"{is_finite.sum()} chains stayed finite, too few to test samples.")
        report: dict[str, Any] = {
            "num_samples": self.num_samples,
            "num_diverged": int(np.sum(~is_finite)),
            "temperature": temperature,
            "notes": notes,
        }
        needed = {} if {*self.tests} <= {"ksd"} else sets
        features = {place: _features(model, x) for place, x in needed.items()}
        for name, one in zip(TITLES, keys, strict=True):
            if name not in self.tests:
                continue
            say_part(f"p-values of {name}")
            report[name] = {}
            for place, x in sets.items():
                if name == "ksd":
                    x = floats(x) if x.dtype == np.uint8 else jnp.asarray(x)
                    if box and (num := int(jnp.sum((x < box[0]) | (x > box[1])))):
                        notes.append(
                            f"ksd leaves out {place}: {num} of {x.size} numbers are outside of "
                            f"config.sampler.low={box[0]:g} to config.sampler.high={box[1]:g}."
                        )
                        continue
                    scores = self._scores(model)(model.trained, jnp.float32(temperature), x)
                    found = metrics.kernel_stein_discrepancy(one, x, scores, box=box)
                elif place == "held_out":
                    continue
                elif name == "mmd":
                    sides = features[place], features["held_out"]
                    found = metrics.kernel_two_sample_test(one, *sides)
                else:
                    sides = (jnp.asarray(features[k], jnp.float32) for k in (place, "held_out"))
                    found = metrics.classifier_two_sample_test(one, *sides)
                report[name][place] = {k: float(v) for k, v in found._asdict().items()}
        return Found({"fit": report})

    def _draw(self, key: Key, images: Any) -> np.ndarray:
        """Returns examples in random order, as many as are tested or all."""
        order = np.asarray(jax.random.permutation(key, len(images)))
        return take_rows(images, np.sort(order[: self.num_samples]))

    def _scores(self, model: Any) -> Any:
        def scores(trained: Any, temperature: jax.Array, x: jax.Array) -> jax.Array:
            def log_density(one: jax.Array) -> jax.Array:
                by_class = model.class_log_densities(trained, one)
                return model.chain_scale(trained) * jax.nn.logsumexp(by_class) / temperature

            return map_groups(jax.grad(log_density), x, min(self.batch_size, len(x)))

        return model.program("scores of the fit", lambda: jax.jit(scores))

    def draw(self, folder: Path, found: Found) -> None:
        """Draws ``eval_fit.png``: the p-value of every test and set, and the level of 5 %."""
        report = found.report["fit"]
        shown = {name: report[name] for name in TITLES if report.get(name)}
        if not shown:
            return
        path, size = folder / "plots" / "eval_fit.png", (3.6, 2.2)
        with figure(path, 1, len(shown), size=size, sharex=True) as (panels,):
            for axes, (name, sets) in zip(panels, shown.items(), strict=True):
                number = "accuracy" if name == "c2st" else "statistic"
                for row, one in enumerate(sets.values()):
                    p_value = one["p_value"]
                    axes.plot(max(p_value, LOWEST), row, "o" if p_value > LOWEST else "<", c="C0")
                texts = [f"{k.replace('_', ' ')}\n{one[number]:.3g}" for k, one in sets.items()]
                axes.set_yticks(range(len(texts)), texts)
                axes.axvline(LEVEL, color="C1", ls="--")
                axes.set(xscale="log", xlim=(LOWEST / 2, 2), ylim=(len(texts) - 0.5, -0.5))
                axes.set(xlabel="p-value", ylabel=number, title=TITLES[name])


def _features(model: Any, x: np.ndarray) -> np.ndarray:
    """Returns features (n, d) of images, or points as they are."""
    if model.distances is None:
        return x
    return model.distances.outputs(x if x.dtype == np.uint8 else finite_images(x))[0]
