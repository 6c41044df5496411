"""Autoregressive densities of images: pixel after pixel, each by those before it."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ebmjax.types import Key

FIT_BATCH = 8
"""Images of a step of ``fit_autoregressive``."""
LEARNING_RATE, NUM_LOOKS, NUM_BINS = 4e-3, 8, 32
"""First learning rate, looks at held-out images, most bins of rare levels."""
NEAR, FAR, STRIDE = 4, 13, 3
"""Pixels to each side and above that the network sees, all of them, and in steps beyond."""
WHOLE, SUFFIX = 0.1, 0.5
"""Shares of moves that redraw the whole image, and every pixel after one; others redraw a few."""


def _find_offsets() -> np.ndarray:
    """Returns rows and columns (n, 2) of pixels that the network sees, in a patch around one."""
    rows, columns = np.mgrid[-FAR:1, -FAR : FAR + 1].reshape(2, -1)
    is_before = (rows < 0) | (columns < 0)
    is_near = (rows >= -NEAR) & (abs(columns) <= NEAR)
    is_far = (rows % STRIDE == 0) & (columns % STRIDE == 0)
    return np.stack([rows, columns], axis=1)[is_before & (is_near | is_far)] + FAR


OFFSETS = _find_offsets()


class Autoregressive(NamedTuple):
    r"""A mixture of :math:`q(x | y) = \prod_i q(x_i | x_{<i}, y)`, pixels in rows from the top.

    A small network sees the pixels around x_i that come before it, the mean of their features over
    all pixels before it, its place and y. It gives probabilities of bins of grey levels. Inside a
    bin the density is constant.

    Attributes:
      params: of the network.
      edges: of the bins, increasing from -1 to 1, (b + 1,).
      log_weights: of the components y, (c,).
      given: image whose pixels at other places are given; None for none.
      places: indices of free values in the flat image; None for all. Positions have their shape.
      keeps: whether draws of all pixels keep the component.
    """

    params: dict[str, jax.Array]
    edges: jax.Array
    log_weights: jax.Array
    given: jax.Array | None = None
    places: jax.Array | None = None
    keeps: Any = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (height, width, channels) of an image."""
        return (*self.params["place"].shape[:2], self.params["bias"].shape[1])

    def log_densities(self, x: jax.Array) -> jax.Array:
        """Returns the log density of every component (c,) at a position ``x``.

        Where pixels are given, it is that of the whole image.
        """
        image, labels = self._place(x), jnp.arange(len(self.log_weights))
        return jax.lax.map(lambda label: jnp.sum(self.log_terms(image, label)), labels)

    def log_density(self, x: jax.Array) -> jax.Array:
        """Returns the log density of the mixture."""
        return jax.nn.logsumexp(self.log_densities(x) + self.log_weights)

    def draw(self, key: Key, component: Any) -> jax.Array:
        """Returns a draw of the component; its given pixels are not drawn."""
        image = jnp.zeros(self.shape) if self.given is None else self.given
        return self._take(self._redraw(key, image, component, self._is_free(True))[0])

    def draw_any(self, key: Key) -> jax.Array:
        """Returns a draw of the mixture."""
        component_key, draw_key = jax.random.split(key)
        return self.draw(draw_key, jax.random.categorical(component_key, self.log_weights))

    def propose(
        self, key: Key, x: jax.Array, component: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Returns a position with some pixels drawn anew, its component, and a log ratio.

        The ratio is that of the mixture's densities after and before, over that of the proposals. A
        draw of all pixels chooses the component anew.
        """
        kind_key, first_key, length_key, component_key, draw_key = jax.random.split(key, 5)
        size = self.shape[0] * self.shape[1]
        kind, first = jax.random.uniform(kind_key), jax.random.randint(first_key, (), 0, size)
        is_whole = kind < WHOLE
        length = jnp.exp(jax.random.uniform(length_key, maxval=jnp.log(size)))
        last = jnp.where(kind < WHOLE + SUFFIX, size, first + length)
        at = jnp.arange(size).reshape(*self.shape[:2], 1)
        is_free = self._is_free(is_whole | ((at >= first) & (at < last)))
        other = jax.random.categorical(component_key, self.log_weights)
        new_component = jnp.where(is_whole & ~jnp.asarray(self.keeps), other, component)
        image = self._place(x)
        new, terms = self._redraw(draw_key, image, new_component, is_free)
        change = terms - self.log_terms(image, component)
        return self._take(new), new_component, jnp.sum(jnp.where(is_free, 0.0, change))

    def log_terms(self, image: jax.Array, component: Any) -> jax.Array:
        """Returns the log density of every pixel by those before it, like ``image``."""
        symbols = self._symbols(image)
        values = self._centres()[symbols]
        padded = jnp.pad(values, ((FAR, 0), (FAR, FAR), (0, 0)))
        height, width, channels = self.shape
        parts = [padded[i : i + height, j : j + width] for i, j in OFFSETS]
        log_widths = jnp.log(jnp.diff(self.edges))

        def score(seen: jax.Array, place: jax.Array, own: Any, chosen: Any) -> jax.Array:
            hidden = self._hidden(seen, place, component)
            logits = jnp.stack([self._logits(hidden, own, component, k) for k in range(channels)])
            at = jnp.arange(channels), chosen
            return jax.nn.log_softmax(logits)[at] - log_widths[chosen]

        of_rows = jax.vmap(jax.vmap(score))
        kernel = self.params["context"].reshape(len(parts), channels, -1)
        seen = jnp.einsum("nhwc,ncf->hwf", jnp.stack(parts), kernel)
        features = self._features(seen, self.params["place"], values)
        above, before = (jnp.tri(side, k=-1) for side in (height, width))
        sums = (above @ features.sum(axis=1))[:, None] + before @ features
        counts = jnp.arange(1.0, height * width + 1).reshape(height, width, 1)
        seen = self._add_means(seen, sums / counts)
        return of_rows(seen, self.params["place"], values, symbols)

    def _redraw(self, key: Key, image: jax.Array, component: Any, is_free: Any) -> Any:
        """Returns ``image`` with its free pixels drawn one after the other, and its log terms."""
        height, width, channels = self.shape
        centres, known, widths = self._centres(), self._symbols(image), jnp.diff(self.edges)
        padded = jnp.pad(centres[known], ((FAR, 0), (FAR, FAR), (0, 0)))
        choice_key, inside_key = jax.random.split(key)
        choices = jax.random.uniform(choice_key, self.shape)

        def draw(carry: Any, at: jax.Array) -> tuple[Any, Any]:
            (padded, total), i, j = carry, at // width, at % width
            patch = jax.lax.dynamic_slice(padded, (i, j, 0), (FAR + 1, 2 * FAR + 1, channels))
            seen = patch[OFFSETS[:, 0], OFFSETS[:, 1]].ravel() @ self.params["context"]
            first = self._add_means(seen, total / (at + 1))
            place = self.params["place"][i, j]
            hidden = self._hidden(first, place, component)
            values, drawn, terms = padded[i + FAR, j + FAR], [], []
            for k in range(channels):
                scores = jax.nn.log_softmax(self._logits(hidden, values, component, k))
                own = jnp.sum(jnp.cumsum(jnp.exp(scores))[:-1] < choices[i, j, k])
                drawn.append(jnp.where(is_free[i, j, k], own, known[i, j, k]))
                terms.append(scores[drawn[-1]])
                values = values.at[k].set(centres[drawn[-1]])
            total += self._features(seen, place, values)
            return (padded.at[i + FAR, j + FAR].set(values), total), (
                jnp.stack(drawn),
                jnp.stack(terms),
            )

        start = padded, jnp.zeros(len(self.params["means"]))
        found = jax.lax.scan(draw, start, jnp.arange(height * width))[1]
        symbols, terms = (one.reshape(self.shape) for one in found)
        new = self.edges[symbols] + widths[symbols] * jax.random.uniform(inside_key, self.shape)
        return jnp.where(is_free, new, image), terms - jnp.log(widths)[symbols]

    def _add_means(self, seen: jax.Array, means: jax.Array) -> jax.Array:
        gates = 2.0 * jax.nn.sigmoid(means @ self.params["gates"])
        return gates * seen + means @ self.params["means"]

    def _features(self, seen: jax.Array, place: jax.Array, values: jax.Array) -> jax.Array:
        p = self.params
        return jax.nn.relu((seen + place) @ p["features"] + values @ p["own"])

    def _hidden(self, seen: jax.Array, place: jax.Array, component: Any) -> jax.Array:
        p = self.params
        first = jax.nn.relu(seen + place + p["component"][component])
        return first + jax.nn.relu(first @ p["hidden"] + p["hidden_component"][component])

    def _logits(self, hidden: jax.Array, values: jax.Array, component: Any, channel: int) -> Any:
        p = self.params
        own = values[..., :channel] @ p["channels"][channel, :channel]
        return jax.nn.relu(hidden + own) @ p["out"][channel] + p["bias"][component, channel]

    def _symbols(self, image: jax.Array) -> jax.Array:
        return jnp.searchsorted(self.edges[1:-1], image, side="right")

    def _centres(self) -> jax.Array:
        return 0.5 * (self.edges[1:] + self.edges[:-1])

    def _place(self, x: jax.Array) -> jax.Array:
        if self.given is None:
            return x
        return self.given.ravel().at[self.places].set(x).reshape(self.shape)

    def _take(self, image: jax.Array) -> jax.Array:
        return image if self.places is None else image.ravel()[self.places]

    def _is_free(self, is_redrawn: Any) -> jax.Array:
        is_free = jnp.broadcast_to(is_redrawn, self.shape)
        if self.places is None:
            return is_free
        return is_free & jnp.zeros(is_free.size, bool).at[self.places].set(True).reshape(self.shape)


def fit_autoregressive(
    images: Any, labels: Any, is_held: Any, *, width: int = 64, num_steps: int = 4000
) -> tuple[Autoregressive, float]:
    """Fits an autoregressive density to images, and stops by those that are held out.

    Grey levels that are common get a bin of their own, others share bins of equal counts.

    Args:
      images: (n, height, width, channels), uint8.
      labels: components (n,), integers from 0, every one of them there.
      is_held: (n,), bools; True for images that only judge the fit. Without any, all judge.
      width: of the network.
      num_steps: updates, at most.

    Returns:
      The density, and the mean log density of held-out images, dequantised, in nats.

    Source: van den Oord, Kalchbrenner & Kavukcuoglu 2016, with one causal convolution.
    """
    images, labels, is_held = np.asarray(images), np.asarray(labels), np.asarray(is_held)
    edges = _find_edges(np.bincount(images.ravel(), minlength=256), NUM_BINS)
    start = Autoregressive(
        _init(images.shape[1:], int(labels.max()) + 1, width, len(edges) - 1),
        jnp.asarray(edges / 128.0 - 1.0, jnp.float32),
        jnp.asarray(np.log(np.bincount(labels) / len(labels)), jnp.float32),
    )
    start.params["bias"] = jnp.log(_count(np.digitize(images, edges[1:-1]), labels, len(edges) - 1))
    x, y = jnp.asarray((images + 0.5) / 128.0 - 1.0, jnp.float32), jnp.asarray(labels)
    steps = max(num_steps // NUM_LOOKS, 1)
    optimizer = optax.adam(optax.cosine_decay_schedule(LEARNING_RATE, steps * NUM_LOOKS))
    (kept,), (held,) = np.nonzero(~is_held), np.nonzero(is_held if is_held.any() else ~is_held)

    def log_density(params: Any, at: Any) -> jax.Array:
        return jnp.sum(start._replace(params=params).log_terms(x[at], y[at]))

    def loss(params: Any, places: Any) -> jax.Array:
        return -jnp.mean(jax.vmap(partial(log_density, params))(places)) / x[0].size

    @jax.jit
    def train(key: Key, params: Any, state: Any) -> tuple[Any, Any, jax.Array]:
        def update(carry: Any, key: Key) -> tuple[Any, None]:
            params, state = carry
            places = jax.random.choice(key, jnp.asarray(kept), (FIT_BATCH,))
            gradients = jax.grad(loss)(params, places)
            updates, state = optimizer.update(gradients, state)
            return (optax.apply_updates(params, updates), state), None

        (params, state), _ = jax.lax.scan(update, (params, state), jax.random.split(key, steps))
        of = partial(log_density, params)
        return params, state, jnp.mean(jax.lax.map(of, jnp.asarray(held), batch_size=64))

    params, state, looks = start.params, optimizer.init(start.params), []
    for key in jax.random.split(jax.random.key(0), NUM_LOOKS):
        params, state, score = train(key, params, state)
        looks.append((float(score), params))
        if len(looks) > 2 and looks[-3][0] > max(looks[-1][0], looks[-2][0]):
            break
    best, params = max(looks, key=lambda look: look[0])
    return start._replace(params=params), best


def _find_edges(counts: np.ndarray, num_bins: int) -> np.ndarray:
    """Returns the first level of every bin, and 256, from the counts of levels (256,)."""
    is_common = counts >= counts.sum() / num_bins
    rare = np.where(is_common, 0, counts)
    groups = np.ceil(np.cumsum(rare) * num_bins / max(rare.sum(), 1))
    starts = is_common[1:] | is_common[:-1] | (np.diff(groups) > 0)
    return np.concatenate([[0], 1 + np.flatnonzero(starts), [256]])


def _count(symbols: np.ndarray, labels: np.ndarray, num_bins: int) -> jax.Array:
    """Returns shares of bins (components, channels, b), which lean on those of all components."""
    flat = symbols.reshape(len(symbols), -1, symbols.shape[-1])
    counts = np.stack([np.sum(flat == one, axis=1) for one in range(num_bins)], axis=-1) + 0.0
    whole = counts.sum(axis=0) + 1.0
    own = np.stack([counts[labels == one].sum(axis=0) for one in range(labels.max() + 1)])
    own += 10 * whole / whole.sum(axis=-1, keepdims=True)
    return jnp.asarray(own / own.sum(axis=-1, keepdims=True), jnp.float32)


def _init(
    shape: tuple[int, ...], num_components: int, width: int, num_bins: int
) -> dict[str, jax.Array]:
    (height, across, channels), rng = shape, np.random.default_rng(0)
    count = len(OFFSETS) * channels

    def normal(fan_in: int, *shape: int) -> jax.Array:
        return jnp.asarray(rng.standard_normal(shape) * np.sqrt(2.0 / fan_in), jnp.float32)

    return {
        "context": normal(count, count, width),
        "place": jnp.zeros((height, across, width)),
        "component": normal(200, num_components, width),
        "hidden": normal(width, width, width),
        "hidden_component": normal(200, num_components, width),
        "features": normal(width, width, width // 2),
        "own": normal(2 * channels, channels, width // 2),
        "gates": normal(2 * width, width // 2, width),
        "means": normal(width // 2, width // 2, width),
        "channels": normal(4, channels, channels, width),
        "out": jnp.zeros((channels, width, num_bins)),
        "bias": jnp.zeros((num_components, channels, num_bins)),
    }
