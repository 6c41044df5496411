"""Langevin dynamics of a Gaussian that a network tilts, in the Gaussian's own coordinates."""

import math
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.linalg

from ebmjax._axes import row_of
from ebmjax._checks import check_at_least, check_positive
from ebmjax._ranges import POSITIVE
from ebmjax.samplers._bound import bound
from ebmjax.samplers._langevin import (
    LangevinInfo,
    accept,
    acceptance_probability,
    langevin_init,
    log_proposal_ratio,
)
from ebmjax.samplers._margins import Margins
from ebmjax.samplers._states import check_state
from ebmjax.samplers._svgd import multiply
from ebmjax.types import Key, LogDensityFn, PyTree

MAX_ENTRIES = 2**22
"""Numbers that the directions of all Gaussians take, at most."""


class FactorGaussian(NamedTuple):
    """Gaussians of images, a variance for each of a few directions, one for all the others.

    With margins they are Gaussians of the normal variables that stand for pixels.

    Attributes:
      mean: of shape ``(c, *shape)``, one for each of c Gaussians, such as those of classes.
      directions: columns (d, m) for d pixels an image; those of one Gaussian are orthonormal.
      variances: along them, (c, m); 0 along the directions of other Gaussians.
      rest: variance along every other direction, (c,).
      log_weights: logs of their shares in the mixture, (c,).
      margins: maps of pixels to normal variables, of all Gaussians; None for pixels as they are.

    ``one`` takes one Gaussian out, whose arrays lack the axis of c. All but ``log_densities``,
    ``log_density`` and ``find_likeliest`` are methods of one.
    """

    mean: jax.Array
    directions: jax.Array
    variances: jax.Array
    rest: jax.Array
    log_weights: jax.Array
    margins: Margins | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a position."""
        return self.mean.shape[1:]

    def draw(self, key: Key, index: Any) -> jax.Array:
        """Returns a draw of the Gaussian at ``index``."""
        own = self.one(index)
        return own.place_apart(*own.draw_noise(key))

    def one(self, index: Any) -> "FactorGaussian":
        """Returns the Gaussian at ``index``, an int32 scalar."""
        rows = (a if a is self.directions else row_of(a, index) for a in self[:5])
        return self._make((*rows, self.margins))

    def gaussianise(self, x: jax.Array) -> tuple[jax.Array, Any]:
        """Returns the variables that are Gaussian, and the logs of their slopes by pixels."""
        return (x, 0.0) if self.margins is None else self.margins.gaussianise(x)

    def whiten(self, x: jax.Array, power: float) -> tuple[jax.Array, jax.Array]:
        """Returns ``x`` times a ``power`` of the deviations: along directions, and what is left."""
        along, rest = self._split(x.ravel())
        return along * self._deviations() ** power, rest * self.rest ** (power / 2)

    def colour(self, along: jax.Array, rest: jax.Array) -> jax.Array:
        """Returns the displacement from the mean that has these whitened coordinates."""
        flat = multiply(self.directions, along * self._deviations())
        return (flat + rest * jnp.sqrt(self.rest)).reshape(self.mean.shape)

    def place(self, z: jax.Array) -> jax.Array:
        """Returns the position at whitened coordinates ``z`` (d,): the mean at 0."""
        return self.place_apart(*self._split(z))

    def place_apart(self, along: jax.Array, rest: jax.Array) -> jax.Array:
        """Returns the position at coordinates of ``whiten``."""
        g = self.mean + self.colour(along, rest)
        return g if self.margins is None else self.margins.restore(g)

    def coordinates_of(self, x: jax.Array) -> jax.Array:
        """Returns the whitened coordinates (d,) of a position, the inverse of ``place``."""
        along, rest = self.whiten(self.gaussianise(x)[0] - self.mean, -1.0)
        return rest + multiply(self.directions, along)

    def log_volume(self, x: jax.Array | None = None) -> jax.Array:
        """Returns the log determinant of ``place``: of all standard deviations.

        With margins it is that at a position ``x``.
        """
        count = self.mean.size - jnp.sum(self.variances > 0)
        volume = jnp.sum(jnp.log(self._deviations())) + 0.5 * count * jnp.log(self.rest)
        return volume if x is None else volume - jnp.sum(self.gaussianise(x)[1])

    def draw_noise(self, key: Key) -> tuple[jax.Array, jax.Array]:
        """Draws N(0, I) in whitened coordinates."""
        along_key, rest_key = jax.random.split(key)
        size, count = self.directions.shape
        along = jax.random.normal(along_key, (count,), self.mean.dtype)
        rest = jax.random.normal(rest_key, (size,), self.mean.dtype)
        return jnp.where(self.variances > 0, along, 0.0), self._split(rest)[1]

    def _deviations(self) -> jax.Array:
        """Returns the standard deviations, 1 along the directions of others."""
        return jnp.sqrt(jnp.where(self.variances > 0, self.variances, 1.0))

    def _split(self, flat: jax.Array) -> tuple[jax.Array, jax.Array]:
        along = jnp.where(self.variances > 0, multiply(flat, self.directions), 0.0)
        return along, flat - multiply(self.directions, along)

    def log_densities(self, x: jax.Array) -> jax.Array:
        """Returns the log density of every Gaussian (c,) at ``x``."""
        g, slopes = self.gaussianise(x)
        constant = 0.5 * g.size * math.log(2 * math.pi)

        def log_density(own: FactorGaussian) -> jax.Array:
            along, left = own.whiten(g - own.mean, -1.0)
            return -0.5 * (jnp.sum(along**2) + jnp.sum(left**2)) - own.log_volume()

        axes: Any = FactorGaussian(0, None, 0, 0, 0, None)  # type: ignore[arg-type]
        return jax.vmap(log_density, (axes,))(self) + jnp.sum(slopes) - constant

    def log_density(self, x: jax.Array) -> jax.Array:
        """Returns the log density of their mixture."""
        return jax.nn.logsumexp(self.log_densities(x) + self.log_weights)

    def find_likeliest(self, x: jax.Array) -> jax.Array:
        """Returns the index of the Gaussian that ``x`` most likely came from."""
        return jnp.argmax(self.log_densities(x) + self.log_weights).astype(jnp.int32)


def fit_factor_gaussian(
    images: Any, labels: Any = None, *, num_directions: int = 128, jitter: float = 0.03**2
) -> FactorGaussian:
    """Fits a Gaussian to the images of every class by maximum likelihood.

    Args:
      images: (n, *shape), floating point, at least two.
      labels: (n,) integers from 0, every one of them there; None for one class.
      num_directions: of a class, at most; fewer where it has fewer images or pixels, or where the
        directions of all classes would take more than ``MAX_ENTRIES`` numbers.
      jitter: variance added along every direction, in squared units of the images, for pixels that
        never change.

    Source: Tipping & Bishop 1999 (probabilistic principal components).
    """
    check_at_least("num_directions", num_directions, 1)
    check_positive("jitter", jitter)
    images = np.asarray(images)
    check_at_least("len(images)", len(images), 2)
    labels = np.zeros(len(images), int) if labels is None else np.asarray(labels)
    flat, num_classes = images.reshape(len(images), -1), labels.max() + 1
    most = max(min(num_directions, MAX_ENTRIES // (flat.shape[1] * num_classes)), 1)
    fitted = [
        _principal(flat[labels == label].astype(np.float64), most) for label in range(num_classes)
    ]
    means, directions, values, rests = zip(*fitted, strict=True)
    variances = np.zeros((num_classes, sum(map(len, values))))
    ends = np.cumsum([len(own) for own in values])
    for row, own, rest, end in zip(variances, values, rests, ends, strict=True):
        row[end - len(own) : end] = np.maximum(own, rest) + jitter
    mean = np.stack(means).reshape(-1, *images.shape[1:])
    log_weights = np.log(np.bincount(labels) / len(labels))
    rests = np.array(rests) + jitter
    arrays = (mean, np.concatenate(directions, axis=1), variances, rests, log_weights)
    return FactorGaussian._make((*(jnp.asarray(a, jnp.float32) for a in arrays), None))


def _principal(flat: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Returns the mean of rows (n, d), the directions (d, k) of the largest variances, and these.

    The last is the mean variance along all other directions.
    """
    mean = flat.mean(axis=0)
    centred = flat - mean
    num, size = centred.shape
    count = min(most, max(num - 1, 1), size)
    # The smaller of the two Gram matrices has the same eigenvalues.
    is_wide = num < size
    gram = centred @ centred.T if is_wide else centred.T @ centred
    largest = (len(gram) - count, len(gram) - 1)
    values, vectors = scipy.linalg.eigh(gram / num, subset_by_index=largest)
    values = np.maximum(values, 0.0)
    if is_wide:
        vectors = np.linalg.qr(centred.T @ vectors)[0]
    rest = max(np.sum(centred**2) / num - np.sum(values), 0.0) / max(size - count, 1)
    return mean, vectors, values, rest


class TiltedLangevinState(NamedTuple):
    """A position, the network's log density and score, and the index of the chain's Gaussian."""

    position: PyTree
    log_density: jax.Array
    score: PyTree
    component: jax.Array


def tilted_langevin_init(
    position: PyTree, log_density_fn: LogDensityFn, *, base: FactorGaussian | None = None
) -> TiltedLangevinState:
    """Scores ``position`` by f alone; the chain belongs to the Gaussian that is likeliest there."""
    component = jnp.int32(0) if base is None else base.find_likeliest(position)
    return TiltedLangevinState(*langevin_init(position, log_density_fn), component)


def tilted_langevin_step(
    key: Key,
    state: TiltedLangevinState,
    log_density_fn: LogDensityFn,
    *,
    step_size: Annotated[Any, POSITIVE],
    base: FactorGaussian | None = None,
    temperature: Annotated[Any, POSITIVE] = 1.0,
) -> tuple[TiltedLangevinState, LangevinInfo]:
    r"""Takes one step, never rejected, whose metric is the covariance of ``base``.

    .. math::
        x' = x + \epsilon\, \Sigma\, s(x) + \sqrt{2 \epsilon T}\, \Sigma^{1/2} \xi, \qquad
        s = \nabla \left( f + T \log q \right)

    with :math:`q = \mathcal N(\mu, \Sigma)` and the log density f of a network. Its law tends to
    :math:`q(x)\, e^{f(x) / T}` as :math:`\epsilon \to 0`: the network only has to say where the
    data differ from a Gaussian. A step is the same share of every direction's own deviation, so
    pixels that never change stay, and a step suits images of any size.

    Args:
      log_density_fn: f, from one position to a scalar.
      step_size: drift coefficient :math:`\epsilon`, per unit of f. A step replaces the share
        :math:`2 \epsilon T` of the variance.
      base: q of positions that are one array; None for N(0, I) of any PyTree.
      temperature: T, a positive scalar.

    Returns:
      The new state and a ``LangevinInfo``, with log densities f.

    Source: the preconditioned Langevin proposal of Cotter, Roberts, Stuart & White 2013, explicit;
    tilted base densities as in Xie et al. 2016 and Nijkamp et al. 2022.
    """
    check_state(state, *TiltedLangevinState._fields)
    for name, value in {"step_size": step_size, "temperature": temperature}.items():
        check_positive(name, value, is_scalar=True)
    one = None if base is None else base.one(state.component)
    noise_key, coin_key = jax.random.split(key)
    if one is None:
        noise = optax.tree.random_like(noise_key, state.position)
    else:
        noise = one.draw_noise(noise_key)
    noise_scale = jnp.sqrt(2.0 * step_size * temperature)
    old, score = _whiten(one, state)
    drift = optax.tree.add_scale(optax.tree.scale(step_size, score), -step_size * temperature, old)
    new = jax.tree.map(lambda x, d, n: (x + d + noise_scale * n).astype(x.dtype), old, drift, noise)
    position = new if one is None else one.place_apart(*new)
    scored = langevin_init(position, log_density_fn)
    proposed = TiltedLangevinState(*scored, state.component)
    scores = optax.tree.add(score, _whiten(one, proposed)[1])
    pull = optax.tree.scale(temperature, optax.tree.add(old, new))
    shift = optax.tree.scale(step_size / noise_scale, optax.tree.sub(scores, pull))
    log_ratio = (proposed.log_density - state.log_density) / temperature
    log_ratio += 0.5 * (optax.tree.norm(old, squared=True) - optax.tree.norm(new, squared=True))
    log_ratio += log_proposal_ratio(noise, shift)
    probability = acceptance_probability(log_ratio, proposed.log_density)
    return accept(coin_key, state, proposed, probability)


def _whiten(one: FactorGaussian | None, state: TiltedLangevinState) -> tuple[PyTree, PyTree]:
    """Returns position and score in the coordinates where the Gaussian is N(0, I)."""
    if one is None:
        return state.position, state.score
    g, slopes = one.gaussianise(state.position)
    return one.whiten(g - one.mean, -1.0), one.whiten(state.score * jnp.exp(-slopes), 1.0)


tilted_langevin = bound(
    tilted_langevin_init, tilted_langevin_step, rejects=True, adapts=True, memory=("component",)
)
