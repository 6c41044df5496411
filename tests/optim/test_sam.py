"""SAM and ASAM against closed forms, and under the rescaling that ASAM ignores."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.optim import sam_gradients

EPS = float(jnp.finfo(jnp.float32).eps)
HESSIAN = np.array([[3.0, 1.0, 0.0], [1.0, 2.0, -0.5], [0.0, -0.5, 1.0]], np.float32)
START = {"a": np.array([0.5, -2.0], np.float32), "b": np.float32(1.5)}


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]).astype(np.float64)


def quadratic(params):
    """theta' A theta / 2, over two leaves, with metrics of its own."""
    theta = jnp.concatenate([params["a"], params["b"][None]])
    loss = 0.5 * theta @ HESSIAN @ theta
    return loss, {"theta": theta}


def by_hand(theta, gradient, rho, adaptive):
    """The displaced parameters, in float64."""
    t = np.abs(theta) if adaptive else np.ones_like(theta)
    return theta + rho * t**2 * gradient / np.sqrt(np.sum((t * gradient) ** 2))


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("rho", [0.05, 2.0])
def test_quadratic_by_hand(rho, adaptive):
    take = jax.jit(functools.partial(sam_gradients, quadratic, adaptive=adaptive))
    (loss, metrics), gradients = take(START, rho=rho)
    theta, A = flat(START), HESSIAN.astype(np.float64)
    # Some twenty roundings, of numbers that are at most the product of absolute values.
    displaced = by_hand(theta, A @ theta, rho, adaptive)
    bound = 20 * EPS * np.abs(A) @ (np.abs(theta) + np.abs(displaced - theta))
    np.testing.assert_array_less(np.abs(flat(gradients) - A @ displaced), bound)
    assert jax.tree.structure(gradients) == jax.tree.structure(START)
    # The value is that of the first pass.
    np.testing.assert_allclose(loss, 0.5 * theta @ A @ theta, rtol=20 * EPS)
    np.testing.assert_array_equal(metrics["theta"], flat(START))


def test_only_asam_ignores_a_rescaling_between_layers():
    """a -> 4a, b -> b/4 leaves a product a b as it is; powers of two round to the same bits."""
    a, b = np.float32([0.3, -1.2]), np.float32([2.0, 0.7])

    def loss_fn(params):
        a, b = params
        return jnp.sum((a * b - 1.0) ** 2) + a[0] * b[1], {}

    def gradients(scale, adaptive):
        take = jax.jit(functools.partial(sam_gradients, loss_fn, rho=0.5, adaptive=adaptive))
        grad_a, grad_b = take((scale * a, b / scale))[1]
        return np.concatenate([scale * grad_a, grad_b / scale])

    np.testing.assert_array_equal(gradients(4, adaptive=True), gradients(1, adaptive=True))
    assert np.abs(gradients(4, adaptive=False) - gradients(1, adaptive=False)).max() > 0.1


def test_the_displacement_is_rho_long_whatever_the_size_of_the_gradient():
    def displacement(slope, adaptive):
        """Displacement for a linear loss, read off the second pass."""
        start = jnp.array([2.0, -1.0, 0.0])

        def second_loss_fn(params):
            return 0.5 * jnp.sum((params - start) ** 2), {}

        def loss_fn(params):
            return slope * (params @ jnp.array([1.0, 2.0, -2.0])), {}

        take = functools.partial(sam_gradients, loss_fn, rho=0.5, adaptive=adaptive)
        return jax.jit(functools.partial(take, second_loss_fn=second_loss_fn))(start)[1]

    # Slopes whose squares leave float32 at either end.
    for slope in (1.0, 1e-30, 1e30):
        # 0.5 g / |g| with g = (1, 2, -2); with T g = (2, 2, 0), 0.5 T (T g) / |T g|.
        np.testing.assert_allclose(
            displacement(slope, False), [1 / 6, 1 / 3, -1 / 3], rtol=0, atol=10 * EPS
        )
        np.testing.assert_allclose(
            displacement(slope, True), [0.5**0.5, 0.125**0.5, 0.0], rtol=0, atol=10 * EPS
        )


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_zero_gradient_stays_the_plain_gradient(adaptive):
    take = jax.jit(functools.partial(sam_gradients, quadratic, rho=1.0, adaptive=adaptive))
    start = jax.tree.map(jnp.zeros_like, START)
    _, gradients = take(start)
    np.testing.assert_array_equal(flat(gradients), np.zeros(3))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_not_hidden(bad):
    def loss_fn(x):
        return bad * x[0] + 0.5 * x @ x, {}

    _, gradients = sam_gradients(loss_fn, jnp.ones(2), rho=1.0)
    assert not np.isfinite(gradients).any()


def test_the_second_pass_may_have_a_loss_of_its_own_and_metrics_are_the_firsts():
    def first(x):
        return 2.0 * x, {"statistics": x}

    def second(x):
        return x**3, {"statistics": -x}

    (loss, metrics), gradient = sam_gradients(first, 1.0, rho=0.5, second_loss_fn=second)
    assert float(loss) == 2.0
    assert float(metrics["statistics"]) == 1.0
    # 3 (1 + 0.5)^2.
    assert float(gradient) == 6.75


def test_one_displacement_for_all_shards():
    """SAM displaces by the mean gradient where an axis is named, else by each shard's own."""
    centres = jnp.array([[0.0, 0.0], [4.0, 1.0], [-1.0, 5.0]])
    start = jnp.array([1.0, -1.0])

    def carry(centre, axis_name):
        def loss_fn(x):
            return 0.5 * jnp.sum((x - centre) ** 2), {}

        return sam_gradients(loss_fn, start, rho=0.5, axis_name=axis_name)[1]

    def gradients(axis_name):
        mapped = functools.partial(carry, axis_name=axis_name)
        return jax.jit(jax.vmap(mapped, axis_name="shards"))(centres)

    own = np.asarray(start)[None] - np.asarray(centres)
    mean = own.mean(0, keepdims=True)
    together = own + 0.5 * mean / np.linalg.norm(mean)
    alone = own + 0.5 * own / np.linalg.norm(own, axis=1, keepdims=True)
    np.testing.assert_allclose(gradients("shards"), together, rtol=0, atol=10 * 6 * EPS)
    np.testing.assert_allclose(gradients(None), alone, rtol=0, atol=10 * 6 * EPS)


def test_dtypes_are_the_parameters():
    params = {"half": jnp.ones(3, jnp.bfloat16), "full": jnp.ones(2)}

    def loss_fn(params):
        return sum(jnp.sum(leaf.astype(jnp.float32) ** 2) for leaf in params.values()), {}

    take = functools.partial(sam_gradients, loss_fn)
    shapes = jax.eval_shape(lambda rho: take(params, rho=rho)[1], jnp.float32(0.1))
    assert jax.tree.map(lambda leaf: leaf.dtype, shapes) == jax.tree.map(
        lambda leaf: leaf.dtype, params
    )


@pytest.mark.parametrize(
    ("sizes", "dtype"), [([70_000], jnp.float16), ([256] + [1] * 32, jnp.bfloat16)]
)
def test_the_displacement_of_half_precision_parameters_is_rho_long(sizes, dtype):
    """70 000 squares of 1 overflow float16; bfloat16 cannot add a 1 to 256."""
    start, rho = [jnp.ones(size, dtype) for size in sizes], float(np.sqrt(sum(sizes)))

    def loss_fn(params):
        return sum(jnp.sum(leaf.astype(jnp.float32)) for leaf in params), {}

    def second_loss_fn(params):  # its gradient is the displacement, of 1 in every entry
        squares = [jnp.sum((leaf.astype(jnp.float32) - 1.0) ** 2) for leaf in params]
        return 0.5 * sum(squares), {}

    for adaptive in (False, True):
        take = functools.partial(sam_gradients, loss_fn, rho=rho, adaptive=adaptive)
        displacement = jax.jit(functools.partial(take, second_loss_fn=second_loss_fn))(start)[1]
        # 1 + 1 is rounded to the dtype once, the norm before it to float32's far smaller eps.
        np.testing.assert_allclose(flat(displacement), 1.0, rtol=float(jnp.finfo(dtype).eps))


def test_asam_climbs_highest_within_its_ball_which_the_printed_displacement_leaves():
    """The ball is |eps / T| <= rho; SADA-JEM prints rho T sign(g), rho sqrt(d) from its centre."""
    start, slope, rho = np.array([2.0, -1.0, 0.5]), np.array([1.0, 2.0, -2.0]), 0.5

    def second_loss_fn(params):  # its gradient is the displacement
        return 0.5 * jnp.sum((params - start) ** 2), {}

    def loss_fn(params):
        return params @ jnp.asarray(slope), {}

    take = functools.partial(sam_gradients, loss_fn, rho=rho, adaptive=True)
    ours = flat(take(jnp.asarray(start), second_loss_fn=second_loss_fn)[1])
    size = np.abs(start)
    printed = rho * size * np.sign(slope)
    np.testing.assert_allclose(np.linalg.norm(printed / size), rho * np.sqrt(3))
    # A subtraction rounds entries of at most 3, twice, and the smallest |theta| divides them.
    np.testing.assert_allclose(np.linalg.norm(ours / size), rho, atol=2 * 3 * EPS / 0.5)
    # Cauchy-Schwarz: the highest that any point of the ball reaches.
    highest = rho * np.linalg.norm(size * slope)
    np.testing.assert_allclose(slope @ ours, highest, atol=2 * 3 * EPS * np.abs(slope).sum())
