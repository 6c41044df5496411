"""Reconstructions of test images, and their log likelihoods at every power."""

from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import latent
from ebmjax._ranges import COUNT
from ebmjax.data import ImageData, to_signed_unit
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.evaluators.evidence import keys_of
from ebmjax.recipes.evaluators.samples import draw_sheet, take_first
from ebmjax.types import Key


def reconstruction(
    key: Key, model: Any, data: ImageData, *, num_images: Annotated[int, COUNT] = 352
) -> Found:
    """Returns mean squared errors and E_t of test images; the first reconstructions are arrays.

    Args:
      num_images: test images that are reconstructed, at most
    """

    @jax.jit
    def reconstruct(key: Key, params: Any, observations: jax.Array) -> Any:
        nodes = model.draw_ladder(key, params, observations)
        _, along = latent.telescoped_loss(
            params, model.networks, observations, nodes, nodes[0], model.powers
        )
        images = model.apply(params, nodes[-1])
        axes = tuple(range(1, images.ndim))
        return along, images, jnp.mean(jnp.square(images - observations), axis=axes)

    originals = data.images[:num_images]
    program = model.program("reconstruction", lambda: reconstruct)
    found = program(keys_of(key)["powers"], model.params, to_signed_unit(jnp.asarray(originals)))
    along, images, errors = jax.device_get(found)
    row = {
        "test_reconstruction_error": float(along["reconstruction_error"]),
        "test_mean_log_likelihoods": along["mean_log_likelihoods"].tolist(),
    }
    arrays = {"reconstructions": take_first(images)}
    arrays["originals"] = np.asarray(originals[: len(arrays["reconstructions"])])
    panels = {"test images": arrays["originals"], "reconstructions": arrays["reconstructions"]}
    pictures = {"reconstructions": partial(draw_sheet, panels=panels)}
    return Found(row, row, arrays, {"test_reconstruction_error": {"test": errors}}, pictures)
