"""Cuts an image to its central square and resizes it."""

import numpy as np

from ebmjax._extras import needs_experiments


def fitted(image: np.ndarray, size: int | None) -> np.ndarray:
    """Returns the image, or its central square resized bilinearly to (size, size, channels).

    Args:
      image: uint8 (height, width, channels).
      size: side in pixels; None, or the image's own, leaves it as it is.
    """
    if size is None or image.shape[:2] == (size, size):
        return image
    with needs_experiments("resizing images (image_size)", "pillow"):
        from PIL import Image

    height, width, channels = image.shape
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = image[top : top + side, left : left + side]
    if side == size:
        return square
    layers = [
        Image.fromarray(layer).resize((size, size), Image.Resampling.BILINEAR)
        for layer in _layers(square, channels)
    ]
    return np.concatenate([np.asarray(layer).reshape(size, size, -1) for layer in layers], axis=-1)


def about_fitting(sizes: set[tuple[int, ...]], size: int | None) -> tuple[str, ...]:
    """Returns the note that says which sizes (height, width) ``fitted`` changed; () for none."""
    if size is None or sizes == {(size, size)}:
        return ()
    smallest, largest = min(sizes), max(sizes)
    words = f"{smallest[0]}x{smallest[1]}"
    if len(sizes) > 1:
        words = f"{len(sizes)} sizes from {words} to {largest[0]}x{largest[1]}"
    is_cut = any(height != width for height, width in sizes)
    return (f"resized from {words}" + " after a cut to the central square" * is_cut,)


def _layers(image: np.ndarray, channels: int) -> list[np.ndarray]:
    """Returns what Pillow can resize at once: RGB together, any other number one by one."""
    return [image] if channels == 3 else [image[..., channel] for channel in range(channels)]
