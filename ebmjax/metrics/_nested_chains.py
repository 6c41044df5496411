"""R-hat for many short chains."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._checks import is_traced
from ebmjax.metrics._chains import check_chains
from ebmjax.types import PyTree


def nested_potential_scale_reduction(chains: PyTree, superchains: Any) -> PyTree:
    r"""Returns nested R-hat: whether groups of many short chains have forgotten where they began.

    For K superchains with M chains of N draws each:

    .. math::
        \mathfrak{n}\hat R = \sqrt{1 + \hat B / \hat W}, \qquad
        \hat B = \tfrac{1}{K-1} \sum_k (\bar x_k - \bar x)^2, \qquad
        \hat W = \tfrac1K \sum_k \Big[ \tfrac{1}{M-1} \sum_m (\bar x_{mk} - \bar x_k)^2
            + \tfrac{1}{M (N-1)} \sum_{m,n} (x_{nmk} - \bar x_{mk})^2 \Big]

    The sum with M - 1 is 0 for one chain, that with N - 1 for one draw. Start the chains of a
    superchain at one point, and superchains far apart. Ordinary R-hat asks that each chain alone
    has a good mean, which short chains never have. This one asks it of the M chains together.
    For independent draws, its square is about 1 + 1/(M (N + 1)), or 1 + 1/M for one draw a chain.

    Args:
      chains: real numbers, ``(chains, draws, ...)``, or a PyTree of them; one draw may do.
      superchains: (chains,), integers: the superchain of each chain, at least two, with equally
        many chains and at least two draws in each (concrete).

    Returns:
      ``(...)``, no units; a PyTree if ``chains`` is one. Infinite if chains of a superchain are
      equal and stand still, but not all at one place. NaN if all draws are equal or one is NaN.

    Source: Margossian, Hoffman, Sountsov, Riou-Durand, Vehtari & Gelman 2024, arXiv:2110.13017.

    Example:
      >>> starts = jnp.repeat(jnp.linspace(-5.0, 5.0, 4), 64)[:, None]  # 4 superchains of 64
      >>> noise = jax.random.normal(jax.random.key(0), (256, 3))
      >>> superchains = np.repeat(np.arange(4), 64)
      >>> bool(nested_potential_scale_reduction(noise, superchains) < 1.01)
      True
      >>> bool(nested_potential_scale_reduction(starts + noise, superchains) > 3)
      True
    """
    if is_traced(superchains):
        raise TypeError("superchains must be known before compiling: pass a NumPy array.")
    names, sizes = np.unique(superchains, return_counts=True)
    if np.ndim(superchains) != 1 or len(names) < 2 or len(set(sizes)) != 1:
        raise ValueError(
            "superchains must be a row that names the superchain of each chain, at least two of "
            f"them and equally often; got shape {np.shape(superchains)} with "
            f"{dict(zip(names.tolist(), sizes.tolist(), strict=True))} chains by name."
        )
    order = np.argsort(superchains, kind="stable")

    def of_leaf(path: Any, leaf: Any) -> jax.Array:
        draws = check_chains(path, leaf, min_chains=2, min_draws=1)
        if draws.shape[0] != len(order) or draws.shape[1] * sizes[0] < 2:
            raise ValueError(
                f"chains{jax.tree_util.keystr(path)} must have shape ({len(order)}, draws, ...), a "
                "row for each entry of superchains, and at least two draws in a superchain; got "
                f"shape {draws.shape}."
            )
        return _scale_reduction(draws[order].reshape(len(names), sizes[0], *draws.shape[1:]))

    return jax.tree_util.tree_map_with_path(of_leaf, chains)


@jax.jit
def _scale_reduction(x: jax.Array) -> jax.Array:
    """Returns nested R-hat of draws (superchains, chains, draws, ...)."""
    means, of_draws = _moments(x - x[:1, :1, :1], 2)
    means, of_chains = _moments(means, 1)
    within = jnp.mean(of_chains + jnp.mean(of_draws, axis=1), axis=0)
    return jnp.sqrt(1.0 + _moments(means, 0)[1] / within)


def _moments(x: jax.Array, axis: int) -> tuple[jax.Array, jax.Array]:
    """Returns mean and unbiased variance along an axis: exactly 0 of equal numbers, and of one."""
    first = jax.lax.slice_in_dim(x, 0, 1, axis=axis)
    variance = jnp.var(x - first, axis=axis, ddof=min(1, x.shape[axis] - 1))
    return jnp.mean(x - first, axis=axis) + jnp.squeeze(first, axis), variance
