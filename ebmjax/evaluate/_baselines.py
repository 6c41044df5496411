"""Simple densities that a trained one must beat, chosen on held-out training data."""

import importlib.util
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.linalg

from ebmjax._checks import check_at_least
from ebmjax._extras import needs_experiments
from ebmjax._phases import say_part
from ebmjax.types import Key

FLOORS = (1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2)
"""Variances added along every direction, in squared units of pixels in [-1, 1]."""
HELD_OUT, LAYERS, WIDTH, MOST_EPOCHS = 0.2, 5, 128, 200
"""Share held out; layers, width and epochs at most of the flow."""

Baseline = Callable[[Any], np.ndarray]
"""Positions (n, *shape) to log densities (n,), in nats."""


class Part(NamedTuple):
    """A Gaussian of a mixture, whose covariance is ``factor @ factor.T + diag(rest)``."""

    weight: float
    mean: np.ndarray
    factor: np.ndarray
    rest: np.ndarray


def fit_baselines(
    key: Key,
    x: Any,
    labels: Any = None,
    *,
    num_components: Sequence[int] = (1, 2, 5, 10, 20, 50, 100),
    ranks: Sequence[int] = (4, 8, 16, 32),
    box: tuple[float, float] | None = None,
    flow_minutes: float = 0.0,
) -> dict[str, Baseline]:
    """Returns simple densities by name, fitted to ``x``; first the best on held-out data.

    A fifth of ``x`` is held out. Of each family the member with the largest held-out log density
    is fitted again to all. Families are

    - "gaussians": mixtures with full covariances where a component has as many positions as
      dimensions, with diagonal ones, and one Gaussian a class;
    - "factor_analysis", of every class where there are labels, in the classes' shares;
    - "flow": masked autoregressive, by flowjax, if it is installed;
    - "uniform", in the box.

    Args:
      key: consumed.
      x: (n, *shape), at least ten; images are dequantised.
      labels: (n,) integers; None for no classes.
      num_components: of the mixtures.
      ranks: of factor analysis.
      box: low and high of the uniform density; None for none.
      flow_minutes: most time for each of the flow's two trainings; 0 for none.

    Source: Dempster, Laird & Rubin 1977; Rubin & Thayer 1982; Papamakarios, Pavlakou & Murray 2017.
    """
    flat = _flatten(x)
    check_at_least("len(x)", len(flat), 10)
    labels = np.zeros(len(flat), int) if labels is None else np.asarray(labels)
    order = np.random.default_rng(_seed(key)).permutation(len(flat))
    held, kept = np.split(order, [round(HELD_OUT * len(flat))])
    best: dict[str, tuple[float, Any, int]] = {}
    for name, fit in _candidates(key, flat, labels[kept], num_components, ranks, box, flow_minutes):
        for place, density in enumerate(fit(flat[kept], labels[kept])):
            score = float(np.mean(density(flat[held])))
            if score > best.get(name, (-math.inf,))[0]:
                best[name] = score, fit, place
    ordered = sorted(best, key=lambda name: -best[name][0])
    return {name: best[name][1](flat, labels)[best[name][2]] for name in ordered}


def _candidates(
    key: Key, flat: np.ndarray, labels: np.ndarray, components: Any, ranks: Any, box: Any, most: Any
) -> Iterator[tuple[str, Callable[..., list[Baseline]]]]:
    """Yields names of families, and functions of positions and labels to densities."""
    size, counts = flat.shape[1], np.unique(labels, return_counts=True)[1]
    mixture = partial(_fit_mixture, _seed(key))
    say_part("baselines: mixtures of Gaussians and factor analysis")
    for count in sorted({*components, len(counts)}):
        if count * size <= len(labels):
            yield "gaussians", partial(_fit_groups, partial(mixture, count, "full"), False)
        if 1 < count <= len(labels):
            yield "gaussians", partial(_fit_groups, partial(mixture, count, "diag"), False)
    if size <= min(counts):
        yield "gaussians", partial(_fit_groups, partial(mixture, 1, "full"), True)
    for rank in ranks:
        if rank < min(size, *counts):
            yield "factor_analysis", partial(_fit_groups, partial(_fit_factors, rank), True)
    if box is not None:
        yield "uniform", lambda *_: [lambda x: np.full(len(x), -size * np.log(box[1] - box[0]))]
    if most and importlib.util.find_spec("flowjax") is None:
        say_part('baselines: no flow, which needs flowjax: pip install "ebmjax[flow]"')
    elif most:
        say_part(f"baselines: a flow, at most {most:g} minutes twice")
        yield "flow", partial(_fit_flow, key, most)


def _fit_groups(
    fit: Callable[[np.ndarray], Iterable[Part]], by_class: bool, x: np.ndarray, labels: np.ndarray
) -> list[Baseline]:
    """Returns the mixture of the fits of all classes, or the fit of all data, at every floor."""
    labels = labels if by_class else np.zeros(len(x), int)
    parts = [
        part._replace(weight=part.weight * np.mean(labels == label))
        for label in np.unique(labels)
        for part in fit(x[labels == label])
    ]
    return [partial(_mixture_log_density, parts, floor) for floor in FLOORS]


def _fit_mixture(seed: int, count: int, kind: str, x: np.ndarray) -> list[Part]:
    with needs_experiments("evaluate.fit_baselines", "scikit-learn"):
        from sklearn.mixture import GaussianMixture
    model: Any = GaussianMixture(count, covariance_type=kind, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged after 100 rounds: held-out data judge
        model.fit(x)
    none, zeros = np.zeros((x.shape[1], 0)), np.zeros(x.shape[1])
    arrays = zip(model.weights_, model.means_, model.covariances_, strict=True)
    if kind == "diag":
        return [Part(weight, mean, none, own) for weight, mean, own in arrays]
    return [Part(weight, mean, np.linalg.cholesky(own), zeros) for weight, mean, own in arrays]


def _fit_factors(rank: int, x: np.ndarray) -> list[Part]:
    with needs_experiments("evaluate.fit_baselines", "scikit-learn"):
        from sklearn.decomposition import FactorAnalysis
    model = FactorAnalysis(rank, random_state=0).fit(x)
    return [Part(1.0, model.mean_, model.components_.T, model.noise_variance_)]


def _mixture_log_density(parts: list[Part], floor: float, x: Any) -> np.ndarray:
    """Returns log densities by the matrix inversion lemma, in float64."""
    flat, found = _flatten(x), []
    for weight, mean, factor, rest in parts:
        variances, centred = rest + floor, flat - mean
        scaled = factor / variances[:, None]
        root = np.linalg.cholesky(np.eye(factor.shape[1]) + factor.T @ scaled)
        inner = scipy.linalg.solve_triangular(root, (centred @ scaled).T, lower=True)
        square = np.sum(centred**2 / variances, axis=1) - np.sum(inner**2, axis=0)
        volume = np.sum(np.log(2 * np.pi * variances)) + 2 * np.sum(np.log(np.diag(root)))
        found.append(np.log(weight) - 0.5 * (square + volume))
    return np.logaddexp.reduce(found)


def _fit_flow(key: Key, minutes: float, x: np.ndarray, labels: np.ndarray) -> list[Baseline]:
    """Returns a flow of standardised positions; a tenth of them stops its training."""
    from flowjax.distributions import Normal
    from flowjax.flows import masked_autoregressive_flow
    from flowjax.train import fit_to_data

    mean, scale = np.mean(x, axis=0), np.sqrt(np.var(x, axis=0) + FLOORS[0])
    standardise = lambda x: jnp.asarray((_flatten(x) - mean) / scale, jnp.float32)  # noqa: E731
    size = min(100, len(x) // 10)
    options = {"batch_size": size, "optimizer": optax.adam(1e-3), "show_progress": False}
    epochs = 1
    volume = np.sum(np.log(scale))
    with jax.numpy_rank_promotion("allow"):  # which flowjax needs
        base = Normal(jnp.zeros(len(mean)))
        flow = masked_autoregressive_flow(key, base_dist=base, flow_layers=LAYERS, nn_width=WIDTH)
        for _ in range(3):  # the first compiles, the second is measured
            begun = time.monotonic()
            fitted, _ = fit_to_data(key, flow, standardise(x), max_epochs=epochs, **options)
            each = (time.monotonic() - begun) / epochs
            epochs = int(np.clip(60 * minutes / each, 1, MOST_EPOCHS))

    def log_density(x: Any) -> np.ndarray:
        with jax.numpy_rank_promotion("allow"):
            return np.asarray(fitted.log_prob(standardise(x)), np.float64) - volume

    return [log_density]


def _flatten(x: Any) -> np.ndarray:
    return np.asarray(x, np.float64).reshape(len(x), -1)


def _seed(key: Key) -> int:
    return int(jax.random.randint(key, (), 0, 2**31 - 1))
