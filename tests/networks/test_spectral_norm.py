"""The spectral norm against NumPy's singular values, and what capping does to kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.networks import cap_kernels, spectral_norm

EPS = np.finfo(np.float32).eps
# Twenty iterations shrink the second direction by (s_2 / s_1)^40, and the estimate errs by its
# square: nothing at 1/2. What is left is rounding, of products with 18 terms and of the norms.
CONVERGED = 32 * EPS


def with_singular_values(values, rows=18, seed=0):
    """A (3, 3, 2, O) kernel with these singular values, and its singular vectors."""
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.normal(size=(rows, len(values))))[0]
    right = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    matrix = left @ np.diag(values) @ right.T
    return np.float32(matrix.reshape(3, 3, 2, len(values))), left, right


def random_kernel(shape, seed=0):
    fan_in = np.prod(shape[:-1])
    return np.float32(np.random.default_rng(seed).normal(size=shape) * np.sqrt(2 / fan_in))


def singular_values(kernel):
    return np.linalg.svd(np.float64(kernel).reshape(-1, kernel.shape[-1]), compute_uv=False)


def test_it_is_the_largest_singular_value_and_its_gradient():
    kernel, left, right = with_singular_values([3.0, 1.5, 0.5, 0.1])
    value, gradient = jax.jit(jax.value_and_grad(spectral_norm))(kernel)
    np.testing.assert_allclose(value, 3.0, rtol=CONVERGED)
    want = np.outer(left[:, 0], right[:, 0]).reshape(kernel.shape)
    np.testing.assert_allclose(gradient, want, rtol=0, atol=CONVERGED)


@pytest.mark.parametrize("num_iterations", [1, 20])
@pytest.mark.parametrize("shape", [(3, 3, 8, 16), (7, 5)])
def test_of_random_kernels_it_is_the_power_iterations_estimate(shape, num_iterations):
    """From the start x the iterate is (W^T W)^N x, so with the singular vectors' shares c of x

    the estimate is sqrt(sum c^2 s^(4N + 2) / sum c^2 s^(4N)).
    """
    kernel = random_kernel(shape)
    matrix = np.float64(kernel).reshape(-1, shape[-1])
    _, s, right = np.linalg.svd(matrix, full_matrices=False)
    start = np.float64(jax.random.normal(jax.random.key(0), shape[-1:]))
    powers = (right @ start) ** 2 * (s / s[0]) ** (4 * num_iterations)
    want = np.sqrt(np.sum(powers * s**2) / np.sum(powers))
    got = float(spectral_norm(kernel, num_iterations=num_iterations))
    # Every one of the 2N + 2 products turns the direction by up to sqrt(terms) eps.
    rounding = (2 * num_iterations + 2) * np.sqrt(len(matrix)) * EPS
    np.testing.assert_allclose(got, want, rtol=rounding)
    assert got <= s[0] * (1 + rounding)
    if num_iterations == 20:
        assert got > 0.98 * s[0]  # what the documentation promises of the default


def test_a_kernel_of_zeros_has_norm_zero_and_a_finite_gradient():
    value, gradient = jax.value_and_grad(spectral_norm)(jnp.zeros((3, 3, 2, 4)))
    assert value == 0.0
    np.testing.assert_array_equal(gradient, np.zeros((3, 3, 2, 4)))


def test_capping_shrinks_what_is_too_large_and_nothing_else():
    large = with_singular_values([3.0, 1.5, 0.1])[0]
    small = with_singular_values([0.7, 0.3, 0.1])[0]
    params = {
        "large": {"kernel": large, "bias": np.float32([9.0, 9.0])},
        "block": {"small": {"kernel": small}, "gain": np.full((2, 3), 9.0, np.float32)},
        "head": {"kernel": large, "inner": {"kernel": large}},
    }
    capped = jax.jit(cap_kernels)(params, 0.75)
    assert jax.tree.structure(capped) == jax.tree.structure(params)
    np.testing.assert_allclose(capped["large"]["kernel"], large / 4, rtol=2 * CONVERGED)
    norm = singular_values(np.asarray(capped["large"]["kernel"]))[0]
    np.testing.assert_allclose(norm, 0.75, rtol=2 * CONVERGED)
    unchanged = {"large": {"kernel": capped["large"]["kernel"], "bias": params["large"]["bias"]}}
    jax.tree.map(np.testing.assert_array_equal, capped, {**params, **unchanged})


def test_every_product_is_in_full_precision():
    """A GPU rounds to ten bits by default."""
    program = str(jax.make_jaxpr(spectral_norm)(random_kernel((3, 3, 2, 4))))
    full = "precision=(Precision.HIGHEST, Precision.HIGHEST)"
    assert program.count("dot_general[") == program.count(full) > 0


def test_above_the_limit_a_kernel_gets_no_gradient_along_itself():
    kernel = with_singular_values([3.0, 1.5, 0.1])[0]
    weights = np.float32(np.random.default_rng(1).normal(size=kernel.shape))

    def loss(kernel, limit):
        return jnp.sum(weights * cap_kernels({"kernel": kernel}, limit)["kernel"])

    gradient = jax.grad(loss)(kernel, 1.0)
    along = np.sum(np.float64(gradient) * kernel)
    size = np.linalg.norm(gradient) * np.linalg.norm(kernel)
    assert size > 1.0
    assert abs(along) < 2 * CONVERGED * size
    np.testing.assert_array_equal(jax.grad(loss)(kernel, 4.0), weights)


def test_a_kernel_of_each_device():
    """Within shard_map the start varies as the kernel does, and the norm is what it always is."""
    kernels = np.stack([random_kernel((3, 3, 2, 5), seed) for seed in range(2)])
    mesh = jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.PartitionSpec("data")
    norms = jax.jit(
        jax.shard_map(
            lambda kernel: spectral_norm(kernel[0])[None], mesh=mesh, in_specs=rows, out_specs=rows
        )
    )(kernels)
    expected = [jax.jit(spectral_norm)(kernel) for kernel in kernels]
    np.testing.assert_allclose(norms, expected, rtol=CONVERGED)
