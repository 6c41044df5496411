"""An energy of many noise levels, from a network of one more channel."""

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.learning import (
    JointNetwork,
    NoiseLevels,
    condition_classifier_on_noise,
    condition_on_noise,
)
from ebmjax.losses import joint_log_density
from ebmjax.networks import Network, NormPolicy

LEVELS = NoiseLevels(lowest=0.5, highest=4.0, data_scale=1.5)


def energy_of(params):
    """Takes everything apart: the image, the noise's logarithm, the label."""

    def energy(images, labels):
        seen = jnp.sum(images[..., :1] ** 3, axis=(-3, -2, -1)) + 10 * jnp.max(
            images[..., 1:], axis=(-3, -2, -1)
        )
        return params * seen + labels

    return energy


def test_the_energy_by_hand_of_one_image_and_of_many():
    x = np.random.default_rng(0).normal(size=(3, 2, 2, 1)).astype(np.float32)
    labels, noise = np.array([0, 1, 5]), np.array([0.5, 1.0, 3.0], np.float32)
    energy = condition_on_noise(energy_of, LEVELS, 3)(jnp.float32(2.0))
    variance = noise.astype(np.float64) ** 2 + 1.5**2
    cubes = np.sum(x.astype(np.float64) ** 3, axis=(1, 2, 3)) / variance**1.5
    network = 2.0 * (cubes + 10 * np.log(noise)) + labels
    expected = np.sum(x**2, axis=(1, 2, 3)) / (2 * variance) + 1.5 / noise * network
    np.testing.assert_allclose(energy(x, labels, noise), expected, rtol=1e-5)
    for i in range(3):
        np.testing.assert_allclose(energy(x[i], labels[i], noise[i]), expected[i], rtol=1e-5)
    # Without a noise it is that of the lowest level, which the first image has.
    np.testing.assert_allclose(energy(x, labels)[0], expected[0], rtol=1e-5)


def logits_of(params, state, images, **options):
    seen = jnp.sum(images[..., :1] ** 3, axis=(-3, -2, -1)) + jnp.max(images[..., 1:], (-3, -2, -1))
    return jnp.outer(jnp.atleast_1d(seen), params).reshape(*jnp.shape(seen), 3), state


def test_a_classifier_with_noise_is_the_energy_of_all_its_classes():
    """Its density is that of the energy with F = -logsumexp, its classes those of the network."""
    x = np.random.default_rng(0).normal(size=(3, 2, 2, 1)).astype(np.float32)
    noise, params = np.array([0.5, 1.0, 3.0], np.float32), jnp.array([1.0, -2.0, 0.5])
    network = Network(lambda key, x: (jnp.zeros(x.shape[-1]), {}), logits_of)
    noisy = condition_classifier_on_noise(network, LEVELS)
    logits, _ = noisy.apply(params, {}, x, noise)

    def factored(params):
        def energy(seen, labels):
            factor = 1.5 / jnp.exp(jnp.max(seen[..., 1:], axis=(-3, -2, -1)))
            return -joint_log_density(factor[..., None] * logits_of(params, {}, seen)[0]) / factor

        return energy

    energy = condition_on_noise(factored, LEVELS, 3)(params)
    expected = -energy(x, np.zeros(3, int), noise)
    np.testing.assert_allclose(joint_log_density(logits), expected, rtol=1e-5)
    seen = np.concatenate(
        [
            x / np.sqrt(noise**2 + 1.5**2)[:, None, None, None],
            np.log(noise)[:, None, None, None] + 0 * x,
        ],
        axis=-1,
    )
    differences = (1.5 / noise)[:, None] * logits_of(params, {}, jnp.asarray(seen))[0]
    np.testing.assert_allclose(
        logits - logits[:, :1], differences - differences[:, :1], rtol=1e-4, atol=1e-4
    )
    # Without a noise it is that of the lowest level, which the first image has.
    np.testing.assert_allclose(noisy.apply(params, {}, x)[0][0], logits[0], rtol=1e-5)
    assert noisy.init(jax.random.key(0), x)[0].shape == (2,)
    # Chains of no class follow it, at the noise that they are at.
    density = JointNetwork(noisy, noisy, NormPolicy(), True).densities(params, {}, 1.0)(-1)
    np.testing.assert_allclose(density(x[2], noise[2]), expected[2], rtol=1e-5)


def test_chains_are_annealed_over_as_many_levels_as_they_have_steps():
    """With a network of 0 the data are N(0, 1.5^2), and a chain's variance is known at its end."""
    energy = condition_on_noise(lambda params: lambda x, label: 0.0, LEVELS, 1)(())
    starts = LEVELS.draw_like(jax.random.key(0), jnp.zeros((4000, 2)))
    variance = 4.0**2 + 1.5**2
    error = 5 * np.sqrt(2 / starts.size)
    assert abs(np.var(np.asarray(starts)) / variance - 1) < error
    for noise in np.geomspace(4.0, 0.5, 19):
        kept = 1 - 0.5 * noise**2 / (1.5**2 + noise**2)
        variance = kept**2 * variance + noise**2
    variance *= (1.5**2 / (1.5**2 + 0.5**2)) ** 2  # the 20th evaluation removes the noise

    def end(key, start):
        def density(x, noise):
            return -energy(x, jnp.int32(0), noise)

        return LEVELS.anneal(key, start, density, 20)

    ends = jax.jit(jax.vmap(end))(jax.random.split(jax.random.key(1), 4000), starts)
    assert abs(np.var(np.asarray(ends)) / variance - 1) < error


def test_levels_are_recovered_from_the_highest_down():
    """The same data, by 3 levels of 10 steps, each of whose chains is a linear map."""
    levels = LEVELS._replace(num_levels=3, relative_step=0.2)
    energy = condition_on_noise(lambda params: lambda x, label: 0.0, levels, 1)(())
    noises, variance = np.geomspace(0.5, 4.0, 4), 4.0**2 + 1.5**2
    for low, high in zip(noises[2::-1], noises[:0:-1], strict=True):
        size = 0.2 * (high**2 - low**2)
        kept = 1 - size / (1.5**2 + low**2) - 0.2
        slope, spread = 1.0, 0.0
        for _ in range(10):
            slope, spread = kept * slope + 0.2, kept**2 * spread + 2 * size
        variance = slope**2 * variance + spread

    def end(key, start):
        return levels.anneal(key, start, lambda x, noise: -energy(x, jnp.int32(0), noise), 30)

    starts = levels.draw_like(jax.random.key(0), jnp.zeros((4000, 2)))
    ends = jax.jit(jax.vmap(end))(jax.random.split(jax.random.key(1), 4000), starts)
    assert abs(np.var(np.asarray(ends)) / variance - 1) < 5 * np.sqrt(2 / starts.size)
