"""Robustness of a classifier, of its images as they are and refined by the model's chains."""

from collections.abc import Sequence
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from ebmjax import evaluate
from ebmjax._phases import say_part
from ebmjax._ranges import COUNT, POSITIVE, RADIUS, WHOLE, one_of, optional
from ebmjax.data import ImageData
from ebmjax.recipes.evaluators import Found
from ebmjax.types import Key


def robustness(
    key: Key,
    model: Any,
    data: ImageData,
    *,
    num_images: Annotated[int, COUNT] = 128,
    linf: Annotated[Sequence[float], RADIUS] = (0, 4, 16, 32),
    l2: Annotated[Sequence[float], RADIUS] = (0, 64, 128, 256),
    attack: Annotated[Any, one_of("pgd", "apgd_ce", "apgd_dlr", "apgd_t")] = "pgd",
    num_steps: Annotated[int, COUNT] = 20,
    step_size: Annotated[float | None, optional(POSITIVE)] = None,
    num_restarts: Annotated[int, COUNT] = 1,
    refine_steps: Annotated[int, WHOLE] = 0,
    num_eot: Annotated[int, COUNT] = 1,
) -> Found:
    """Returns accuracy under attack and, if images are refined, "refined" behind chains.

    Attacks on the plain classifier cost little, and a defence is judged against it. Refined images
    are attacked by the chain's derivative, and with 1 in its place (BPDA).

    Args:
      num_images: test images that are attacked
      linf: radii in L-infinity, of 255
      l2: radii in L2, of 255
      attack: attack: PGD, or AutoPGD by cross-entropy, DLR or targeted DLR
      num_steps: steps of an attack
      step_size: step of PGD, of 255; None: 2.5 radii / steps
      num_restarts: random starts of an attack
      refine_steps: sampler steps before an attacked image is classified
      num_eot: gradients averaged in a step of an attack
    """
    key = jax.random.split(key, 3)[0]
    data = ImageData(*(array[:num_images] for array in data))
    say_part(f"attacking {len(data.images):,} images")
    per_image: dict[str, Any] = {}

    def attack_by(key: Key, prefix: str = "robustness.", **refinement: Any) -> dict[str, Any]:
        found = evaluate.robustness(
            key,
            model.logits,
            data,
            linf=linf,
            l2=l2,
            attack=attack,
            num_steps=num_steps,
            step_size=step_size,
            num_restarts=num_restarts,
            batch_size=model.config.evals.batch_size,
            **refinement,
        )
        found["protocol"]["refine_steps"] = refine_steps if refinement else 0
        per_image.update({prefix + k: {"test": v} for k, v in found.pop("per_image").items()})
        return found

    report = attack_by(key)
    if refine_steps:
        say_part("attacking them again, refined by chains")
        refine = Partial(model.refinement(refine_steps), model.trained)
        gradients = ("bpda", "full")
        try:
            of_sum = jax.grad(lambda x: jnp.sum(refine(key, x)))
            jax.eval_shape(of_sum, jax.ShapeDtypeStruct(data.images.shape, jnp.float32))
        except ValueError:  # a loop of unknown length has no derivative
            gradients = ("bpda",)
        report["refined"] = attack_by(
            jax.random.fold_in(key, 1),
            "robustness.refined.",
            transform=refine,
            gradients=gradients,
            num_eot=num_eot,
        )
    return Found({"robustness": report}, per_image=per_image)
