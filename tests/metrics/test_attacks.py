"""Attacks on classifiers whose worst case is known in closed form, also randomised ones."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ebmjax.metrics import apgd_attack, epsilon_from_levels, pgd_attack, straight_through

EPS = float(np.finfo(np.float32).eps)
SHAPE = (3, 2, 1)
DUAL = {"linf": 1, "l2": 2}


def attack(logits_fn, images, labels, *, seed=0, **arguments):
    compiled = jax.jit(partial(pgd_attack, logits_fn=logits_fn, **arguments))
    return compiled(jax.random.key(seed), images=images, labels=labels)


def linear(weights):
    def logits_fn(key, images):
        return images.reshape(len(images), -1) @ weights

    return logits_fn


def problem(num=8, num_classes=2):
    """Weights (6, classes), images well inside the box, and the classes the weights give them."""
    rng = np.random.default_rng(0)
    weights = jnp.asarray(rng.normal(size=(6, num_classes)), jnp.float32)
    images = jnp.asarray(rng.uniform(-0.3, 0.3, (num, *SHAPE)), jnp.float32)
    return weights, images, jnp.argmax(linear(weights)(None, images), axis=1)


def exact_margins(weights, images, labels):
    """A linear classifier's margins over every class and their weights: (N, C), (N, C, 6)."""
    weights, images = np.asarray(weights, np.float64), np.asarray(images, np.float64)
    directions = weights.T[np.asarray(labels)][:, None] - weights.T[None]
    return np.einsum("ncd,nd->nc", directions, images.reshape(len(images), -1)), directions


def binary_margins(weights, images, labels, norm):
    """Margins of two classes (N,), and how fast they fall with the radius of a ball (N,)."""
    margins, directions = exact_margins(weights, images, labels)
    other = np.arange(len(images)), 1 - np.asarray(labels)
    return margins[other], np.linalg.norm(directions[other], ord=DUAL[norm], axis=-1)


def rounding(weights):
    """Float32 dot products of 6 terms with pixels below 1: 10 roundings of the terms' sizes."""
    return 10 * EPS * float(np.abs(weights).sum(axis=0).max())


def pixel(images):
    return images.reshape(len(images), -1)[:, 0]


def binary(margins):
    """Logits of two classes with these margins for class 0."""
    return jnp.stack([margins, jnp.zeros_like(margins)], axis=1)


def near(fraction, expected, num):
    """Within 5 standard errors of ``num`` tosses."""
    return abs(float(fraction) - expected) < 5 * np.sqrt(expected * (1 - expected) / num)


KEY = jax.random.key(0)
BOTH = pytest.mark.parametrize("norm", ["linf", "l2"])


def entropies(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels)


@BOTH
@pytest.mark.parametrize("random_start", [True, False])
def test_the_worst_margin_of_a_linear_classifier_is_reached(norm, random_start):
    weights, images, labels = problem()
    radius = {"linf": 0.05, "l2": 0.15}[norm]
    # A step of the radius halves at least the angle to the best direction: 2^-30 is left of it.
    result = attack(linear(weights), images, labels, epsilon=radius, step_size=radius, norm=norm,
                    num_steps=30, random_start=random_start)  # fmt: skip
    margins, slopes = binary_margins(weights, images, labels, norm)
    expected = margins - radius * slopes
    np.testing.assert_allclose(result.margin, expected, rtol=0, atol=rounding(weights))
    np.testing.assert_array_equal(result.is_correct, expected > 0)
    assert 0 < np.mean(result.is_correct) < 1


@BOTH
def test_no_attack_goes_beyond_the_closed_form_the_ball_or_the_box(norm):
    weights, images, _ = problem(num=32, num_classes=4)
    images = images.at[:16].multiply(3.3)  # some pixels within the radius of the box's ends
    labels = jnp.argmax(linear(weights)(None, images), axis=1)
    radius = 0.15
    result = attack(linear(weights), images, labels, epsilon=radius, norm=norm, num_steps=7,
                    step_size=0.1, num_restarts=2)  # fmt: skip
    moved = np.asarray(result.adversarial - images, np.float64).reshape(32, -1)
    lengths = np.linalg.norm(moved, ord={"linf": np.inf, "l2": 2}[norm], axis=1)
    # Pixels below 1 round by EPS / 2; the norm of 6 of them by less than 6 times that.
    assert 0.9 * radius < lengths.max() <= radius + 6 * EPS
    assert np.abs(result.adversarial).max() == 1.0
    margins, directions = exact_margins(weights, images, labels)
    bounds = margins - radius * np.linalg.norm(directions, ord=DUAL[norm], axis=-1)
    bounds = np.where(np.eye(4, dtype=bool)[np.asarray(labels)], np.inf, bounds).min(axis=1)
    assert np.all(result.margin >= bounds - rounding(weights))


def test_the_box_limits_the_worst_margin_pixel_by_pixel():
    weights, images, _ = problem()
    low, high, radius = -0.25, 0.28, 0.05
    images = jnp.clip(images, low, high)
    labels = jnp.argmax(linear(weights)(None, images), axis=1)
    result = attack(linear(weights), images, labels, epsilon=radius, norm="linf", num_steps=5,
                    low=low, high=high)  # fmt: skip
    _, directions = exact_margins(weights, images, labels)
    direction = directions[np.arange(8), 1 - np.asarray(labels)]
    pixels = np.asarray(images, np.float64).reshape(8, -1)
    corner = np.clip(pixels - radius * np.sign(direction), low, high)
    assert np.any(corner == low), "the box matters below"
    assert np.any(corner == high), "and above"
    flat = np.asarray(result.adversarial).reshape(8, -1)
    np.testing.assert_allclose(flat, corner, rtol=0, atol=EPS)
    expected = np.sum(direction * corner, axis=1)
    np.testing.assert_allclose(result.margin, expected, rtol=0, atol=rounding(weights))


@BOTH
@pytest.mark.parametrize("scale", [1e-25, 1e4])
def test_saturated_and_tiny_logits_do_not_stop_the_attack(norm, scale):
    """Cross-entropy's gradient is exactly zero here, or its squares underflow."""
    weights, images, labels = problem()
    logits_fn = linear(scale * weights)
    if scale > 1:
        gradients = jax.grad(lambda x: entropies(logits_fn(None, x), labels).sum())(images)
        assert np.any(np.all(gradients == 0, axis=(1, 2, 3)))
    result = attack(logits_fn, images, labels, epsilon=0.2, norm=norm, num_steps=1,
                    step_size=0.5, random_start=False)  # fmt: skip
    margins, slopes = binary_margins(weights, images, labels, norm)
    np.testing.assert_allclose(
        np.asarray(result.margin) / scale, margins - 0.2 * slopes, rtol=0, atol=rounding(weights)
    )


def test_steps_are_those_of_cross_entropy_and_the_worst_image_met_comes_back():
    """Against a loop in NumPy around the gradient of optax's cross-entropy, three classes."""
    weights, images, _ = problem(num=16, num_classes=3)

    def logits_fn(key, x):
        return jnp.tanh(4.0 * linear(weights)(key, x)) + x.reshape(16, -1)[:, :3]

    def entropy(x):
        logits = logits_fn(None, x)
        return entropies(logits, labels).sum(), logits

    def norms(a):
        return np.linalg.norm(a.reshape(16, -1), axis=1).reshape(16, 1, 1, 1)

    labels = jnp.argmax(logits_fn(None, images), axis=1)
    is_label = np.eye(3, dtype=bool)[np.asarray(labels)]
    gradient_fn = jax.jit(jax.grad(entropy, has_aux=True))
    x, xs, margins = np.asarray(images, np.float64), [], []
    for _ in range(7):
        gradient, logits = (np.asarray(a, np.float64) for a in gradient_fn(x.astype(np.float32)))
        xs.append(x)
        margins.append(logits[is_label] - np.where(is_label, -np.inf, logits).max(axis=1))
        moved = x + 0.11 * gradient / norms(gradient) - np.asarray(images, np.float64)
        x = np.asarray(images) + moved * np.minimum(1.0, 0.3 / norms(moved))
    worst = np.argmin(margins, axis=0)
    assert len(set(worst.tolist())) > 1, "the last step is not always the worst"
    result = attack(logits_fn, images, labels, epsilon=0.3, norm="l2", num_steps=6, step_size=0.11,
                    random_start=False)  # fmt: skip
    # An error grows in a step by at most 1 + step * curvature / slope. For tanh(4 w x) that ratio
    # is at most 8 |w|, 24 for the longest w: below 4, so six steps make 4^6 of one rounding.
    tolerance = 4**6 * EPS
    np.testing.assert_allclose(result.margin, np.min(margins, axis=0), rtol=0, atol=tolerance)
    met = np.stack(xs)[worst, np.arange(16)]
    np.testing.assert_allclose(result.adversarial, met, rtol=0, atol=tolerance)


ONE_IMAGE, ONE_LABEL = jnp.zeros((1, 1)), jnp.zeros(1, int)


def test_ties_and_nan_count_as_broken_for_their_own_image_alone():
    values = jnp.array([1.0, 0.0, jnp.nan, 2.0])
    result = attack(lambda key, x: binary(values + 1e-12 * pixel(x)), jnp.zeros((4, 2)),
                    jnp.zeros(4, int), epsilon=0.1, norm="l2", num_steps=1)  # fmt: skip
    np.testing.assert_array_equal(result.is_correct, [True, False, False, True])
    # Of the tie, the start or the step is 1e-13 away, which nothing else rounds to.
    np.testing.assert_allclose(result.margin, [1.0, 0.0, -np.inf, 2.0], rtol=0, atol=1e-12)


@BOTH
def test_a_derivative_that_is_nan_stops_its_pixel_only(norm):
    def logits_fn(key, x):  # the square root's derivative at 0 is infinite, and 0 times it NaN
        return binary(0.5 - x[:, 1] + jnp.sqrt(0.0 * x[:, 0]))

    result = attack(logits_fn, jnp.zeros((1, 2)), ONE_LABEL, epsilon=0.2, norm=norm, num_steps=1,
                    step_size=0.1, random_start=False)  # fmt: skip
    np.testing.assert_array_equal(result.adversarial, np.array([[0.0, 0.1]], np.float32))


def test_levels_are_two_255ths():
    levels = np.array([1, 2, 4, 8, 12, 16, 22, 30, 255])
    np.testing.assert_allclose(epsilon_from_levels(levels), levels / 127.5, rtol=2 * EPS)
    with pytest.raises(ValueError, match="levels must be zero or more"):
        epsilon_from_levels(-1)


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


NUM = 2000
LABELS = jnp.zeros(NUM, int)


@pytest.mark.parametrize(
    ("random_start", "num_restarts", "robust"),
    [(False, 3, 1.0), (True, 1, 3 / 4), (True, 4, (3 / 4) ** 4)],
)
def test_restarts_find_what_a_masked_gradient_hides(random_start, num_restarts, robust):
    """Gradient zero everywhere; a start in the upper quarter of [-epsilon, epsilon] breaks."""

    def steps(key, x):
        return binary(1.0 - 2.0 * (pixel(jax.lax.stop_gradient(x)) > 0.1))

    result = attack(steps, jnp.zeros((NUM, 1)), LABELS, epsilon=0.2, norm="linf", num_steps=1,
                    num_restarts=num_restarts, random_start=random_start)  # fmt: skip
    fraction = np.mean(result.margin > 0)
    assert near(fraction, robust, NUM) if random_start else fraction == robust
    # What comes back breaks, whichever restart found it.
    is_broken = np.asarray(result.adversarial)[:, 0] > 0.1
    np.testing.assert_array_equal(is_broken, np.asarray(result.margin) <= 0)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize(("region", "probability"), [("outer", 1 - 0.5**3), ("octant", 1 / 8)])
def test_starts_are_uniform_in_the_ball(norm, region, probability):
    """Three pixels: half the radius holds an eighth of the volume, an octant another eighth."""

    def is_inside(x):
        if region == "octant":
            return jnp.all(x > 0, axis=1)
        return jnp.linalg.norm(x, ord={"linf": jnp.inf, "l2": 2}[norm], axis=1) > 0.5

    def logits_fn(key, x):
        return binary(1.0 - 2.0 * is_inside(jax.lax.stop_gradient(x)))

    result = attack(logits_fn, jnp.zeros((NUM, 3)), LABELS, epsilon=1.0, norm=norm, num_steps=1)
    assert near(np.mean(result.margin <= 0), probability, NUM)


@pytest.mark.parametrize(("num_eot", "probability"), [(1, 0.8413447), (4, 0.9772499)])
def test_copies_average_the_noise_out_of_the_gradient(num_eot, probability):
    """Unit slopes under unit Gaussian noise: a pixel steps rightly with Phi(sqrt(copies))."""

    def logits_fn(key, x):
        noise = jax.random.normal(key, x.shape)
        disturbance = noise * (x - jax.lax.stop_gradient(x))  # a gradient, but no value
        return binary(3.0 + jnp.sum(x + disturbance, axis=1))

    images = jnp.zeros((NUM // 50, 50))
    result = attack(logits_fn, images, LABELS[: NUM // 50], epsilon=0.1, norm="linf", num_steps=1,
                    step_size=0.1, random_start=False, num_eot=num_eot)  # fmt: skip
    assert near(np.mean(np.asarray(result.adversarial) < 0), probability, NUM)


@pytest.mark.parametrize("num_eot", [1, 4])
def test_mean_logits_judge_and_every_evaluation_has_its_own_noise(num_eot):
    """The worst of three means of independent noise: clean image, start, end of the one step."""

    def logits_fn(key, x):
        return binary(2.0 + jax.random.normal(key, (len(x),)) + 0.0 * pixel(x))

    result = attack(logits_fn, jnp.zeros((NUM, 1)), LABELS, epsilon=0.1, norm="linf", num_steps=1,
                    num_eot=num_eot)  # fmt: skip
    noise = (np.asarray(result.margin, np.float64) - 2.0) * np.sqrt(num_eot)
    # The smallest of three standard normals: mean -3 / (2 sqrt(pi)), variance 0.5595.
    assert abs(noise.mean() + 1.5 / np.sqrt(np.pi)) < 5 * np.sqrt(0.5595 / NUM)


def test_bpda_sees_through_a_transform_without_gradient():
    """A quantiser in front of a linear classifier: it never falls, so a corner is the worst."""
    weights, images, _ = problem(num=32)
    images = 3.0 * images
    classify = linear(weights)

    def quantise(key, x):
        return jnp.round(x * 4.0) / 4.0

    def masked(key, x):
        return classify(key, quantise(key, x))

    def through(key, x):
        return classify(key, straight_through(quantise)(key, x))

    labels = jnp.argmax(masked(None, images), axis=1)
    arguments = {"epsilon": 0.1, "norm": "linf", "num_steps": 2, "random_start": False}
    blind = attack(masked, images, labels, **arguments)
    np.testing.assert_array_equal(blind.adversarial, images)
    assert np.all(blind.margin > 0), "the gradient is zero: it would look robust"
    assert not np.any(blind.is_correct | blind.had_gradient)
    result = attack(through, images, labels, step_size=0.1, **arguments)
    direction = jnp.sign(weights.T[labels] - weights.T[1 - labels]).reshape(images.shape)
    corners = jnp.clip(images - 0.1 * direction, -1.0, 1.0)
    expected = np.argmax(masked(None, corners), axis=1) == labels
    np.testing.assert_array_equal(result.is_correct, expected)
    assert 0 < np.mean(expected) < 1


def test_straight_through_has_the_transforms_value_and_the_identitys_derivative():
    def purify(key, images):
        """A loop whose length is only known when it runs has no reverse derivative."""
        noise = jax.random.normal(key, images.shape)
        return jax.lax.while_loop(lambda x: jnp.max(x) > 0.1, lambda x: 0.5 * x, images + noise)

    def loss(x):
        return jnp.sum(straight_through(purify)(keys[0], x) ** 3)

    images = jnp.array([[1e-6, 0.3], [-0.7, 1.0]])
    keys = jax.random.key(3), jax.random.key(4)
    values = [straight_through(purify)(key, images) for key in keys]
    for key, value in zip(keys, values, strict=True):
        np.testing.assert_array_equal(value, purify(key, images))
    assert np.any(values[0] != values[1])
    np.testing.assert_allclose(jax.grad(loss)(images), 3 * values[0] ** 2, rtol=4 * EPS)


def test_keys_are_used_once_and_decide():
    weights, images, labels = problem()

    def noisy(key, x):
        return linear(weights)(key, x + 0.1 * jax.random.normal(key, x.shape))

    arguments = {"epsilon": 0.1, "norm": "l2", "num_steps": 2, "num_restarts": 2, "num_eot": 2}
    with jax.debug_key_reuse(True):
        jax.eval_shape(partial(pgd_attack, logits_fn=noisy, **arguments), jax.random.key(0),
                       images=images, labels=labels)  # fmt: skip
    first, again, other = (attack(noisy, images, labels, seed=s, **arguments) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.adversarial, again.adversarial)
    assert np.any(first.adversarial != other.adversarial)


WEIGHTS, IMAGES, CLASSES = problem()
PLAIN = linear(WEIGHTS)
RADII = (0.0, 0.02, 0.05)


def root_of_nothing(x):
    """Returns zeros (N,) whose slope is infinite in every pixel."""
    return jnp.sqrt(jnp.sum(x - jax.lax.stop_gradient(x), axis=tuple(range(1, x.ndim))))


# The same answers as PLAIN, behind derivatives that no attack can follow.
MASKED = {
    "NaN": lambda key, x: PLAIN(key, x) + 0.0 * root_of_nothing(x)[:, None],
    "NaN at one pixel": lambda key, x: PLAIN(key, x) + 0.0 * root_of_nothing(x[:, 0, 0])[:, None],
    "infinite": lambda key, x: PLAIN(key, x).at[:, 0].add(root_of_nothing(x)),
    "zero": lambda key, x: PLAIN(key, jax.lax.stop_gradient(x)),
    "rounded": lambda key, x: PLAIN(key, jnp.round(x * 2**16) / 2**16),
    "saturated": lambda key, x: binary(jnp.tanh(1e8 * (PLAIN(key, x) @ jnp.array([1.0, -1.0])))),
}
masked = pytest.mark.parametrize("kind", list(MASKED))


@masked
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_no_radius_above_0_is_called_robust(kind, norm):
    options = {"norm": norm, "num_steps": 3, "num_restarts": 2}
    clean = np.argmax(PLAIN(None, IMAGES), axis=1) == CLASSES
    assert clean.all()
    for radius in RADII:
        found = pgd_attack(KEY, MASKED[kind], IMAGES, CLASSES, epsilon=radius, **options)
        assert np.all(found.is_correct == (radius == 0))


@masked
def test_an_image_found_broken_needs_no_gradient(kind):
    """Wrong answers, and none of the images that are right, however they are attacked."""
    labels = CLASSES.at[:3].set(1 - CLASSES[:3])
    result = attack(MASKED[kind], IMAGES, labels, epsilon=1e-3, norm="linf", num_steps=2)
    np.testing.assert_array_equal(result.had_gradient, [True] * 3 + [False] * 5)
    assert not np.any(result.is_correct)
    np.testing.assert_array_equal(result.margin > 0, [False] * 3 + [True] * 5)


@pytest.mark.parametrize(("num_restarts", "had_gradient"), [(1, 0.5), (3, 1 - 0.5**3)])
def test_one_restart_with_a_gradient_at_every_step_is_enough(num_restarts, had_gradient):
    """The slope is zero below 0, where half of the starts are and where they then stay."""
    num = 2000

    def half(key, x):
        return binary(5.0 - jnp.maximum(pixel(x), 0.0))

    result = attack(half, jnp.zeros((num, 1)), jnp.zeros(num, int), epsilon=0.1, norm="linf",
                    num_steps=2, num_restarts=num_restarts)  # fmt: skip
    error = np.sqrt(had_gradient * (1 - had_gradient) / num)
    assert abs(np.mean(result.had_gradient) - had_gradient) < 5 * error
    np.testing.assert_array_equal(result.is_correct, result.had_gradient)


def test_every_step_needs_a_gradient():
    """The slope ends at 0.15: the first step gets there, and the second cannot go on."""

    def flat_further_on(key, x):
        return binary(1.0 - jnp.minimum(pixel(x), 0.15))

    options = {"norm": "linf", "step_size": 0.2, "random_start": False}
    images, labels = jnp.zeros((1, 1)), jnp.zeros(1, int)
    for num_steps, expected in [(1, True), (2, False)]:
        result = attack(
            flat_further_on, images, labels, epsilon=0.5, num_steps=num_steps, **options
        )
        assert bool(result.had_gradient[0]) == expected
        assert bool(result.is_correct[0]) == expected
