"""Robustness of a classifier, of its images as they are and refined by the model's chains."""

from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from ebmjax import evaluate
from ebmjax._phases import say_part
from ebmjax._ranges import COUNT, WHOLE
from ebmjax.data import ImageData
from ebmjax.recipes.evaluators import Found
from ebmjax.types import Key


def robustness(
    key: Key,
    model: Any,
    data: ImageData,
    *,
    num_images: Annotated[int, COUNT] = 128,
    refine_steps: Annotated[int, WHOLE] = 0,
    **options: Any,
) -> Found:
    """Returns accuracy under attack and, if images are refined, "refined" behind chains.

    Attacks on the plain classifier cost little, and a defence is judged against it. Refined images
    are attacked by the chain's derivative, and with 1 in its place (BPDA). ``options`` are those of
    ``evaluate.robustness``.

    Args:
      num_images: test images that are attacked
      refine_steps: sampler steps before an attacked image is classified
    """
    key = jax.random.split(key, 3)[0]
    data = ImageData(*(array[:num_images] for array in data))
    say_part(f"attacking {len(data.images):,} images")
    options["batch_size"] = model.config.evals.batch_size
    per_image: dict[str, Any] = {}

    def attack_by(key: Key, prefix: str = "robustness.", **refinement: Any) -> dict[str, Any]:
        found = evaluate.robustness(key, model.logits, data, **options, **refinement)
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
        key, prefix = jax.random.fold_in(key, 1), "robustness.refined."
        report["refined"] = attack_by(key, prefix, transform=refine, gradients=gradients)
    return Found({"robustness": report}, per_image=per_image)
