"""APGD, FAB and Square on classifiers whose nearest misclassified image is known exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attack_problems import DUAL, EPS, binary, exact_margins, linear, problem

from ebmjax.metrics import apgd_attack, fab_attack, square_attack
from ebmjax.metrics._auto_pgd import checkpoint_windows
from ebmjax.metrics._boundary_attack import nearest_on_plane
from ebmjax.metrics._square_attack import square_sides, window_pattern

KEY = jax.random.key(0)
BOTH = pytest.mark.parametrize("norm", ["linf", "l2"])
SETTINGS = {"low": -10.0, "high": 10.0}  # so wide that it does not matter


def nearest_distances(weights, images, labels, norm):
    """Distances (N,) to the nearest of a linear classifier's other classes."""
    margins, directions = exact_margins(weights, images, labels)
    slopes = np.linalg.norm(directions, ord=DUAL[norm], axis=-1)
    is_label = np.eye(margins.shape[1], dtype=bool)[np.asarray(labels)]
    return np.where(is_label, np.inf, margins / np.where(is_label, 1.0, slopes)).min(axis=1)


@BOTH
@pytest.mark.parametrize("num_classes", [2, 5])
def test_fab_finds_the_nearest_image_of_another_class(norm, num_classes):
    weights, images, labels = problem(num_classes=num_classes)
    labels = labels.at[0].set((labels[0] + 1) % num_classes)  # wrong from the start
    exact = nearest_distances(weights, images, labels, norm)
    found = fab_attack(KEY, linear(weights), images, labels, norm=norm, num_steps=20, **SETTINGS)
    assert exact[0] < 0 == found.distance[0]
    ratios = np.asarray(found.distance)[1:] / exact[1:]
    assert np.all((ratios > 1 - 100 * EPS) & (ratios < 1.01)), ratios
    moved = np.asarray(found.adversarial - images).reshape(8, -1)
    lengths = np.linalg.norm(moved, ord={"linf": np.inf, "l2": 2}[norm], axis=1)
    np.testing.assert_allclose(found.distance, lengths, rtol=10 * EPS)
    judged = np.argmax(linear(weights)(None, found.adversarial), axis=1)
    assert np.all(judged != np.asarray(labels))


ATTACKS = {
    "ce": (apgd_attack, {"num_steps": 20}),
    "dlr": (apgd_attack, {"num_steps": 20, "loss": "dlr"}),
    "dlr_targeted": (apgd_attack, {"num_steps": 20, "loss": "dlr_targeted"}),
    "square": (square_attack, {"num_queries": 400}),
}


@BOTH
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_succeeds_if_the_radius_exceeds_the_nearest_distance(norm, name):
    """At radii half way between the distances of images; so each tells two images apart.

    An untargeted loss of several classes may climb towards another than the nearest. So for these,
    the classes beyond two are too far away.
    """
    attack, options = ATTACKS[name]
    num_classes = 2 if name in ("ce", "dlr") else 5
    weights, images, labels = problem(num_classes=num_classes)
    exact = np.sort(nearest_distances(weights, images, labels, norm))

    def logits_fn(key, x):
        far = jnp.full((len(x), 2), -50.0)
        return jnp.concatenate([linear(weights)(key, x), far], axis=1)

    attack_at = jax.jit(
        lambda epsilon: attack(
            KEY, logits_fn, images, labels, epsilon=epsilon, norm=norm, **options, **SETTINGS
        )
    )
    # In L2, random windows come near the best direction, but not to it.
    missed = 2 if (name, norm) == ("square", "l2") else 0
    for i, radius in enumerate([exact[0] / 2, *(exact[1:] + exact[:-1]) / 2]):
        found = attack_at(radius)
        num_broken = np.sum(~np.asarray(found.is_correct))
        assert i - missed <= num_broken <= i, (i, num_broken)
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


@BOTH
def test_the_plane_is_reached_by_the_shortest_way_within_the_box(norm):
    """Against bisection over the same conditions of optimality, in float64; or every wall."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (40, 12))
    x[:5] = np.sign(x[:5])  # on walls
    w = rng.normal(size=(40, 12)) * 10.0 ** rng.integers(-3, 4, (40, 1))
    w[:, 0] = 0.0
    amount = rng.normal(size=40) * np.abs(w).sum(axis=1) * rng.choice([0.1, 0.5, 2.0], 40)
    d = nearest_on_plane(*map(jnp.float32, (x, w, amount)), norm=norm, low=-1.0, high=1.0)
    speed = np.abs(w) if norm == "l2" else (w != 0).astype(float)
    toward = np.sign(amount)[:, None] * np.sign(w)
    low, high = np.zeros(40), np.full(40, 1e6)
    for _ in range(200):
        middle = (low + high) / 2
        reach = np.clip(x + toward * speed * middle[:, None], -1, 1) - x
        is_short = np.sum(w * reach, axis=1) * np.sign(amount) < np.abs(amount)
        low, high = np.where(is_short, middle, low), np.where(is_short, high, middle)
    is_out = np.abs(np.sum(w * reach, axis=1) - amount) > 1e-6 * np.abs(amount)
    assert 3 < is_out.sum() < 37, "some planes lie outside the box"
    np.testing.assert_allclose(d, reach, rtol=0, atol=2e-5)


def test_squares_shrink_by_their_schedule():
    """Root of 80 % of 1024 pixels, halved after 10, 50, 200, ... of 10,000 queries."""
    sides = square_sides((32, 32), 10_000, "linf")
    assert [sides[i] for i in (0, 10, 11, 50, 51, 200, 201)] == [29, 29, 20, 20, 14, 14, 10]
    assert [sides[i] for i in (501, 1001, 2001, 4001, 6001, 8001)] == [7, 5, 4, 3, 2, 1]
    assert square_sides((32, 32), 5000, "linf")[4001] == 1
    assert set(square_sides((32, 32), 10_000, "l2")) == {29, 21, 15, 11, 7, 5, 3}
    assert square_sides((2, 9), 10, "l2").tolist() == [2] * 10


def test_a_window_has_two_peaks():
    """Rings of 1, 1/4, ... around each middle; published code, written out for a side of 4."""
    rings = np.array([[2, 1, 1, 1], [2, 1, 0, 1]])
    tails = np.array([1 + 1 / 4 + 1 / 9, 1 / 4 + 1 / 9, 1 / 9])[rings]
    expected = np.concatenate([tails, -tails])
    np.testing.assert_allclose(window_pattern(4), expected / np.linalg.norm(expected))
    assert window_pattern(1).tolist() == [[-1.0]]


@pytest.mark.slow
@BOTH
def test_no_attack_leaves_the_ball_or_the_box_in_half_precision(norm):
    weights, images, labels = problem(num=16, num_classes=5)
    images = images.at[:8].multiply(3.3).astype(jnp.bfloat16)  # some pixels near the box's ends
    labels = jnp.argmax(linear(weights)(None, images), axis=1)
    radius = 0.2
    found = [
        apgd_attack(KEY, linear(weights), images, labels, epsilon=radius, norm=norm, num_steps=10),
        square_attack(KEY, linear(weights), images, labels, epsilon=radius, norm=norm,
                      num_queries=50),
        fab_attack(KEY, linear(weights), images, labels, norm=norm, num_steps=10),
    ]  # fmt: skip
    order = {"linf": np.inf, "l2": 2}[norm]
    for one in found:
        assert one.adversarial.dtype == jnp.bfloat16
        assert np.abs(np.asarray(one.adversarial, np.float64)).max() <= 1
        moved = np.asarray(one.adversarial, np.float64) - np.asarray(images, np.float64)
        lengths = np.linalg.norm(moved.reshape(16, -1), order, axis=1)
        bound = getattr(one, "distance", radius)
        assert np.all(lengths <= bound + 10 * EPS)
        assert lengths.max() > 0.1


@pytest.mark.parametrize(
    ("attack", "bad", "message"),
    [
        (
            apgd_attack,
            {"loss": "dlr"},
            r"loss must be one of \['ce'\] for 2 classes, got loss",
        ),
        (apgd_attack, {"num_targets": 0}, "num_targets must be an integer of at least 1"),
        (apgd_attack, {"epsilon": -1.0}, "epsilon must be zero or more"),
        (square_attack, {"images": np.zeros((8, 6), np.float32)}, r"\(N, H, W, C\), got \(8, 6\)"),
        (square_attack, {"norm": "l1"}, "norm must be one of 'linf', 'l2'"),
        (fab_attack, {"num_steps": 0}, "num_steps must be an integer of at least 1"),
    ],
)
def test_bad_arguments_are_named(attack, bad, message):
    weights, images, labels = problem()
    arguments = {"images": images, "labels": labels, "norm": "linf", "epsilon": 0.1}
    arguments |= bad
    if attack is fab_attack:
        del arguments["epsilon"]
    with pytest.raises(ValueError, match=message):
        attack(KEY, linear(weights), **arguments)
