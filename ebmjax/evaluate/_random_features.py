"""Features of a fixed random network, for images without the classes that a classifier needs."""

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.evaluate._extractors import Extractor

WIDTH = 64
NUM_FEATURES = 64
SMALLEST_SIDE = 4
SCALE = 4.0


def random_features() -> Extractor:
    """Returns an extractor whose network is random, the same for all data and on all machines.

    Stages of a 3x3 convolution with 64 channels, an absolute value and a mean over 2x2 pixels
    follow each other until a side has four pixels or fewer. A last mean over 2x2 pixels and a
    random projection make 64 features. Absolute values are what tells images from Gaussians with
    the same covariance: a linear network could not. It has no classes, so no inception score.

    The images' shape decides the number of stages. So numbers compare within one shape only.

    Source: random networks as extractors where ImageNet's do not fit: Naeem et al. 2020, "Reliable
    Fidelity and Diversity Metrics". Absolute values and means: scattering, Bruna & Mallat 2013.

    Example:
      >>> features, probabilities = random_features().outputs_fn(np.zeros((2, 8, 8, 1), np.uint8))
      >>> features.shape, probabilities
      ((2, 64), None)
    """
    return Extractor(
        "random_features", lambda images: (_features(jnp.asarray(images)), None), {"seed": 0}
    )


@jax.jit
def _features(images: jax.Array) -> jax.Array:
    # RandomState, whose stream NumPy never changes, which it may for newer generators.
    rng = np.random.RandomState(0)

    def weights(*shape: int) -> jax.Array:
        fan_in = int(np.prod(shape[:-1]))
        return jnp.asarray(rng.standard_normal(shape) * np.sqrt(2.0 / fan_in), jnp.float32)

    x = images.astype(jnp.float32) / 127.5 - 1.0
    while True:
        kernel, bias = weights(3, 3, x.shape[-1], WIDTH), rng.standard_normal((1, 1, 1, WIDTH))
        x = jax.lax.conv_general_dilated(
            x,
            kernel,
            window_strides=(1, 1),
            padding="SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            precision=jax.lax.Precision.HIGHEST,
        )
        x = _pool_pixels(jnp.abs(x + jnp.asarray(0.3 * bias, jnp.float32)))
        if min(x.shape[1:3]) <= SMALLEST_SIDE // 2:
            break
    flat = x.reshape(len(x), -1)
    projection = weights(flat.shape[1], NUM_FEATURES) / jnp.float32(np.sqrt(2.0))
    return SCALE * jnp.matmul(flat, projection, precision=jax.lax.Precision.HIGHEST)


def _pool_pixels(x: jax.Array) -> jax.Array:
    """Returns means over 2x2 pixels; a last odd row or column is left out, a single one stays."""
    n, height, width, channels = x.shape
    down, across = min(2, height), min(2, width)
    x = x[:, : height // down * down, : width // across * across]
    return x.reshape(n, height // down, down, width // across, across, channels).mean((2, 4))
