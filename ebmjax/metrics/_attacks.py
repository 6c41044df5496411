"""Robustness of a classifier, also a randomised one: PGD, AutoAttack's APGD, and BPDA."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ebmjax._checks import (
    check_at_least,
    check_box,
    check_floating,
    check_labels,
    check_not_negative,
    check_positive,
)
from ebmjax._precision import at_least_float32, root
from ebmjax.types import Key

CLASSES = {"ce": 2, "dlr": 3, "dlr_targeted": 4}
"""Losses of ``apgd_attack``, and the least number of classes of each."""
TINY = 1e-12
"""Keeps a ratio of logits finite."""
SHARE, MOMENTUM, NUM_TARGETS = 0.75, 0.75, 9
"""Share of APGD's steps that must climb, weight of its new step, and targets of "dlr_targeted"."""


class PGDResult(NamedTuple):
    """Results of an attack on N images.

    Attributes:
      adversarial: shaped like the images; the tried image with the smallest margin, over every step
        of every restart, the clean image included.
      is_correct: bool (N,); False if any tried image was misclassified (``margin <= 0``), and where
        ``had_gradient`` is False, because an attack that cannot move shows nothing.
      margin: float32 (N,), the smallest margin: the label's logit minus the largest other one.
      had_gradient: bool (N,); whether a restart had a usable gradient at each of its steps: finite,
        and not zero at every pixel. A broken image and a radius of 0 need none: True.
    """

    adversarial: jax.Array
    is_correct: jax.Array
    margin: jax.Array
    had_gradient: jax.Array


class Ball(NamedTuple):
    """Ball of a norm for (N, ...) displacements, one an image."""

    direction: Callable[[jax.Array], jax.Array]
    project: Callable[[jax.Array, Any], jax.Array]
    sample: Callable[..., jax.Array]


def _norms(x: jax.Array) -> jax.Array:
    """Returns Euclidean norms, shaped to broadcast; scales first, so squares do not underflow."""
    axes = tuple(range(1, x.ndim))
    largest = jnp.max(jnp.abs(x), axis=axes, keepdims=True)
    scaled = x / jnp.where(largest > 0, largest, 1.0)
    return largest * root(jnp.sum(scaled**2, axis=axes, keepdims=True))


def _unit(x: jax.Array) -> jax.Array:
    norms = _norms(x)
    return x / jnp.where(norms > 0, norms, 1.0)


def _project_l2(x: jax.Array, epsilon: Any) -> jax.Array:
    norms = _norms(x)
    return jnp.where(norms > epsilon, x * (epsilon / jnp.where(norms > 0, norms, 1.0)), x)


def _sample_l2(key: Key, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    direction_key, radius_key = jax.random.split(key)
    directions = _unit(jax.random.normal(direction_key, shape, dtype))
    radii = jax.random.uniform(radius_key, (shape[0],) + (1,) * (len(shape) - 1), dtype)
    return directions * radii ** (1.0 / math.prod(shape[1:]))


BALLS = {
    "linf": Ball(
        direction=jnp.sign,
        project=lambda x, epsilon: jnp.clip(x, -epsilon, epsilon),
        sample=partial(jax.random.uniform, minval=-1.0, maxval=1.0),
    ),
    "l2": Ball(direction=_unit, project=_project_l2, sample=_sample_l2),
}


def epsilon_from_levels(levels: Any) -> jax.Array:
    """Converts radii from levels 0..255 to units of images in [-1, 1]: ``2 levels / 255``.

    A paper's epsilon of 8/255 is for pixels in [0, 1]; in [-1, 1] distances are twice as long.
    """
    check_not_negative("levels", levels)
    return 2.0 * jnp.asarray(levels, jnp.float32) / 255.0


def pgd_attack(
    key: Key,
    logits_fn: Callable[[Key, jax.Array], jax.Array],
    images: jax.Array,
    labels: jax.Array,
    *,
    epsilon: Any,
    norm: Literal["linf", "l2"],
    num_steps: int,
    step_size: Any = None,
    num_restarts: int = 1,
    random_start: bool = True,
    num_eot: int = 1,
    low: Any = -1.0,
    high: Any = 1.0,
) -> PGDResult:
    r"""Looks for a misclassified image within ``epsilon`` of each image, by projected ascent.

    .. math::
        x_{k+1} = \Pi\big(x_k + \eta\, d(g_k)\big), \qquad
        g = \nabla_x \Big(\log \sum_{j \ne y} e^{f_j(x)} - f_y(x)\Big)

    with :math:`d` the sign (linf) or the unit vector (l2) of each image's gradient, and :math:`\Pi`
    onto the ball around the image, then onto the box [low, high]. Cross-entropy is log(1 + exp(.))
    of the same bracket, but its gradient rounds to zero if the classifier is sure.

    **Broken at any step is broken**: the clean image, the start and every step of every restart are
    judged, and one misclassification, tie or NaN logit counts. **An image without a usable gradient
    does not count as correct**: see ``had_gradient``. Give logits, not probabilities.

    A randomised ``logits_fn`` gets a new key for every evaluation, so no step knows the noise that
    judges it. Of ``num_eot`` copies the mean gradient moves and the mean logits judge
    (docs/robustness.md). ``epsilon`` and ``step_size`` may be traced.

    Args:
      key: consumed by starts and evaluations.
      logits_fn: ``(key, images) -> (N, classes)`` with independent rows, so batch normalisation
        must use running averages. A deterministic one ignores its key.
      images: floating point (N, ...), within [low, high]; they move in float32 or wider.
      labels: integers (N,).
      epsilon: radius of the ball, at least 0, in units of the images: for [-1, 1] see
        ``epsilon_from_levels``. "l2" is the norm of the whole image, not a mean over pixels.
      norm: "linf" or "l2".
      num_steps: steps of a restart, at least 1.
      step_size: length of a step, in units of the images; None for ``2.5 epsilon / num_steps``,
        which can cross the ball whatever its radius (Madry et al. 2018).
      num_restarts: at least 1; the worst counts.
      random_start: whether to begin uniformly in the ball instead of at the image.
      num_eot: copies over which a randomised classifier is averaged, at least 1 (Athalye et al.
        2018).
      low, high: ends of the images' range.

    Source: Madry et al. 2018, "Towards deep learning models resistant to adversarial attacks".
    """

    def begin(attack: _Attack) -> tuple[Any, None, None]:
        default = 2.5 * attack.epsilon / num_steps
        length = default if attack.step_size is None else attack.step_size

        def step(point: Any, memory: None, _: None) -> tuple[jax.Array, None]:
            return attack.project(point[0] + length * BALLS[norm].direction(point[2])), memory

        return step, None, None

    ball, runs = (epsilon, norm, num_eot, low, high), (num_restarts, random_start)
    attack = _Attack(logits_fn, images, labels, *ball, num_steps, "ce", *runs, step_size)
    return _run_attack(begin, key, attack)


def apgd_attack(
    key: Key,
    logits_fn: Callable[[Key, jax.Array], jax.Array],
    images: jax.Array,
    labels: jax.Array,
    *,
    epsilon: Any,
    norm: Literal["linf", "l2"],
    loss: Literal["ce", "dlr", "dlr_targeted"] = "ce",
    num_steps: int = 100,
    num_restarts: int = 1,
    random_start: bool = True,
    num_eot: int = 1,
    low: Any = -1.0,
    high: Any = 1.0,
) -> PGDResult:
    r"""Looks for a misclassified image within ``epsilon`` by AutoAttack's APGD.

    Steps are two radii long at first, and have momentum:

    .. math::
        z = \Pi(x_k + \eta\, d(g_k)), \qquad
        x_{k+1} = \Pi\big(x_k + \tfrac34 (z - x_k) + \tfrac14 (x_k - x_{k-1})\big).

    At a checkpoint, an image may go back to its best point with half its step. It does so if at
    most three quarters of the steps since the last checkpoint raised its loss. It also does so if
    neither its step nor its best loss changed there. Every tried image is judged.

    Args:
      key, logits_fn, images, labels, epsilon, norm, num_restarts, random_start, low, high: as for
        ``pgd_attack``.
      loss: "ce" climbs as cross-entropy does, without its rounding to zero. "dlr", the difference
        of logits ratio, ignores the logits' scale and needs 3 classes. "dlr_targeted" needs 4, and
        goes towards each of the nine likeliest wrong classes in turn.
      num_steps: steps of a restart, at least 1.
      num_eot: copies whose mean gradient, loss and logits count.

    Source: Croce & Hein 2020, "Reliable evaluation of adversarial robustness with an ensemble of
    diverse parameter-free attacks", Algorithm 1, equations 6 and 7.

    Example:
      >>> logits_fn = lambda key, x: jnp.stack([x[:, 0], -x[:, 0]], axis=1)
      >>> attacked = logits_fn, jnp.array([[0.3], [0.5]]), jnp.array([0, 0])
      >>> apgd_attack(jax.random.key(0), *attacked, epsilon=0.4, norm="linf").is_correct.tolist()
      [False, True]
    """

    def begin(attack: _Attack) -> tuple[Any, Any, Any]:
        wide, num, direction = attack.images, len(images), BALLS[norm].direction

        def step(point: Any, memory: Any, inputs: Any) -> tuple[jax.Array, Any]:
            before, last, best, length, num_rises, best_then, was_halved = memory
            (_, height, _), (weight, window) = point, inputs
            best = _choose(height > best[1], point, best)
            num_rises += height > last
            is_stuck = ~was_halved & (best[1] <= best_then)
            halves = (window > 0) & ((num_rises <= SHARE * window) | is_stuck)
            x, _, slopes = _choose(halves, best, point)
            length = jnp.where(halves, length / 2, length)
            num_rises = jnp.where(window > 0, 0, num_rises)
            best_then = jnp.where(window > 0, best[1], best_then)
            was_halved = jnp.where(window > 0, halves, was_halved)
            moved = attack.project(x + _per_image(length, x) * direction(slopes))
            moved = attack.project(x + weight * (moved - x) + (1 - weight) * (x - before))
            return moved, (x, height, best, length, num_rises, best_then, was_halved)

        lowest = jnp.full(num, -jnp.inf, jnp.float32)
        best = wide, lowest, jnp.zeros_like(wide)
        length, rises = jnp.full(num, 2.0 * attack.epsilon, wide.dtype), jnp.zeros(num, jnp.int32)
        memory = wide, -lowest, best, length, rises, lowest, jnp.ones(num, bool)
        weights = np.where(np.arange(num_steps) > 0, MOMENTUM, 1.0).astype(np.float32)
        inputs = weights, np.append(0, checkpoint_windows(num_steps)[:-1])
        return step, memory, inputs

    ball, runs = (epsilon, norm, num_eot, low, high), (loss, num_restarts, random_start)
    attack = _Attack(logits_fn, images, labels, *ball, num_steps, *runs)
    return _run_attack(begin, key, attack)


def checkpoint_windows(num_steps: int) -> np.ndarray:
    """Returns, for each step, the steps since the last checkpoint, or 0 if it is none.

    Checkpoints lie at 22 %, 41 %, 57 %, ... of the steps, rounded up: gaps shrink by 3 %, to 6 %.
    """
    percents = np.cumsum([22, 19, 16, 13, 10, 7, 6, 6])
    checkpoints = np.unique(-(-percents * num_steps // 100))
    windows = np.zeros(num_steps, np.int32)
    windows[checkpoints - 1] = np.diff(checkpoints, prepend=0)
    return windows


def straight_through(
    transform: Callable[[Key, jax.Array], jax.Array],
) -> Callable[[Key, jax.Array], jax.Array]:
    """Returns ``transform`` with the identity as its derivative: the BPDA of a purification.

    An attack through ``classifier(straight_through(purify)(key, images))`` uses the classifier's
    gradient at the purified images as the gradient at the images. Use it if the true gradient is
    zero, noise or a long chain's. It suits transforms that change an image little.

    Args:
      transform: ``transform(key, images) -> images`` of the same shape and dtype, such as a few
        Langevin steps from each image.

    Returns:
      The same function of ``(key, images)``.

    Source: Athalye, Carlini & Wagner 2018, section 4.1.
    """

    def transform_straight_through(key: Key, images: jax.Array) -> jax.Array:
        images = jnp.asarray(images)
        transformed = transform(key, jax.lax.stop_gradient(images))
        if (transformed.shape, transformed.dtype) != (images.shape, images.dtype):
            raise ValueError(
                "transform must keep the images' shape and dtype, since its derivative is to be "
                f"the identity; got {transformed.shape} {transformed.dtype} from {images.shape} "
                f"{images.dtype}."
            )
        # An exact zero whose derivative is the identity, so the value stays the transform's.
        return transformed + (images - jax.lax.stop_gradient(images))

    return transform_straight_through


class _Attack(NamedTuple):
    """Settings of an attack; see ``pgd_attack`` and ``apgd_attack``."""

    logits_fn: Callable[[Key, jax.Array], jax.Array]
    images: jax.Array
    labels: jax.Array
    epsilon: Any
    norm: str
    num_eot: int
    low: Any
    high: Any
    num_steps: int
    loss: str
    num_restarts: int
    random_start: bool
    step_size: Any = None

    def project(self, x: jax.Array) -> jax.Array:
        """Returns ``x`` projected onto the ball, then onto the box [low, high]."""
        inside = self.images + BALLS[self.norm].project(x - self.images, self.epsilon)
        return jnp.clip(inside, self.low, self.high).astype(self.images.dtype)

    def mean_of(self, function: Callable[[Key], Any], key: Key) -> Any:
        """Returns the mean of ``function(key)`` over ``num_eot`` copies."""
        copies = jax.lax.map(function, jax.random.split(key, self.num_eot))
        return jax.tree.map(partial(jnp.mean, axis=0), copies)

    def logits(self, key: Key, x: jax.Array) -> jax.Array:
        """Returns the copies' mean logits."""
        return self.mean_of(lambda key: self.logits_fn(key, x).astype(jnp.float32), key)

    def look(self, key: Key, x: jax.Array, targets: jax.Array) -> tuple[jax.Array, ...]:
        """Returns margins (N,), mean losses (N,), their gradient (N, ...), and if it is usable.

        A usable gradient (N,) is finite and not zero everywhere. A pixel whose derivative is NaN or
        infinite has 0.
        """

        def climb(x: jax.Array, key: Key) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            logits = self.logits_fn(key, x).astype(jnp.float32)
            heights = _losses(self.loss, self.labels, targets, logits)
            return jnp.sum(heights), (logits, heights)

        slopes, (logits, heights) = self.mean_of(partial(jax.grad(climb, has_aux=True), x), key)
        is_finite, axes = jnp.isfinite(slopes), tuple(range(1, x.ndim))
        usable = jnp.all(is_finite, axis=axes) & jnp.any(slopes != 0, axis=axes)
        return _margins(self.labels, logits), heights, jnp.where(is_finite, slopes, 0.0), usable


def _run_attack(begin: Callable[[_Attack], Any], key: Key, attack: _Attack) -> PGDResult:
    """Checks and runs an attack by one program.

    ``begin(attack)`` returns the step, memory and inputs of ``_climb``.
    """
    check_not_negative("epsilon", attack.epsilon)
    if jnp.ndim(attack.epsilon) != 0:
        raise ValueError(f"epsilon must be one radius, got shape {jnp.shape(attack.epsilon)}.")
    if attack.norm not in BALLS:
        raise ValueError(f"norm must be one of {[*BALLS]}, got norm={attack.norm!r}.")
    if attack.step_size is not None:
        check_positive("step_size", attack.step_size)
    for name in ("num_steps", "num_restarts", "num_eot"):
        check_at_least(name, getattr(attack, name), 1)
    _check_images(attack.images, attack.low, attack.high)
    images = at_least_float32(jnp.asarray(attack.images))
    num, shape = len(images), jax.eval_shape(attack.logits_fn, key, images).shape
    if len(shape) != 2 or shape[0] != num or shape[1] < 2:
        raise ValueError(
            "logits_fn(key, images) must return shape (N, classes) with at least two classes, got "
            f"{shape} for {num} images."
        )
    able = [name for name, least in CLASSES.items() if least <= shape[1]]
    if attack.loss not in able:
        raise ValueError(
            f"loss must be one of {able} for {shape[1]} classes, got loss={attack.loss!r}."
        )
    check_labels("labels", attack.labels, (num,), shape[1])
    arrays = {"images": images, "labels": jnp.asarray(attack.labels, jnp.int32)}
    arrays |= {"epsilon": attack.epsilon, "step_size": attack.step_size}

    def search(key: Key, arrays: Any) -> PGDResult:
        ready = attack._replace(**arrays)
        return _climb(key, ready, *begin(ready))

    return jax.jit(search)(key, arrays)


def _climb(
    key: Key,
    attack: _Attack,
    step: Callable[[Any, Any, Any], tuple[jax.Array, Any]],
    memory: Any,
    inputs: Any,
) -> PGDResult:
    """Returns the worst images over restarts that go up the loss, towards each target.

    ``step(point, memory, input)`` returns the next images (N, ...) and memory. A point is images,
    their losses (N,) and finite gradients (N, ...). Each restart begins with ``memory``. Inputs are
    (num_steps, ...), one for each step.
    """
    images, (clean_key, runs_key) = attack.images, jax.random.split(key)
    logits = attack.logits(clean_key, images)
    likeliest_wrong = jnp.argsort(-_split_logits(attack.labels, logits)[1], axis=1).T[:-1]
    targets = likeliest_wrong[: NUM_TARGETS if attack.loss == "dlr_targeted" else 1]

    def move(target: jax.Array, carry: Any, keyed: tuple[Key, Any]) -> tuple[Any, None]:
        (x, worst, had_gradient, memory), (key, now) = carry, keyed
        margins, heights, slopes, usable = attack.look(key, x, target)
        worst = _choose(margins < worst[1], (x, margins), worst)
        x, memory = step((x, heights, slopes), memory, now)
        return (x, worst, had_gradient & (usable | (worst[1] <= 0)), memory), None

    def run(carry: tuple[Any, jax.Array], keyed: tuple[Key, jax.Array]) -> tuple[Any, None]:
        (worst, had_before), (key, target) = carry, keyed
        start_key, steps_key, last_key = jax.random.split(key, 3)
        noise = BALLS[attack.norm].sample(start_key, images.shape, images.dtype)
        start = attack.project(images + attack.epsilon * noise) if attack.random_start else images
        begin = start, worst, jnp.ones(len(images), bool), memory
        keys = jax.random.split(steps_key, attack.num_steps)
        (x, worst, usable, _), _ = jax.lax.scan(partial(move, target), begin, (keys, inputs))
        margins = _margins(attack.labels, attack.logits(last_key, x))
        worst = _choose(margins < worst[1], (x, margins), worst)
        return (worst, had_before | usable), None

    targets = jnp.repeat(targets, attack.num_restarts, axis=0)
    begin = (images, _margins(attack.labels, logits)), jnp.full(len(images), attack.epsilon == 0)
    keyed = jax.random.split(runs_key, len(targets)), targets
    (adversarial, margins), had_gradient = jax.lax.scan(run, begin, keyed)[0]
    had_gradient |= margins <= 0
    return PGDResult(adversarial, (margins > 0) & had_gradient, margins, had_gradient)


def _choose(condition: jax.Array, one: Any, other: Any) -> Any:
    """Returns, for each image, arrays (N, ...) of ``one`` where the condition (N,) holds."""
    pick = lambda a, b: jnp.where(_per_image(condition, a), a, b)  # noqa: E731
    return jax.tree.map(pick, one, other)


def _per_image(values: jax.Array, images: jax.Array) -> jax.Array:
    return values.reshape((-1,) + (1,) * (images.ndim - 1))


def _split_logits(labels: jax.Array, logits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the labels' logits (N,), and logits (N, classes) with -inf in their place."""
    is_label = jax.nn.one_hot(labels, logits.shape[1], dtype=bool)
    own = jnp.sum(jnp.where(is_label, logits, 0.0), axis=1)
    return own, jnp.where(is_label, -jnp.inf, logits)


def _margins(labels: jax.Array, logits: jax.Array) -> jax.Array:
    """Returns margins (N,): the label's logit minus the largest other; -inf where it is NaN."""
    own, others = _split_logits(labels, logits)
    margins = own - jnp.max(others, axis=1)
    return jnp.where(jnp.isnan(margins), -jnp.inf, margins)


def _losses(loss: str, labels: jax.Array, targets: jax.Array, logits: jax.Array) -> jax.Array:
    """Returns losses (N,) of ``apgd_attack``."""
    own, others = _split_logits(labels, logits)
    if loss == "ce":
        return jax.nn.logsumexp(others, axis=1) - own
    first, third, fourth = (jnp.sort(logits, axis=1)[:, -k] for k in (1, 3, min(4, CLASSES[loss])))
    if loss == "dlr":
        return -_margins(labels, logits) / (first - third + TINY)
    gaps = jnp.take_along_axis(logits, targets[:, None], axis=1)[:, 0] - own
    return gaps / (first - (third + fourth) / 2 + TINY)


def _check_images(images: jax.Array, low: Any, high: Any) -> None:
    """Raises unless ``images`` are floating point (N, ...), in [low, high] where concrete."""
    check_floating("images", images)
    check_box(low, high)
    if jnp.ndim(images) < 2 or 0 in jnp.shape(images):
        raise ValueError(f"images must have shape (N, ...), none empty, got {jnp.shape(images)}.")
    if any(isinstance(value, Tracer) for value in (images, low, high)):
        return
    pixels = np.asarray(images)
    outside = np.count_nonzero(~((pixels >= low) & (pixels <= high)))  # NaN is outside too
    if outside:
        raise ValueError(
            f"images must lie within [low, high] = [{low}, {high}]; {outside} of {pixels.size} "
            "pixels do not, or are NaN."
        )
