"""Makes squares of images, and resizes them."""

from collections.abc import Collection

import numpy as np

from ebmjax._extras import needs_experiments

FITS = {
    "crop": ("cut to the central square", min),
    "pad": ("padded to a square with black", max),
    "stretch": ("stretched to a square", min),
    "refuse": ("", min),
    "keep": ("", min),
}
"""Words for what is done to images that are no squares, and the square's side from theirs."""


def fit_shape(height: int, width: int, size: int | None, fit: str) -> tuple[int, int]:
    """Returns the height and width that ``fit_image`` makes."""
    if fit == "keep" and size is None:
        return height, width
    if fit not in FITS:
        raise ValueError(f"fit must be one of {list(FITS)}, got {fit!r}.")
    if fit == "refuse" and height != width:
        raise ValueError(
            f"images must be squares, got {height}x{width} pixels and fit='refuse'. Set fit to "
            "crop (the central square), pad (black borders) or stretch (another shape)."
        )
    side = size or FITS[fit][1](height, width)
    return side, side


def fit_image(image: np.ndarray, size: int | None, fit: str = "crop") -> np.ndarray:
    """Returns the image, as a square, resized bilinearly to (size, size, channels).

    Args:
      image: uint8 (height, width, channels).
      size: side in pixels; None: the shorter side, or the longer one for "pad".
      fit: what is done to an image that is no square. "crop" cuts it to the central square. "pad"
        puts it in the middle of a black square. "stretch" changes its shape. "refuse" raises.
        "keep" leaves it as it is without a size, and otherwise is "crop".
    """
    height, width, channels = image.shape
    shape = fit_shape(height, width, size, fit)
    if image.shape[:2] == shape:
        return image
    if height != width and fit in ("crop", "keep"):
        short = min(height, width)
        top, left = (height - short) // 2, (width - short) // 2
        image = image[top : top + short, left : left + short]
    if height != width and fit == "pad":
        long = max(height, width)
        square = np.zeros((long, long, channels), np.uint8)
        top, left = (long - height) // 2, (long - width) // 2
        square[top : top + height, left : left + width] = image
        image = square
    if image.shape[:2] == shape:
        return image
    with needs_experiments("resizing images (image_size)", "pillow"):
        from PIL import Image

    # Pillow resizes RGB together, any other number of channels one by one.
    layers = [image] if channels == 3 else np.moveaxis(image, -1, 0)
    layers = [Image.fromarray(one).resize(shape, Image.Resampling.BILINEAR) for one in layers]
    return np.concatenate([np.asarray(layer).reshape(*shape, -1) for layer in layers], axis=-1)


def about_fitting(
    sizes: Collection[tuple[int, int]], size: int | None, fit: str
) -> tuple[str, ...]:
    """Returns the note that says which sizes (height, width) ``fit_image`` changed; () for none."""
    fit = "crop" if fit == "keep" and size is not None else fit
    is_cut = fit != "keep" and any(height != width for height, width in sizes)
    is_resized = size is not None and any(FITS[fit][1](one) != size for one in sizes)
    if not (is_cut or is_resized):
        return ()
    smallest, largest = min(sizes), max(sizes)
    words = f"{smallest[0]}x{smallest[1]}"
    if len(sizes) > 1:
        words = f"{len(sizes)} sizes from {words} to {largest[0]}x{largest[1]}"
    done = [f"{FITS[fit][0]} (fit={fit})"] * is_cut + ["resized"] * is_resized
    return (f"{' and '.join(done)} from {words}",)
