"""Random starts, restarts, EOT and BPDA: each against a probability or a worst case known."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attack_problems import EPS, attack, binary, linear, near, pixel, problem

from ebmjax.metrics import pgd_attack, straight_through

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
