"""APGD on classifiers whose nearest misclassified image is known exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attack_problems import DUAL, EPS, binary, exact_margins, linear, problem

from ebmjax.metrics import apgd_attack
from ebmjax.metrics._attacks import checkpoint_windows

KEY = jax.random.key(0)
BOTH = pytest.mark.parametrize("norm", ["linf", "l2"])


def nearest_distances(weights, images, labels, norm):
    """Distances (N,) to the nearest of a linear classifier's other classes."""
    margins, directions = exact_margins(weights, images, labels)
    slopes = np.linalg.norm(directions, ord=DUAL[norm], axis=-1)
    is_label = np.eye(margins.shape[1], dtype=bool)[np.asarray(labels)]
    return np.where(is_label, np.inf, margins / np.where(is_label, 1.0, slopes)).min(axis=1)


@BOTH
@pytest.mark.parametrize("loss", ["ce", "dlr", "dlr_targeted"])
def test_an_attack_succeeds_if_the_radius_exceeds_the_nearest_distance(norm, loss):
    """At radii half way between the distances of images; so each tells two images apart.

    An untargeted loss of several classes may climb towards another than the nearest. So for these,
    the classes beyond two are too far away.
    """
    weights, images, labels = problem(num_classes=5 if loss == "dlr_targeted" else 2)
    exact = np.sort(nearest_distances(weights, images, labels, norm))

    def logits_fn(key, x):
        far = jnp.full((len(x), 2), -50.0)
        return jnp.concatenate([linear(weights)(key, x), far], axis=1)

    options = {"norm": norm, "loss": loss, "num_steps": 20, "low": -10.0, "high": 10.0}
    attack_at = jax.jit(
        lambda epsilon: apgd_attack(KEY, logits_fn, images, labels, epsilon=epsilon, **options)
    )
    for i, radius in enumerate([exact[0] / 2, *(exact[1:] + exact[:-1]) / 2]):
        found = attack_at(radius)
        assert np.sum(~np.asarray(found.is_correct)) == i
        assert np.all(found.had_gradient)
        moved = np.asarray(found.adversarial - images).reshape(8, -1)
        lengths = np.linalg.norm(moved, ord={"linf": np.inf, "l2": 2}[norm], axis=1)
        assert lengths.max() <= radius + 10 * EPS


def reference_apgd(x0, loss_and_gradient, radius, norm, num_steps):
    """Algorithm 1 of Croce & Hein 2020 for one image, in NumPy; returns all iterates.

    As in the authors' code, a checkpoint looks at the losses up to that of the point just reached,
    a tie of the first condition halves the step, and the second starts at the second checkpoint.
    """
    parts = [0.0, 0.22]
    while parts[-1] <= 1:
        parts.append(parts[-1] + max(parts[-1] - parts[-2] - 0.03, 0.06))
    checkpoints = [int(np.ceil(round(part * num_steps, 9))) for part in parts[1:-1]]

    def project(x):
        d = x - x0
        if norm == "linf":
            return x0 + np.clip(d, -radius, radius)
        return x0 + d * min(1.0, radius / max(np.linalg.norm(d), 1e-30))

    def direction(g):
        return np.sign(g) if norm == "linf" else g / np.linalg.norm(g)

    x_old, x, step, was_halved, last = x0, x0, 2.0 * radius, True, 0
    loss, g = loss_and_gradient(x)
    best, losses, best_then, iterates, num_halved = (loss, x, g), [loss], loss, [x], 0
    for k in range(num_steps):
        z = project(x + step * direction(g))
        alpha = 0.75 if k else 1.0
        x, x_old = project(x + alpha * (z - x) + (1 - alpha) * (x - x_old)), x
        loss, g = loss_and_gradient(x)
        iterates.append(x)
        losses.append(loss)
        if loss > best[0]:
            best = loss, x, g
        if k + 1 in checkpoints:
            rises = sum(losses[i + 1] > losses[i] for i in range(last, k + 1))
            was_halved = rises <= 0.75 * (k + 1 - last) or (not was_halved and best[0] == best_then)
            if was_halved:
                num_halved += 1
                step /= 2
                _, x, g = best
            last, best_then = k + 1, best[0]
    return np.stack(iterates), num_halved


@BOTH
@pytest.mark.parametrize("num_steps", [50, 100])
def test_apgd_is_a_transcription_of_the_paper_step_by_step(norm, num_steps):
    """On a quadratic margin, whose optimum lies within the ball, so that steps are halved."""
    rng = np.random.default_rng(1)
    curvature = rng.uniform(0.5, 4.0, (3, 6)).astype(np.float32)
    centres = rng.uniform(-0.3, 0.3, (3, 6)).astype(np.float32)
    images = rng.uniform(-0.1, 0.1, (3, 6)).astype(np.float32)
    radius, seen = np.float32(0.45), []

    def logits_fn(key, x):
        jax.debug.callback(lambda x: seen.append(np.array(x)), x, ordered=True)
        return binary(jnp.sum(curvature * (x - centres) ** 2, axis=1) + 1.0)

    found = apgd_attack(KEY, logits_fn, jnp.asarray(images), jnp.zeros(3, int), epsilon=radius,
                        norm=norm, num_steps=num_steps, random_start=False)  # fmt: skip
    jax.effects_barrier()
    assert np.all(found.is_correct)
    assert len(seen) == num_steps + 2  # the clean image, the start and every step
    for i, x0 in enumerate(images):

        def loss_and_gradient(x, i=i):
            distance = x - centres[i]
            return -np.sum(curvature[i] * distance**2) - 1.0, -2 * curvature[i] * distance

        iterates, num_halved = reference_apgd(x0, loss_and_gradient, radius, norm, num_steps)
        assert num_halved > 2
        # Later in L2, the direction of a small gradient is that of its rounding.
        num = num_steps // 2 if norm == "l2" else None
        got = np.stack(seen[1:])[:, i]
        np.testing.assert_allclose(got[:num], iterates[:num], rtol=0, atol=1e-4)
        losses = [loss_and_gradient(x)[0] for x in iterates]
        np.testing.assert_allclose(found.margin[i], -max(losses), rtol=1e-4)


def test_checkpoints_are_those_of_the_paper():
    windows = checkpoint_windows(100)
    assert (np.flatnonzero(windows) + 1).tolist() == [22, 41, 57, 70, 80, 87, 93, 99]
    assert windows[windows > 0].tolist() == [22, 19, 16, 13, 10, 7, 6, 6]
    assert checkpoint_windows(1).tolist() == [1]


def test_a_loss_needs_its_classes():
    weights, images, labels = problem()
    with pytest.raises(ValueError, match=r"loss must be one of \['ce'\] for 2 classes"):
        apgd_attack(KEY, linear(weights), images, labels, epsilon=0.1, norm="linf", loss="dlr")
