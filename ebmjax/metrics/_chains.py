"""Diagnostics of chains: R-hat and effective sample size.

Draws come as ``(chains, draws, ...)``, an array or a PyTree of arrays, as ``run_chain`` returns
them for a ``batch_step``. Each coordinate of the trailing event axes is diagnosed, so results have
the event's shape.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._axes import everywhere
from ebmjax._checks import is_traced
from ebmjax.types import PyTree


def potential_scale_reduction(
    chains: PyTree,
    *,
    method: Literal["rank", "classic"] = "rank",
    allow_few_draws: bool = False,
) -> PyTree:
    r"""Returns R-hat: how much wider the draws of all chains spread than those within a chain.

    ``"classic"``, for M chains with N draws each:

    .. math::
        \hat R = \sqrt{\widehat{\mathrm{var}}^+ / W}, \qquad
        \widehat{\mathrm{var}}^+ = \tfrac{N-1}{N} W + \tfrac1N B, \qquad
        B = \tfrac{N}{M-1} \sum_m (\bar x_m - \bar x)^2

    with W the mean over chains of the unbiased variance within a chain.

    ``"rank"`` cuts every chain in half (without the middle draw of an odd number) and replaces
    draws by normal scores of their pooled ranks. It is the larger of two classic R-hats: of these
    scores, and of the scores of the folded draws :math:`|x - \mathrm{median}|`. So it shows drift,
    different scales and infinite variance. Mixed chains stay below 1.01.

    Args:
      chains: real numbers, ``(chains, draws, ...)``, or a PyTree of them; at least 2 chains, and 4
        draws for ``"rank"`` or 2 for ``"classic"``.
      method: static.
      allow_few_draws: whether there may be fewer draws than chains (static). False raises, because
        such an array usually has its draws first.

    Returns:
      ``(...)``, no units; a PyTree if ``chains`` is one. Infinite if every chain stands still, but
      not all at one place. NaN if all draws are equal, if one is NaN (or infinite, for
      ``"classic"``), and if some chains stand still while others move.

    Source: "classic" is Gelman & Rubin 1992 as in section 2.2.6 of the sampling-approaches
    thesis; "rank" is Vehtari, Gelman, Simpson, Carpenter & Bürkner 2021, arXiv:1903.08008.
    """
    diagnostics = {"rank": (_rank_scale_reduction, 4), "classic": (_scale_reduction, 2)}
    if method not in diagnostics:
        raise ValueError(f'method must be "rank" or "classic", got method={method!r}.')
    diagnostic, min_draws = diagnostics[method]
    return _per_coordinate(diagnostic, chains, 2, min_draws, allow_few_draws)


def effective_sample_size(chains: PyTree, *, allow_few_draws: bool = False) -> PyTree:
    r"""Returns the number of independent draws that would estimate means and medians as well.

    .. math::
        \mathrm{ESS} = \frac{M N}{\tau}, \qquad \tau = -1 + 2 \sum_{k < K} P_k + \rho_{2K}^+,
        \qquad P_k = \min_{j \le k} (\rho_{2j} + \rho_{2j+1})

    where :math:`\rho_t` is the autocorrelation at lag t of normal scores of the pooled ranks, which
    includes the spread between chains. K is the first pair whose sum is not positive (Geyer's
    initial monotone sequence). Negative correlation can raise the result above the number of draws,
    at most by the factor :math:`\log_{10}(M N)`. Chains are cut in half first.

    Args:
      chains: real numbers, ``(chains, draws, ...)``, or a PyTree of them; at least 1 chain and 4
        draws.
      allow_few_draws: as in ``potential_scale_reduction``.

    Returns:
      ``(...)``, in draws; a PyTree if ``chains`` is one. NaN if one draw is NaN, all are equal, or
      some chains stand still while others move.

    Source: Vehtari et al. 2021, arXiv:1903.08008; Geyer 1992.
    """
    return _per_coordinate(_sample_size, chains, 1, 4, allow_few_draws)


def _per_coordinate(
    diagnostic: Callable[[jax.Array], jax.Array],
    chains: PyTree,
    min_chains: int,
    min_draws: int,
    allow_few_draws: bool,
) -> PyTree:
    """Applies ``diagnostic`` to the draws ``(chains, draws)`` of every coordinate of every leaf."""

    def of_leaf(leaf: Any) -> jax.Array:
        draws = _check_chains(leaf, min_chains, min_draws)
        if draws.shape[1] < draws.shape[0] and not allow_few_draws:
            raise ValueError(
                f"chains must have shape (chains, draws, ...), got {draws.shape[0]} chains of "
                f"{draws.shape[1]} draws. If the draws come first, swap the two axes. If there "
                "really are more chains than draws, as in training, pass allow_few_draws=True."
            )
        return _of_leaf(diagnostic, draws)

    return jax.tree.map(of_leaf, chains)


@partial(jax.jit, static_argnums=0)
def _of_leaf(diagnostic: Callable[[jax.Array], jax.Array], draws: jax.Array) -> jax.Array:
    has_nan = jnp.any(jnp.isnan(draws), axis=(0, 1))
    # The variance of a chain that never moved is unknown, and as 0 it would flatter the mean.
    is_still = jnp.all(draws == draws[:, :1], axis=1)
    is_unknown = has_nan | (jnp.any(is_still, axis=0) & ~jnp.all(is_still, axis=0))
    diagnose = jnp.vectorize(diagnostic, signature="(m,n)->()")
    return jnp.where(is_unknown, jnp.nan, diagnose(jnp.moveaxis(draws, (0, 1), (-2, -1))))


def _check_chains(chains: Any, min_chains: int, min_draws: int) -> jax.Array:
    """Returns ``chains`` in float32 or wider, whole on every device."""
    if not isinstance(chains, jax.Array):
        chains = np.asarray(chains)
    if chains.ndim < 2 or chains.shape[0] < min_chains or chains.shape[1] < min_draws:
        raise ValueError(
            f"chains must have shape (chains, draws, ...) with at least {min_chains} chain(s) and "
            f"{min_draws} draws, got shape {chains.shape}. Run more, or where the draws come "
            "first, pass jnp.swapaxes(positions, 0, 1); for one chain, positions[None]."
        )
    if jnp.iscomplexobj(chains):
        raise TypeError(f"chains must hold real numbers, got dtype {chains.dtype}.")
    is_wide = chains.dtype != jnp.float32 and chains.dtype.itemsize >= 4
    if is_wide and not is_traced(chains):
        chains = _near_zero(np.asarray(chains))
    chains = jnp.asarray(chains)
    return everywhere(chains.astype(jnp.promote_types(chains.dtype, jnp.float32)))


def _near_zero(chains: np.ndarray) -> np.ndarray:
    """Returns every coordinate less one of its middle draws, which no diagnostic notices.

    In float32, for JAX has no other by default, draws far from 0 would lose what tells them apart.
    """
    draws = chains.astype(np.float64).reshape(-1, *chains.shape[2:])
    middle = np.partition(draws, len(draws) // 2, axis=0)[len(draws) // 2]
    return (draws - np.where(np.isfinite(middle), middle, 0.0)).reshape(chains.shape)


def _rank_scale_reduction(x: jax.Array) -> jax.Array:
    halves = _split_chains(x)
    bulk = _scale_reduction(_normal_scores(halves))
    folded = _scale_reduction(_normal_scores(jnp.abs(halves - jnp.median(halves))))
    # Draws of two values can fold onto one value, which gives NaN: fmax then takes the bulk.
    return jnp.fmax(bulk, folded)


def _scale_reduction(x: jax.Array) -> jax.Array:
    within, total = _variances(x)
    return jnp.sqrt(total / within)


def _split_chains(x: jax.Array) -> jax.Array:
    half = x.shape[1] // 2
    return jnp.concatenate([x[:, :half], x[:, -half:]])


def _normal_scores(x: jax.Array) -> jax.Array:
    """Returns Blom's normal scores of the pooled ranks; ties share their average rank."""
    rank = jax.scipy.stats.rankdata(x).reshape(x.shape).astype(x.dtype)
    # Counts from the nearer end, because 1 - p loses the digits of a small p.
    nearer = jnp.minimum(rank, x.size + 1 - rank)
    score = jax.scipy.special.ndtri((nearer - 0.375) / (x.size + 0.25))
    return jnp.where(rank > nearer, -score, score)


def _variances(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the mean variance within a chain, and the estimated variance of all draws."""
    first = x[:, :1]
    # Relative to a chain's first draw: exactly 0 if it stands still, and nothing cancels.
    within = jnp.mean(jnp.var(x - first, axis=1, ddof=1))
    means = jnp.mean(x - first, axis=1) + (first[:, 0] - x[0, 0])
    num_draws = x.shape[1]
    return within, within * (num_draws - 1) / num_draws + jnp.var(means, ddof=1)


def _sample_size(x: jax.Array) -> jax.Array:
    x = _normal_scores(_split_chains(x))
    within, total = _variances(x)
    correlation = 1.0 - (within - jnp.mean(_autocovariance(x), axis=0)) / total
    # At lag 0 the biased autocovariance is below the unbiased variance.
    correlation = correlation.at[0].set(1.0)
    size = x.size / jnp.maximum(_correlation_time(correlation), 1.0 / jnp.log10(x.size))
    return jnp.where(total > 0, size, jnp.nan)


def _autocovariance(x: jax.Array) -> jax.Array:
    """Returns each chain's biased autocovariance (divided by the number of draws) at every lag."""
    num_draws = x.shape[1]
    centred = x - x[:, :1]
    centred = centred - jnp.mean(centred, axis=1, keepdims=True)
    spectrum = jnp.fft.rfft(centred, n=2 * num_draws, axis=1)
    power = jnp.square(spectrum.real) + jnp.square(spectrum.imag)
    return jnp.fft.irfft(power, n=2 * num_draws, axis=1)[:, :num_draws] / num_draws


def _correlation_time(correlation: jax.Array) -> jax.Array:
    """Returns ``tau`` of ``effective_sample_size``, by Geyer's initial monotone sequence."""
    num_pairs = max(1, (correlation.shape[0] - 1) // 2)
    even, odd = correlation[: 2 * num_pairs].reshape(num_pairs, 2).T
    pairs = even + odd
    # The last pair is never kept, so that there is always a first pair left out.
    is_kept = jnp.cumprod((pairs > 0).at[-1].set(False)).astype(bool)
    kept = jnp.where(is_kept, jax.lax.cummin(pairs), 0.0)
    return -1.0 + 2.0 * jnp.sum(kept) + jnp.maximum(even[jnp.sum(is_kept)], 0.0)
