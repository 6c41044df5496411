"""Arguments of the robust objective: traced, refused, and the exponents they stand for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.losses import beta_objective_loss


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
