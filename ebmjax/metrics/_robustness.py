"""Robust accuracy under projected gradient descent, for any classifier, also randomised."""

from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp

from ebmjax._checks import check_not_negative
from ebmjax._programs import run_program
from ebmjax.metrics._attack_steps import (
    BALLS,
    Attack,
    KeyedLogitsFn,
    PGDResult,
    climb,
    run_attack,
    warn_without_gradient,
)
from ebmjax.types import Key


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

    Source: Madry et al. 2018, "Towards deep learning models resistant to adversarial attacks".
    """

    def search(key: Key, attack: Attack) -> PGDResult:
        default = 2.5 * attack.epsilon / num_steps
        length = default if attack.step_size is None else attack.step_size

        def step(point: Any, memory: None, _: None) -> tuple[jax.Array, None]:
            return attack.project(point[0] + length * BALLS[norm].direction(point[2])), memory

        return climb(key, attack, step)

    ball, runs = (epsilon, norm, num_eot, low, high), (num_restarts, random_start, step_size)
    attack = Attack(logits_fn, images, labels, *ball, num_steps, 1, "ce", *runs)
    return run_attack(search, key, attack)


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
