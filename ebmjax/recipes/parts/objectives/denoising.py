"""Objectives of noisy data: denoising score matching, and diffusion recovery likelihood."""

from collections.abc import Callable
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax._ranges import COUNT, POSITIVE, optional
from ebmjax._stored import take_rows
from ebmjax.learning import Density, NoiseLevels, Samples
from ebmjax.losses import contrastive_divergence_loss, denoising_score_matching_loss
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.samplers import run_recovery_chains
from ebmjax.types import Key, Metrics

NUM_FITTED = 1000
"""Most examples whose distances and scale count."""


def first_rows(train: data.ImageData, most: int) -> np.ndarray:
    """Returns the first training examples, flat (N, d), float64, as the energy sees them."""
    rows = np.asarray(take_rows(train.images, np.arange(min(len(train.images), most))))
    x = np.asarray(data.to_signed_unit(jnp.asarray(rows)) if rows.dtype == np.uint8 else rows)
    return x.reshape(len(x), -1).astype(np.float64)


def across(values: jax.Array, x: jax.Array) -> jax.Array:
    """Returns ``values`` (N,), shaped to multiply examples ``x`` (N, ...)."""
    return values.reshape(-1, *[1] * (x.ndim - 1))


def fitted_by(fit: Callable[..., Any]) -> Callable[[Any], Any]:
    """Returns a decorator for an objective whose ``fitted`` is ``fit(train, total_steps, ...)``.

    The keyword arguments of ``fit`` are fields, beside those of the objective.
    """

    def mark(objective: Any) -> Any:
        objective.fit = fit
        return objective

    return mark


def denoising(
    key: Key, model: Density, batch: Samples, *, noise_scale: Annotated[Any, POSITIVE] = 0.3
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.denoising_score_matching_loss``.

    The model is differentiated twice, so a piecewise linear network learns little.

    Args:
      noise_scale: noise at which scores are matched, in units of the data
    """
    x = batch.x
    noise = jax.random.normal(key, x.shape, x.dtype)
    # Log densities of the rows are independent, so the gradient of their sum has every score.
    score = jax.grad(lambda x: jnp.sum(model(x)))(x + noise_scale * noise)
    return denoising_score_matching_loss(score, noise, noise_scale=noise_scale)


def fit_levels(
    train: data.ImageData,
    total_steps: int,
    *,
    min_noise_scale: Annotated[float, POSITIVE] = 0.05,
    max_noise_scale: Annotated[float | None, optional(POSITIVE)] = None,
    relative_step: Annotated[float, POSITIVE] = 0.5,
) -> NoiseLevels:
    """Returns noise levels; the training data say what the fields leave open.

    Args:
      min_noise_scale: smallest noise, which evaluations see, in units of the data
      max_noise_scale: largest noise; None: the largest distance of two examples
      relative_step: step of annealed chains, in squares of a level's noise

    Raises:
      ConfigError: if the smallest noise is not below the largest.
    """
    del total_steps
    x, about = first_rows(train, NUM_FITTED), ""
    if max_noise_scale is None:
        squares = np.sum(np.square(x), axis=1)
        distances = squares[:, None] + squares[None] - 2 * x @ x.T
        max_noise_scale = float(np.sqrt(distances.max()))
        about = ", the largest distance of two examples"
    if min_noise_scale >= max_noise_scale:
        raise ConfigError(
            "min_noise_scale of config.loss must be below max_noise_scale"
            f"={max_noise_scale:.3g}{about}; got {min_noise_scale:g}: take a smaller one."
        )
    scale = float(np.sqrt(np.mean(np.square(x))))
    return NoiseLevels(min_noise_scale, max_noise_scale, scale, relative_step)


@fitted_by(fit_levels)
def denoising_levels(
    key: Key, model: Density, batch: Samples, *, fitted: NoiseLevels
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.denoising_score_matching_loss``.

    The noise's logarithm is uniform between the levels, one stratum an example.
    """
    x = batch.x
    noise_key, level_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, x.shape, x.dtype)
    share = (jnp.arange(len(x)) + jax.random.uniform(level_key, (len(x),))) / len(x)
    noise_scale = fitted.lowest * (fitted.highest / fitted.lowest) ** share
    noisy = x + across(noise_scale, x) * noise
    score = jax.grad(lambda x: jnp.sum(model(x, noise_scale)))(noisy)
    return denoising_score_matching_loss(score, noise, noise_scale=noise_scale)


def fit_recovery(
    train: data.ImageData,
    total_steps: int,
    *,
    min_noise_scale: Annotated[float, POSITIVE] = 0.05,
    max_noise_scale: Annotated[float | None, optional(POSITIVE)] = None,
    num_levels: Annotated[int, COUNT] = 6,
    relative_step: Annotated[float, POSITIVE] = 0.1,
) -> NoiseLevels:
    """Returns the levels of ``diffusion_recovery``.

    Args:
      min_noise_scale: smallest noise, which evaluations see, in units of the data
      max_noise_scale: largest noise; None: the largest distance of two examples
      num_levels: noise levels
      relative_step: step of chains, in squares of the noise between two levels

    Raises:
      ConfigError: if the smallest noise is not below the largest, or chains would diverge.
    """
    levels = fit_levels(
        train,
        total_steps,
        min_noise_scale=min_noise_scale,
        max_noise_scale=max_noise_scale,
        relative_step=relative_step,
    )
    # At a level of noise n the curvature of the energy and of its bond is up to 1 / n^2 + 1 / t^2.
    steepest = (levels.highest / levels.lowest) ** (2 / num_levels)
    if relative_step * steepest >= 2:
        raise ConfigError(
            "config.loss.diffusion_recovery.relative_step must be below "
            f"{2 / steepest:.2g} for num_levels={num_levels} between noises of "
            f"{levels.lowest:g} and {levels.highest:.3g}, got {relative_step:g}: chains "
            "would diverge. Take a smaller step, or more levels."
        )
    return levels._replace(num_levels=num_levels)


@fitted_by(fit_recovery)
def diffusion_recovery(
    key: Key,
    model: Density,
    batch: Samples,
    *,
    fitted: NoiseLevels,
    num_steps: Annotated[int, COUNT] = 30,
) -> tuple[jax.Array, Metrics]:
    """Returns contrastive divergence of p(x_t given x_{t+1}), without a buffer.

    The levels take turns among the examples. The chains start at x_{t+1}, see
    ``samplers.run_recovery_chains``.

    Args:
      num_steps: steps of a training chain, from one level to the next
    """
    x, num_levels = batch.x, fitted.num_levels
    assert num_levels is not None
    shift_key, low_key, step_key, chain_key = jax.random.split(key, 4)
    first = jax.random.randint(shift_key, (), 0, num_levels)
    level = (first + jnp.arange(len(x))) % num_levels
    low, between = fitted.noise_at(level), fitted.noise_between(level)
    noises = [jax.random.normal(one, x.shape, x.dtype) for one in (low_key, step_key)]
    positive = x + across(low.astype(x.dtype), x) * noises[0]
    noisy = positive + across(between.astype(x.dtype), x) * noises[1]
    negative = run_recovery_chains(
        chain_key,
        noisy,
        lambda x: model.constant(x, low),
        noise_scale=between,
        num_steps=num_steps,
        relative_step=fitted.relative_step,
    )
    # The term of x_{t+1} has no parameters.
    return contrastive_divergence_loss(-model(positive, low), -model(negative, low))
