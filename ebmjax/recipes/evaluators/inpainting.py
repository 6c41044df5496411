"""Images of which a part is known, completed by a model's chains; and scores of such images."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from ebmjax._groups import map_groups
from ebmjax._npy import find_array
from ebmjax._phases import say_part
from ebmjax._ranges import COUNT, TWO_OR_MORE, one_of
from ebmjax._shown import SEE_FAQ, trim
from ebmjax.data import ImageData, from_signed_unit, to_signed_unit
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.evaluators.samples import draw_sheet
from ebmjax.types import Key

KEY_NUMBER, NUM_ROWS, NUM_SAMPLES, HIDDEN = 2**31 + 2, 10, 8, 128
"""Folded into an evaluation's key; rows, samples and the grey of unknown pixels of a picture."""


class Given(NamedTuple):
    """Images (n, H, W, C) in [-1, 1] that are known in part.

    Pixels are free where ``mask`` (H, W) is True. Or all are, and ``operator`` of one image was
    observed (n, ...), under Gaussian noise of the standard deviation ``noise``.
    """

    images: Any
    mask: np.ndarray
    operator: Callable[[jax.Array], jax.Array] | None = None
    observed: Any = None
    noise: Any = None

    def run(self, key: Key, model: Any, num: int, *steps_and_label: Any) -> dict[str, np.ndarray]:
        """Returns "images" and "start_images" (n, num, H, W, C), uint8, and "mask".

        ``model.conditional_chains`` returns a function of shared arrays and of a row (key, image,
        observation, more) to free pixels (num, free, C) of starts and ends, and what it takes.
        """
        one, shared, more = model.conditional_chains(self, num, *steps_and_label)
        say_part(f"{num} chains for each of {len(self.images):,} images")
        rows = (jax.random.split(key, len(self.images)), self.images, self.observed, more)
        size = max(model.config.evals.batch_size // num, 1)
        run = jax.jit(lambda shared, rows: map_groups(partial(one, shared), rows, size))
        found, shape = {"mask": self.mask}, (len(self.images), num, *self.images.shape[1:])
        for name, free in zip(("start_images", "images"), run(shared, rows), strict=True):
            if bad := np.count_nonzero(~np.isfinite(free).all(axis=(2, 3))):
                raise ConfigError(f"{bad} of {shape[0] * num} chains diverged. {SEE_FAQ}")
            whole = jnp.broadcast_to(self.images[:, None], shape).at[:, :, self.mask].set(free)
            found[name] = np.asarray(from_signed_unit(whole))
        return found


def inpainting(
    key: Key,
    model: Any,
    data: ImageData,
    *,
    num_images: Annotated[int, COUNT] = 64,
    num_samples: Annotated[int, TWO_OR_MORE] = 8,
    mask: Annotated[str, one_of("left", "centre")] = "centre",
) -> Found:
    """Returns scores of test images whose free pixels chains draw, and of the chains' starts.

    Args:
      num_images: test images, at most
      num_samples: chains of an image
      mask: free pixels: the left half, or the middle half in each direction
    """
    truth, key = np.asarray(data.images[:num_images]), jax.random.fold_in(key, KEY_NUMBER)
    images = to_signed_unit(jnp.asarray(truth))
    found = Given(images, find_mask(mask, images)).run(key, model, num_samples, None, None)
    report, per_image = score(found, truth)
    each = {f"inpainting.{name}": {"test": one} for name, one in per_image.items()}
    picture = partial(draw, arrays=found | {"given": truth})
    return Found({"inpainting": report}, per_image=each, pictures={"inpainting": picture})


def find_mask(mask: Any, images: Any) -> np.ndarray:
    """Returns the free pixels (H, W) of images (n, H, W, C) that a word, file or array names.

    Raises ConfigError for another word or shape, and where all pixels are free, or none.
    """
    height, width = images.shape[1:3]
    rows, columns = (slice(side // 4, side - side // 4) for side in (height, width))
    words = {"left": np.s_[:, : width // 2], "centre": (rows, columns)}
    is_file = isinstance(mask, str) and Path(mask).is_file()
    if isinstance(mask, str) and mask in words:
        free = np.zeros((height, width), bool)
        free[words[mask]] = True
    elif is_file and not mask.endswith(".npy"):
        with Image.open(mask, formats=("PNG", "BMP", "JPEG", "WEBP")) as image:
            free = np.asarray(image.convert("L")) > 127
    else:
        free = np.asarray(find_array(Path(mask)).load() if is_file else mask) != 0
    if free.shape != (height, width) or free.all() or not free.any():
        raise ConfigError(
            f"mask must be left or centre, or an array or its file of shape {(height, width)}, of "
            f"which some pixels are free (not 0); got {trim(repr(mask))} of shape {free.shape}."
        )
    return free


def score(
    found: Mapping[str, np.ndarray], truth: np.ndarray
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns scores over free pixels, with their errors over images; and those of each image.

    "psnr" is of the mean of the samples, "sample_psnr" of one of them, in dB; at most 58.9, that of
    rounding. "coverage" is the share of true pixels from the k-th lowest to the k-th highest of n
    samples, where k is (n + 1) / 20 rounded down, or 1. Without ties, truth and samples of one law
    have "expected_coverage", 1 - 2 k / (n + 1).
    """
    per_image: dict[str, np.ndarray] = {}
    num, true = found["images"].shape[1], truth[:, None, found["mask"]].astype(float)
    rank = max((num + 1) // 20, 1)
    for name, images in {"": found["images"], "start_": found["start_images"]}.items():
        free = images[:, :, found["mask"]].astype(float)
        low, high = np.sort(free, axis=1)[:, [rank - 1, -rank]].swapaxes(0, 1)[..., None, :, :]
        for kind, x in {"psnr": free.mean(axis=1, keepdims=True), "sample_psnr": free}.items():
            squares = np.maximum(np.mean((x - true) ** 2, axis=(2, 3)), 1 / 12)
            per_image[name + kind] = np.mean(10 * np.log10(255**2 / squares), axis=1)
        per_image[f"{name}coverage"] = np.mean((low <= true) & (true <= high), axis=(1, 2, 3))
    per_image["psnr_minus_starts"] = per_image["psnr"] - per_image["start_psnr"]
    report = {"num_samples": num, "expected_coverage": 1 - 2 * rank / (num + 1)}
    for name, values in per_image.items():
        error = values.std(ddof=int(len(values) > 1)) / len(values) ** 0.5
        report |= {name: float(values.mean()), f"{name}_error": float(error)}
    return report, per_image


def draw(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws a row an image: the truth, what is known of its pixels, and samples beside starts."""
    truth = arrays["given"][:NUM_ROWS, None]
    known = np.where(arrays["mask"][..., None], np.uint8(HIDDEN), truth)
    panels = {}
    for title, name in {"truth, given, samples": "images", "and starts": "start_images"}.items():
        rows = np.concatenate([truth, known, arrays[name][:NUM_ROWS, :NUM_SAMPLES]], axis=1)
        panels[title] = rows.reshape(-1, *rows.shape[2:])
    draw_sheet(path, panels, columns=rows.shape[1])
