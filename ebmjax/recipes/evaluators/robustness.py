"""Robustness of a classifier, of its images as they are and refined by the model's chains."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from matplotlib.axes import Axes

from ebmjax import data, evaluate
from ebmjax._phases import say_part
from ebmjax.learning import ANY_CLASS, ChainPlan
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators.chains import DensitiesOf, move
from ebmjax.recipes.evaluators.evaluator import Evaluator, Found
from ebmjax.recipes.evaluators.plots import figure, legend
from ebmjax.types import Key

NORMS = ("linf", "l2")

Refine = Callable[[Any, Key, jax.Array], jax.Array]
"""``refine(trained, key, images) -> images``."""


@dataclass(frozen=True)
class Robustness(Evaluator):
    """Accuracy under attack; uses ``model.logits`` and ``model.refinement``.

    See ``evaluate.robustness``.
    """

    num_images: int = 128
    linf: tuple[float, ...] = (0, 4, 16, 32)
    l2: tuple[float, ...] = (0, 64, 128, 256)
    attack: Literal["pgd", "apgd_ce", "apgd_dlr", "apgd_t"] = "pgd"
    num_steps: int = 20
    step_size: float | None = None
    num_restarts: int = 1
    refine_steps: int = 0
    refine_gradients: Sequence[Literal["bpda", "full"]] = ("bpda", "full")
    num_eot: int = 1
    batch_size: int = 128

    def __call__(self, model: Any, test: data.ImageData, key: Key) -> Found:
        """Returns "robustness" and, if images are refined, its "refined" behind chains.

        Attacks on the plain classifier cost little, and a defence is judged against it.
        """
        key = jax.random.split(key, 3)[0]
        test = data.ImageData(*(array[: self.num_images] for array in test))
        say_part(f"attacking {len(test.images):,} images")
        report, withstood = self._attack(key, model, test, {})
        if self.refine_steps:
            say_part("attacking them again, refined by chains")
            refinement = {
                "transform": Partial(model.refinement(self.refine_steps), model.trained),
                "gradients": self.refine_gradients,
                "num_eot": self.num_eot,
            }
            refined_key = jax.random.fold_in(key, 1)
            report["refined"], others = self._attack(refined_key, model, test, refinement)
            withstood |= {f"refined.{name}": found for name, found in others.items()}
        per_image = {f"robustness.{name}": {"test": x} for name, x in withstood.items()}
        return Found({"robustness": report}, per_image=per_image)

    def _attack(
        self, key: Key, model: Any, test: data.ImageData, refinement: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns a report and its values by image."""
        names = ("linf", "l2", "attack", "num_steps", "step_size", "num_restarts", "batch_size")
        options: dict[str, Any] = {name: getattr(self, name) for name in names} | refinement
        report = evaluate.robustness(key, model.logits, test, **options)
        report["protocol"]["refine_steps"] = self.refine_steps if refinement else 0
        return report, report.pop("per_image")

    def check(self, model: Any, test: data.ImageData) -> None:
        """Raises ConfigError if a derivative is asked for that the sampler does not have."""
        if self.refine_steps and "full" in self.refine_gradients:
            refine = model.refinement(self.refine_steps)
            check_derivative(refine, model.abstract(test.images.shape[1:]), test.images.shape[1:])

    def draw(self, folder: Path, found: Found) -> None:
        """Draws ``eval_robustness.png``: accuracy against the attack's radius in both norms."""
        report = found.report["robustness"]
        norms = [norm for norm in NORMS if norm in report]
        if not norms:
            return
        protocol = report["protocol"]
        kinds = {"as it is": (report, "-"), "refined": (report.get("refined", {}), "--")}
        with figure(folder / "plots" / "eval_robustness.png", 1, len(norms)) as (axes,):
            for axis, norm in zip(axes, norms, strict=True):
                for label, (one, style) in kinds.items():
                    if norm in one:
                        axis.plot(*robustness_curve(one[norm]), f"o{style}", label=label)
                robustness_axis(axis, norm)
            if len(axes[0].lines) > 1:
                legend(axes[0].figure)
            axes[0].figure.suptitle(
                f"{self.attack}, {protocol['num_steps']} steps, {protocol['num_restarts']} "
                f"restart(s), {protocol['num_images']} images"
            )


def refinement(plan: ChainPlan, densities_of: DensitiesOf, num_steps: int) -> Refine:
    """Returns the function that moves images by ``num_steps`` of the plan's sampler."""

    def refine(model: Any, key: Key, images: jax.Array) -> jax.Array:
        labels = jnp.full(len(images), ANY_CLASS)
        return move(key, plan, densities_of, model, images, labels, num_steps)

    return refine


def check_derivative(refine: Refine, model: Any, shape: tuple[int, ...]) -> None:
    """Raises ConfigError if ``refine`` has no derivative for images of ``shape``; runs nothing.

    Args:
      refine: first argument is a model like ``model``.
      model: a trained model, or the shapes of one.
      shape: (H, W, C).
    """

    def summed(images: jax.Array, model: Any, key: Key) -> jax.Array:
        return jnp.sum(refine(model, key, images))

    images = jax.ShapeDtypeStruct((2, *shape), jnp.float32)
    try:
        jax.eval_shape(jax.grad(summed), images, model, jax.random.key(0))
    except ValueError as error:
        if "Reverse-mode" not in str(error):
            raise
        raise ConfigError(
            "config.eval.robustness.refine_gradients holds 'full', which needs the derivative of "
            "the run's sampler, and a loop of unknown length in it has none. Set "
            "--config.eval.robustness.refine_gradients=bpda."
        ) from error


def robustness_curve(by_level: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Returns radii in levels of 255 and accuracies, for one norm of a report."""
    return np.array([float(level) for level in by_level]), np.array(list(by_level.values()))


def robustness_axis(axis: Axes, norm: str) -> None:
    """Sets names and scale for ``robustness_curve``."""
    axis.set(xlabel=f"{norm} radius / 255", ylabel="robust accuracy", ylim=(-0.02, 1.02))
