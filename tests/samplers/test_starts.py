"""Initial laws: their moments, their box, and images that make no law."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean, assert_moments

from ebmjax._stored import map_rows
from ebmjax.samplers import gaussian_start, informative_start, uniform_start

NUM_DRAWS = 20_000


def draws(start_fn, label=0, seed=0):
    keys = jax.random.split(jax.random.key(seed), NUM_DRAWS)
    labels = jnp.full(NUM_DRAWS, label, jnp.int32)
    return np.asarray(
        jax.jit(lambda start_fn: jax.vmap(start_fn)(keys, labels))(start_fn), np.float64
    )


def test_uniform_law():
    low, high = np.array([-1.0, 2.0]), np.array([0.5, 6.0])
    positions = draws(uniform_start((2,), low, high))
    assert np.all((positions >= low) & (positions < high))
    assert_moments(positions, (low + high) / 2, (high - low) ** 2 / 12)
    assert_mean(positions[:, 0] * positions[:, 1], -0.25 * 4.0)  # independent entries


def test_gaussian_law():
    mean, scale = np.array([[1.0, -2.0]]), np.array([[0.5, 3.0]])
    positions = draws(gaussian_start((1, 2), mean, scale))
    assert positions.shape == (NUM_DRAWS, 1, 2)
    assert_moments(positions, mean, scale**2)
    assert_mean(positions[:, 0, 0] * positions[:, 0, 1], -2.0)
    assert_moments(draws(gaussian_start(())), 0.0, 1.0)


def toy_images():
    """Two classes of five and four correlated images of 1 x 3 pixels."""
    generator = np.random.default_rng(0)
    mixing = np.array([[0.1, 0.05, 0.0], [0.0, 0.08, -0.06], [0.0, 0.0, 0.03]])
    images = generator.normal(size=(9, 3)) @ mixing
    labels = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0])
    images[labels == 1] += 0.4
    return images.reshape(9, 1, 3), labels


@pytest.mark.parametrize("label", [0, 1])
def test_informative_law_has_the_moments_of_its_class(label):
    """All first and second moments: means and the nine covariances divided by n."""
    images, labels = toy_images()
    start_fn = informative_start(images, labels, 2, jitter=1e-3, low=-np.inf, high=np.inf)
    own = images[labels == label].reshape(-1, 3)
    covariance = np.cov(own, rowvar=False, bias=True) + 1e-3 * np.eye(3)

    positions = draws(start_fn, label, seed=label)
    assert positions.shape == (NUM_DRAWS, 1, 3)
    centred = positions.reshape(-1, 3) - own.mean(axis=0)
    assert_mean(centred, 0.0)
    assert_mean(centred[:, :, None] * centred[:, None, :], covariance)


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_images_that_are_read_in_parts_make_the_same_law(is_on_disk, monkeypatch):
    """The factor's square is the covariance of all, to its rounding in float32."""
    monkeypatch.setattr("ebmjax.samplers._starts.AT_ONCE", 2)
    images, labels = toy_images()
    given = map_rows(np.copy, images, images.dtype) if is_on_disk else images
    start_fn = informative_start(given, labels, 2, jitter=1e-3, low=-np.inf, high=np.inf)
    means, factors, *_ = jax.tree.leaves(start_fn)
    for label in (0, 1):
        own = images[labels == label].reshape(-1, 3)
        covariance = np.cov(own, rowvar=False, bias=True) + 1e-3 * np.eye(3)
        np.testing.assert_allclose(means[label], own.mean(axis=0), rtol=2e-7)
        expected = np.linalg.cholesky(covariance)
        np.testing.assert_allclose(factors[label], expected, rtol=2e-7, atol=1e-12)
    with pytest.raises(ValueError, match=r"must lie in \[low, high\] = \[-0\.1, 0\.1\]"):
        informative_start(given, labels, 2, low=-0.1, high=0.1)


@pytest.mark.parametrize("in_bytes", [False, True])
@pytest.mark.parametrize("label", [0, 1])
def test_fewer_images_than_pixels_are_kept_as_they_are(label, in_bytes):
    """Five and three images of nine pixels: all first and second moments, nothing but bytes."""
    values = np.random.default_rng(3).integers(0, 256, (8, 3, 3), dtype=np.uint8)
    labels, images = np.repeat([0, 1], [5, 3]), values / 127.5 - 1.0
    given = values if in_bytes else images.astype(np.float32)
    start_fn = informative_start(given, labels, 2, jitter=1e-3)
    start_fn = jax.tree_util.Partial(start_fn.func, start_fn.args[0], -np.inf, np.inf)
    assert jax.tree.leaves(start_fn)[1].dtype == given.dtype
    own = images[labels == label].reshape(-1, 9)
    covariance = np.cov(own, rowvar=False, bias=True) + 1e-3 * np.eye(9)
    centred = draws(start_fn, label, seed=label).reshape(-1, 9) - own.mean(axis=0)
    assert_mean(centred, 0.0)
    assert_mean(centred[:, :, None] * centred[:, None, :], covariance)


@pytest.mark.parametrize("num_images", [40, 200])  # in place of factors, and with them
def test_many_draws_of_a_large_law_take_little_memory_at_once(num_images, monkeypatch):
    """They take what three draws copy, not 50; groups leave a rest, and shards are mapped, too."""
    images = np.random.default_rng(4).integers(0, 256, (num_images, 9, 9), dtype=np.uint8)
    start_fn = informative_start(images, np.zeros(num_images, int), 1)
    keys, labels = jax.random.split(jax.random.key(0), (2, 25)), jnp.zeros((2, 25), jnp.int32)

    def draw(start_fn, keys, labels):
        return jax.vmap(jax.vmap(start_fn))(keys, labels)

    whole = jax.jit(draw)(start_fn, keys, labels)
    one_draw = 4 * 81 * min(num_images, 81)
    monkeypatch.setattr("ebmjax.samplers._starts.AT_ONCE_BYTES", 3 * one_draw)
    compiled = jax.jit(lambda *arguments: draw(*arguments)).lower(start_fn, keys, labels).compile()
    np.testing.assert_allclose(compiled(start_fn, keys, labels), whole, atol=1e-5)
    found = compiled.memory_analysis()
    assert found is not None
    assert found.temp_size_in_bytes < 12 * one_draw


def test_moments_are_taken_in_float64():
    """A spread of 1e-4 around 1 is lost in float32 squares; the factor keeps it."""
    images = 1.0 + 1e-4 * np.array([[-1.0], [1.0]])
    start_fn = informative_start(images, [0, 0], 1, jitter=1e-12, low=0.0, high=2.0)
    (_, factors, *_) = jax.tree.leaves(start_fn)
    # Exactly sqrt(1e-8 + 1e-12), to the float32 in which the factor is kept.
    np.testing.assert_allclose(factors, np.sqrt(1e-8 + 1e-12).reshape(1, 1, 1), rtol=1e-6)


def test_draws_are_clipped_to_the_box():
    images, labels = toy_images()
    free, boxed = (
        informative_start(images, labels, 2, low=low, high=high)
        for low, high in ((-9.0, 9.0), (-0.3, 0.55))
    )
    expected = np.clip(draws(free, 1), -0.3, 0.55)
    assert np.any(expected == 0.55)
    np.testing.assert_array_equal(draws(boxed, 1), np.asarray(expected, np.float32))


@pytest.mark.parametrize("make_key", [jax.random.key, jax.random.PRNGKey])
def test_keys_or_labels_alone_are_mapped(make_key, monkeypatch):
    images, labels = toy_images()
    start_fn = informative_start(images, labels, 2)
    key, keys = make_key(0), jax.random.split(make_key(1), 5)
    monkeypatch.setattr("ebmjax.samplers._starts.AT_ONCE_BYTES", 72)  # two draws at once
    of_labels = jax.vmap(start_fn, (None, 0))(key, jnp.array([0, 1, 1]))
    np.testing.assert_allclose(of_labels[2], start_fn(key, jnp.int32(1)), atol=1e-6)
    of_keys = jax.vmap(start_fn, (0, None))(keys, jnp.int32(1))
    np.testing.assert_allclose(of_keys[4], start_fn(keys[4], jnp.int32(1)), atol=1e-6)


IMAGES, LABELS = np.zeros((4, 2, 2)), np.array([0, 1, 0, 1])
BYTES = IMAGES.astype(np.uint8)
NAN_IMAGES = np.where(np.arange(16).reshape(4, 2, 2) == 5, np.nan, 0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: uniform_start((2,), 1.0, 1.0), "^low must be below high"),
        (lambda: uniform_start((2,), jnp.zeros(3), 1.0), r"^low must be a.*\(2,\)"),
        (lambda: gaussian_start((2,), scale=0.0), "^scale must be positive"),
        (lambda: informative_start(NAN_IMAGES, LABELS, 2), "^images must lie in .* without NaN"),
        (lambda: informative_start(IMAGES.astype(np.int32), LABELS, 2), "uint8.*int32"),
        (lambda: informative_start(BYTES, LABELS, 2, high=np.inf), "bytes, must be finite"),
        (lambda: informative_start(IMAGES, LABELS[:3], 2), r"^labels must .*\(3,\)"),
        (lambda: informative_start(IMAGES, LABELS - 1, 2), "^labels must lie.*-1 to 0"),
        (lambda: informative_start(IMAGES, LABELS, 4), r"^labels must hold.*\[2, 3\]"),
        (lambda: informative_start(IMAGES, LABELS, 2, jitter=0.0), "^jitter must be"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
