"""Numbers that judge chains in the plane: mixing, modes, distances."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import metrics

# Radius of a mode in the Gaussians' standard deviations: 98.9 % of the mass.
MODE_RADIUS = 3.0


def draws_numbers(
    draws: np.ndarray,
    *,
    data: np.ndarray,
    model: np.ndarray | None,
    means: np.ndarray,
    num: int,
) -> dict[str, float]:
    """Returns numbers of ``draws`` (chains, n, 2).

    Args:
      draws: draws after the burn-in.
      data: (m, 2), fresh points of the data.
      model: (m, 2), independent draws from the learned density, or None.
      means: (modes, 2).
      num: number of draws for the distances, evenly spaced in every chain; a few more if the chains
        do not divide it.

    Returns:
      R-hat by both definitions (the larger of the coordinates), effective sample sizes (the
      smaller), energy distances, and the visits of modes. All NaN if a draw is not finite.
    """
    names = ("rhat_classic", "rhat_rank", "ess", "ess_within")
    visits = mode_visits(draws, means)
    if not np.isfinite(draws).all():
        return dict.fromkeys((*names, "distance_to_data", "distance_to_model"), math.nan) | visits
    numbers: dict[str, float] = dict(zip(names, map(float, _diagnostics(draws)), strict=True))
    distance = partial(metrics.energy_distance, spread_draws(draws, num))
    numbers["distance_to_data"] = distance(data)
    numbers["distance_to_model"] = math.nan if model is None else distance(model)
    return numbers | visits


def spread_draws(draws: np.ndarray, num: int) -> np.ndarray:
    """Takes equally many ``draws`` (chains, n, 2) of every chain, at least ``num`` if possible."""
    num_chains, length = draws.shape[:2]
    kept = min(-(-num // num_chains), length)
    return draws[:, np.arange(kept) * length // kept].reshape(-1, 2)


@jax.jit
def _diagnostics(draws: jax.Array) -> tuple[jax.Array, ...]:
    """Returns classic and rank-normalised R-hat, effective size, and the sum of single chains'."""
    scale_reduction = partial(metrics.potential_scale_reduction, allow_few_draws=True)
    sample_size = partial(metrics.effective_sample_size, allow_few_draws=True)
    alone = jax.vmap(sample_size)(draws[:, None])
    return (
        jnp.max(scale_reduction(draws, method="classic")),
        jnp.max(scale_reduction(draws)),
        jnp.min(sample_size(draws)),
        jnp.min(jnp.sum(alone, axis=0)),
    )


def mode_visits(draws: np.ndarray, means: np.ndarray) -> dict[str, float]:
    """Returns visits of ``draws`` (chains, n, 2): modes found and changes of mode.

    A draw is in a mode if it is nearer than ``MODE_RADIUS`` and than half the way to the next mode.
    "inside" is the share of such draws, "crossings" the changes of mode a chain.
    """
    between = _distances(means, means)
    radius = min(MODE_RADIUS, np.min(between[between > 0], initial=np.inf) / 2)
    distances = _distances(draws, means)
    modes = np.where(np.min(distances, axis=-1) < radius, np.argmin(distances, axis=-1), -1)
    crossings = [np.count_nonzero(np.diff(chain[chain >= 0])) for chain in modes]
    return {
        "modes": float(len(set(modes[modes >= 0].tolist()))),
        "inside": float(np.mean(modes >= 0)),
        "crossings": float(np.mean(crossings)),
    }


def _distances(positions: np.ndarray, means: np.ndarray) -> np.ndarray:
    """(..., modes)."""
    return np.linalg.norm(positions[..., None, :] - means, axis=-1)
