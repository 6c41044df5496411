"""Improved contrastive divergence: by hand, and against divergences of Gaussians in closed form."""

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.losses import contrastive_divergence_loss, improved_contrastive_divergence_loss

EPS = np.finfo(np.float32).eps
RNG = np.random.default_rng(0)
POSITIVE, NEGATIVE, LIVE = (np.float32(RNG.normal(size=n)) for n in (5, 4, 3))


def test_value_gradient_and_metrics():
    def loss(positive, negative, live, entropy):
        return improved_contrastive_divergence_loss(
            positive, negative, live, entropy, energy_l2=0.3, kl_weight=2.0, entropy_weight=0.7
        )

    (value, metrics), gradients = jax.jit(
        jax.value_and_grad(loss, argnums=(0, 1, 2, 3), has_aux=True)
    )(POSITIVE, NEGATIVE, LIVE, 1.5)
    plain, plain_metrics = contrastive_divergence_loss(POSITIVE, NEGATIVE, energy_l2=0.3)
    kl_terms = 2.0 * np.mean(np.float64(LIVE)) - 0.7 * 1.5
    np.testing.assert_allclose(value, plain + kl_terms, atol=16 * EPS)
    to_positive, to_negative = jax.grad(
        lambda p, n: contrastive_divergence_loss(p, n, energy_l2=0.3)[0], argnums=(0, 1)
    )(POSITIVE, NEGATIVE)
    want = (to_positive, to_negative, np.full(3, 2 / 3), -0.7)
    for got, expected in zip(gradients, want, strict=True):
        np.testing.assert_allclose(got, expected, atol=4 * EPS)
    more = {"live_energy": np.mean(LIVE), "live_entropy": 1.5, "kl_terms": kl_terms}
    assert set(metrics) == set(plain_metrics) | set(more)
    for name, expected in {**plain_metrics, **more}.items():
        np.testing.assert_allclose(metrics[name], expected, atol=16 * EPS, err_msg=name)
        assert metrics[name].dtype == jnp.float32


# One Langevin step of N(0, 1/a) from N(0, START): x = (1 - STEP a) x0 + NOISE xi is Gaussian.
DATA, START, STEP, NOISE = 0.6, 2.0, 0.3, 0.5
A = 0.9


def end_variance(a):
    return (1 - STEP * a) ** 2 * START + NOISE**2


def gaussian_kl(variance, precision):
    """KL(N(0, variance) || N(0, 1 / precision))."""
    return 0.5 * (precision * variance - 1 - np.log(precision * variance))


def derivative(function, at, h=1e-5):
    return (function(at + h) - function(at - h)) / (2 * h)


@jax.jit
@jax.value_and_grad
def loss_of_precision(a, kl_weight):
    """The loss with exact second moments: every sign of x0 and of the noise stands for its law."""
    x0 = jnp.sqrt(START) * jnp.array([1.0, 1.0, -1.0, -1.0])
    live = (1 - STEP * a) * x0 + NOISE * jnp.array([1.0, -1.0, 1.0, -1.0])
    data = jnp.sqrt(DATA) * jnp.array([1.0, -1.0])

    def energy(a, x):
        return 0.5 * a * x**2

    entropy = 0.5 * jnp.log(2 * jnp.pi * jnp.e * jnp.mean(live**2))
    return improved_contrastive_divergence_loss(
        energy(a, data),
        energy(a, jax.lax.stop_gradient(live)),
        energy(jax.lax.stop_gradient(a), live),
        entropy,
        kl_weight=kl_weight,
        entropy_weight=kl_weight,
    )[0]


def test_it_adds_what_hintons_objective_subtracts():
    """In closed form, with tau the derivative of KL(q_a || p) through q_a alone:

    d/da [KL(p_D || p_a) - KL(q_a || p_a)] is the loss's gradient less twice tau.
    """
    tau = derivative(lambda a: gaussian_kl(end_variance(a), A), A)
    divergence = 0.5 * DATA - 0.5 * end_variance(A)
    assert abs(tau) > 0.05
    _, gradient = loss_of_precision(A, 0.0)
    np.testing.assert_allclose(gradient, divergence, rtol=0, atol=16 * EPS)
    _, gradient = loss_of_precision(A, 1.0)
    np.testing.assert_allclose(gradient, divergence + tau, rtol=0, atol=32 * EPS)

    def hinton(a):
        return gaussian_kl(DATA, a) - gaussian_kl(end_variance(a), a)

    # Central differences: h^2 of third derivatives of order 1, and rounding of 1e-16 / h.
    np.testing.assert_allclose(gradient - 2 * tau, derivative(hinton, A), atol=32 * EPS)
