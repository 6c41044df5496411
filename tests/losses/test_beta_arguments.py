"""Arguments of the robust objective: traced, refused, and the exponents they stand for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.losses import beta_from_exponents, beta_objective_loss, beta_sampling_temperature

EPS = np.finfo(np.float32).eps


def test_sampling_temperature():
    np.testing.assert_allclose(beta_sampling_temperature(0.2), 1 / 0.8, rtol=4 * EPS)
    np.testing.assert_allclose(
        beta_sampling_temperature(0.2, output_scale=20000.0), 1 / (0.8 * 20000), rtol=4 * EPS
    )
    assert beta_sampling_temperature(-1.0, allow_negative=True) == 0.5
    assert jax.jit(beta_sampling_temperature)(0.5) == 2.0


def test_exponents():
    beta, scale = beta_from_exponents(2.0, -0.5)
    np.testing.assert_allclose([beta, scale], [-0.5 / 1.5, 1.5], rtol=4 * EPS)
    np.testing.assert_allclose(jax.jit(beta_from_exponents)(1.0, 3.0), [0.75, 4.0], rtol=4 * EPS)


def test_a_schedule_of_beta_compiles_once():
    traces = []

    @jax.jit
    def loss(beta):
        traces.append(None)
        return beta_objective_loss(jnp.zeros(2), jnp.ones(3), beta=beta)[0]

    assert [bool(jnp.isfinite(loss(b))) for b in (0.0, 0.1, 0.9)] == [True] * 3
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"beta": 1.0}, ValueError, "beta must lie in"),
        ({"beta": -0.1}, ValueError, "allow_negative"),
        ({"beta": float("nan")}, ValueError, "beta must lie in"),
        ({"beta": 1.0, "allow_negative": True}, ValueError, "beta must lie in"),
        ({"beta": -np.inf, "allow_negative": True}, ValueError, "beta must lie in"),
        ({"beta": jnp.zeros(2)}, ValueError, "beta must be a scalar"),
        ({"variant": "eq8"}, ValueError, "variant must be one of default, no_positive"),
        ({"output_scale": 0.0}, ValueError, "output_scale must be positive"),
        ({"output_scale": jnp.ones(3)}, ValueError, "output_scale must be a scalar"),
        ({"variant": "true_objective", "positive": jnp.zeros(3)}, ValueError, "even count"),
        ({"positive": jnp.zeros((2, 1))}, ValueError, r"positive_log_density .*\(2, 1\)"),
        ({"positive": 1.0}, ValueError, "positive_log_density"),
        ({"negative": jnp.zeros(0)}, ValueError, "negative_log_density .* at least 1"),
        ({"negative": jnp.arange(3)}, TypeError, "negative_log_density .* int32"),
    ],
)
def test_bad_input(arguments, error, match):
    arguments = {"beta": 0.1, "positive": jnp.zeros(2), "negative": jnp.zeros(3), **arguments}
    positive, negative = arguments.pop("positive"), arguments.pop("negative")
    with pytest.raises(error, match=match):
        beta_objective_loss(positive, negative, **arguments)


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda: beta_sampling_temperature(1.0), "beta must lie in"),
        (lambda: beta_sampling_temperature(0.99999999), "beta must lie in"),  # 1 in float32
        (lambda: beta_sampling_temperature(-0.5), "allow_negative"),
        (lambda: beta_sampling_temperature(0.5, output_scale=-1.0), "output_scale"),
        (lambda: beta_sampling_temperature(0.5, output_scale=jnp.ones(2)), "output_scale must be"),
        (lambda: beta_from_exponents(jnp.ones(2), 1.0), "sampling_exponent must be a scalar"),
        (lambda: beta_from_exponents(0.0, 1.0), "sampling_exponent must be positive"),
        (lambda: beta_from_exponents(1.0, -1.0), r"sampling_exponent \+ reweighting_exponent"),
        (lambda: beta_from_exponents(1.0, jnp.ones(2)), "reweighting_exponent must be a scalar"),
    ],
)
def test_bad_exponents(function, match):
    with pytest.raises(ValueError, match=match):
        function()


@pytest.mark.parametrize("variant", ["default", "no_positive", "batch_corrected", "true_objective"])
def test_float32_stays_float32_under_x64(variant):
    with jax.enable_x64(True):
        loss, metrics = beta_objective_loss(
            jnp.ones(2, jnp.float32),
            jnp.zeros(3, jnp.float32),
            beta=jnp.array(0.5),
            variant=variant,
        )
        assert loss.dtype == jnp.float32
        assert {name: str(value.dtype) for name, value in metrics.items()} == dict.fromkeys(
            metrics, "float32"
        )


@pytest.mark.parametrize("bad", [None, "a"])
def test_what_is_no_number_is_named(bad):
    with pytest.raises(TypeError, match=r"^beta must be a number"):
        beta_objective_loss(jnp.ones(2), jnp.ones(2), beta=bad)
    with pytest.raises(TypeError, match=r"^reweighting_exponent must be a number"):
        beta_from_exponents(1.0, bad)
