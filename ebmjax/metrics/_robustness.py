"""Robust accuracy under projected gradient descent, for any classifier, also randomised."""

import warnings
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ebmjax._checks import check_not_negative
from ebmjax._precision import at_least_float32
from ebmjax._programs import run_program
from ebmjax.metrics._attack_steps import (
    BALLS,
    KeyedLogitsFn,
    Worst,
    check_attack,
    check_attacked,
    finite_part,
    into_ball,
    is_usable,
    look,
    margins_of,
    round_towards,
    worse,
)
from ebmjax.types import Key


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


def epsilon_from_levels(levels: Any) -> jax.Array:
    """Converts radii from levels 0..255 to units of images in [-1, 1]: ``2 levels / 255``.

    A paper's epsilon of 8/255 is for pixels in [0, 1]; in [-1, 1] distances are twice as long.

    Example:
      >>> float(epsilon_from_levels(127.5))
      1.0
    """
    check_not_negative("levels", levels)
    return 2.0 * jnp.asarray(levels, jnp.float32) / 255.0


def pgd_attack(
    key: Key,
    logits_fn: KeyedLogitsFn,
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
    of the same bracket, so it gives the same steps. But its gradient rounds to zero if the
    classifier is sure, and an attack that stands still looks like robustness.

    Half-precision images move in float32. They are judged, and returned, rounded towards the clean
    image, which does not leave the ball.

    **Broken at any step is broken**: the clean image, the start and every step of every restart are
    judged, and one misclassification, tie or NaN logit counts. ``adversarial`` has the smallest
    margin.

    **An image without a usable gradient does not count as correct.** Outside ``jit`` a warning says
    how many there are; inside, look at ``had_gradient``.

    A randomised ``logits_fn`` gets a new key for every evaluation, so no step knows the noise that
    judges it. With ``num_eot`` copies, the step follows their mean gradient, and their mean logits
    judge. A random defence is judged ``num_restarts (num_steps + 1) + 1`` times, and one failure
    breaks it: use enough copies that a clean image does not fail by chance.

    It is jittable, with ``epsilon`` and ``step_size`` traced. Steps, restarts and copies run one
    after the other, so memory does not grow with them (except one image-sized gradient a copy).

    Args:
      key: consumed by starts and evaluations.
      logits_fn: ``(key, images) -> (N, classes)`` with independent rows, so batch normalisation
        must use running averages. A deterministic one ignores its key.
      images: floating point (N, ...), within [low, high].
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

    Returns:
      A ``PGDResult``.

    Source: Madry et al. 2018, "Towards deep learning models resistant to adversarial attacks".
    """
    counts = {"num_steps": num_steps, "num_restarts": num_restarts, "num_eot": num_eot}
    check_attack(epsilon, norm, step_size, **counts)
    images, labels, _ = check_attacked(key, logits_fn, images, labels, low, high)
    step_size = 2.5 * epsilon / num_steps if step_size is None else step_size
    ball = BALLS[norm]

    def attack(
        key: Key, images: jax.Array, labels: jax.Array, epsilon: Any, step_size: Any
    ) -> PGDResult:
        evaluate = partial(look, logits_fn, labels, num_eot)
        judge = partial(margins_of, logits_fn, labels, num_eot)

        # Half-precision images move in float32, where a step is not rounded away.
        wide = at_least_float32(images)
        project = partial(into_ball, norm, wide, epsilon, low, high)

        def move(carry: tuple[jax.Array, Worst, jax.Array], key: Key) -> tuple[Any, None]:
            x, worst, had_gradient = carry
            judged = round_towards(images, x)
            margins, _, gradients = evaluate(key, judged)
            worst = worse(worst, judged, margins)
            had_gradient &= is_usable(gradients) | (worst[1] <= 0)
            direction = ball.direction(finite_part(gradients))
            return (project(x + step_size * direction), worst, had_gradient), None

        def restart(carry: tuple[Worst, jax.Array], key: Key) -> tuple[Any, None]:
            worst, had_before = carry
            start_key, steps_key, last_key = jax.random.split(key, 3)
            noise = ball.sample(start_key, wide.shape, wide.dtype)
            start = project(wide + epsilon * noise) if random_start else wide
            keys = jax.random.split(steps_key, num_steps)
            begin = start, worst, jnp.ones(len(images), bool)
            (x, worst, had_gradient), _ = jax.lax.scan(move, begin, keys)
            judged = round_towards(images, x)
            worst = worse(worst, judged, judge(last_key, judged))
            return (worst, had_before | had_gradient), None

        clean_key, restarts_key = jax.random.split(key)
        clean = images, judge(clean_key, images)
        needs_none = jnp.full(len(images), jnp.asarray(epsilon) == 0)
        restart_keys = jax.random.split(restarts_key, num_restarts)
        (worst, had_gradient), _ = jax.lax.scan(restart, (clean, needs_none), restart_keys)
        adversarial, margins = worst
        had_gradient |= margins <= 0
        return PGDResult(adversarial, (margins > 0) & had_gradient, margins, had_gradient)

    found = run_program(attack, key, images, labels, epsilon, step_size)
    warn_without_gradient(found.had_gradient)
    return found


def warn_without_gradient(had_gradient: jax.Array) -> None:
    """Warns if concrete flags ``had_gradient``, of images on the last axis, are not all True."""
    if isinstance(had_gradient, Tracer) or np.all(had_gradient):
        return
    num = had_gradient.shape[-1]
    least = int(np.sum(had_gradient, axis=-1).min())
    warnings.warn(
        f"{num - least} of {num} attacked images had no usable gradient (NaN, infinite, or zero at "
        "every pixel), so the attack could not move them. They do not count as correct. Give "
        "logits, not probabilities, and a function with a derivative (straight_through).",
        stacklevel=3,
    )


def robust_accuracy_curve(
    key: Key,
    logits_fn: KeyedLogitsFn,
    images: jax.Array,
    labels: jax.Array,
    epsilons: jax.Array,
    **attack: Any,
) -> jax.Array:
    """Returns the fraction of images that ``pgd_attack`` finds correct, at each radius.

    Radius 0 gives the clean accuracy. The attacks are independent, so the curve may rise. An image
    broken at one radius is broken at every larger one. So if the curve rises by more than a few
    images, the attack is too weak: use more steps or restarts.

    Args:
      key: split over the radii.
      logits_fn, images, labels, attack: as for ``pgd_attack``.
      epsilons: (E,), radii in units of the images.

    Returns:
      float32 (E,).
    """
    found = robust_images(key, logits_fn, images, labels, epsilons, **attack)
    return jnp.mean(found, axis=-1, dtype=jnp.float32)


def robust_images(
    key: Key,
    logits_fn: KeyedLogitsFn,
    images: jax.Array,
    labels: jax.Array,
    epsilons: jax.Array,
    **attack: Any,
) -> jax.Array:
    """Returns which images ``pgd_attack`` finds correct, at each radius, bool (E, N).

    Their means are ``robust_accuracy_curve``, which has the same arguments. Images that
    no gradient moved do not count, with a warning outside ``jit``.
    """
    epsilons = jnp.asarray(epsilons, jnp.float32)
    if epsilons.ndim != 1:
        raise ValueError(f"epsilons must have shape (radii,), got {epsilons.shape}.")
    check_not_negative("epsilons", epsilons)

    def survivors(keyed_epsilon: tuple[Key, jax.Array]) -> tuple[jax.Array, jax.Array]:
        key, epsilon = keyed_epsilon
        found = pgd_attack(key, logits_fn, images, labels, epsilon=epsilon, **attack)
        return found.is_correct, found.had_gradient

    keys = jax.random.split(key, len(epsilons))
    loop = partial(jax.lax.map, survivors)
    is_correct, had_gradient = run_program(loop, (keys, epsilons))
    warn_without_gradient(had_gradient)
    return is_correct
