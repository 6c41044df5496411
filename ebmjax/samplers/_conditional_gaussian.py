"""Gaussians of images of which some pixels are given: Gaussians with few directions again."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from ebmjax.samplers._tilted_langevin import FactorGaussian


def condition_gaussian(base: FactorGaussian, given: Any, mask: Any) -> FactorGaussian:
    """Returns the mixtures of images' free pixels, of which the others are given.

    The precision of free pixels is a block of the whole one, ``I / rest`` less a few directions. So
    the conditional covariance has few directions, too. Means (n, c, ...) and log weights (n, c)
    alone depend on the image: put one image's in their place before you call a method.

    Args:
      base: a mixture of c Gaussians of images.
      given: images (n, *shape), whose free pixels are not used.
      mask: bools of the first axes of ``shape``, True where pixels are free.
    """
    free, shape, found = np.asarray(mask), base.mean.shape[1:], []
    wide = free.reshape(free.shape + (1,) * (len(shape) - free.ndim))
    is_free, images = np.broadcast_to(wide, shape).ravel(), jnp.float32(given)
    flat = np.asarray(jax.vmap(lambda x: base.gaussianise(x)[0])(images)).reshape(len(images), -1)
    arrays = base.mean.reshape(len(base.mean), -1), base.variances, base.rest
    directions = np.asarray(base.directions, np.float64)
    for mean, values, rest in zip(*(np.asarray(x, np.float64) for x in arrays), strict=True):
        drop = np.maximum(1 / rest - 1 / values[values > 0], 0)  # of precision, along directions
        scaled = directions[:, values > 0] * np.sqrt(drop)
        along, sizes, _ = np.linalg.svd(scaled[is_free], full_matrices=False)
        new = 1 / (1 / rest - sizes**2)
        pull = (flat - mean)[:, ~is_free] @ scaled[~is_free] @ scaled[is_free].T
        shift = rest * pull + pull @ along * (new - rest) @ along.T
        found.append((mean[is_free] + shift, along, new))
    means, columns, variances = zip(*found, strict=True)
    centre = np.stack(means, axis=1).reshape(len(flat), len(means), -1, *shape[free.ndim :])
    made = centre, np.concatenate(columns, axis=1), scipy.linalg.block_diag(*variances)
    names, margins = ("mean", "directions", "variances"), base.margins
    conditional = base._replace(
        **dict(zip(names, map(jnp.float32, made), strict=True)),
        margins=margins and margins._replace(shares=margins.shares[:, free]),
    )

    def weigh(image: jax.Array, mean: jax.Array) -> jax.Array:
        own = conditional._replace(mean=mean)
        likely = own.one(0).place(jnp.zeros(mean[0].size))  # any will do, and this one rounds least
        log_given = base.log_densities(image.at[free].set(likely)) - own.log_densities(likely)
        return jax.nn.log_softmax(base.log_weights + log_given)

    return conditional._replace(log_weights=jax.vmap(weigh)(images, conditional.mean))
