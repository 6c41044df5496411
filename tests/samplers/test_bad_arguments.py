"""Bad input: the type of the exception, and that its message names what is wrong."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampler_names import PARTICLES, PLAIN, init_of, taking, with_a_key

from ebmjax import samplers
from ebmjax._checks import check_positive
from ebmjax.samplers import clamp, clip_drift, clip_score, reflect


def log_density(x):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))


SAMPLERS, TEMPERED = PLAIN, taking("temperature")
POSITION = jnp.ones((3, 2))

BAD_HYPERPARAMETERS = [
    *((name, "step_size", bad) for name in SAMPLERS for bad in (0.0, -0.1, jnp.nan, jnp.inf)),
    *((name, "noise_scale", -0.1) for name in SAMPLERS if name in taking("noise_scale")),
    *((name, "temperature", 0.0) for name in TEMPERED),
    ("psgld", "damping", 0.0),
    ("psgld", "decay", 1.5),
    ("psgld", "decay", -0.1),
    ("adaptive_svgd", "damping", 0.0),
    ("adaptive_svgd", "decay", 1.5),
    ("adaptive_svgd", "decay", -0.1),
    ("svgd", "bandwidth", 0.0),
    ("svgd", "bandwidth", "mean"),
    ("stochastic_svgd", "bandwidth", -1.0),
    ("stochastic_svgd", "langevin_weight", 0.0),
    ("underdamped_langevin", "friction", 0.0),
    ("tempered_mala", "temperature_growth", 0.0),
    ("tempered_mala", "acceptance_threshold", 1.5),
    ("tempered_mala", "acceptance_decay", -0.5),
]


def bound(name, density=log_density, **options):
    return with_a_key(getattr(samplers, name)(density, **{"step_size": 0.1, **options}))


@pytest.mark.parametrize(("name", "argument", "value"), BAD_HYPERPARAMETERS)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_hyperparameter_out_of_range(name, argument, value, compiled):
    """Concrete hyperparameters are checked while tracing too."""
    sampler = bound(name, **{argument: value})

    def init_and_step(key, position):
        return sampler.step(key, sampler.init(position))

    run = partial(jax.eval_shape, init_and_step) if compiled else init_and_step
    with pytest.raises(ValueError, match=rf"^{argument} must .*got {argument}={value!r}"):
        run(jax.random.key(0), POSITION)


@pytest.mark.parametrize("value", ["0.1", None, [None]])
def test_hyperparameter_of_the_wrong_type(value):
    sampler = samplers.sgld(log_density, step_size=value)
    with pytest.raises(TypeError, match=r"^step_size must be a number"):
        sampler.step(jax.random.key(0), sampler.init(POSITION))


@pytest.mark.parametrize("name", ["sgld", "psgld", "svgd"])
def test_whole_numbers_act_as_floats(name):
    def moved(step_size):
        sampler = bound(name, step_size=step_size)
        return samplers.position_of(sampler.step(jax.random.key(0), sampler.init(POSITION))[0])

    assert moved(1).dtype == POSITION.dtype
    assert jnp.array_equal(moved(1), moved(1.0))


def test_traced_hyperparameters_are_not_looked_at():
    def step(step_size):
        sampler = samplers.sgld(log_density, step_size=step_size)
        return sampler.step(jax.random.key(0), sampler.init(POSITION))

    jax.eval_shape(step, 0.1)


every_sampler = pytest.mark.parametrize("name", SAMPLERS)


@every_sampler
def test_integer_positions(name):
    with pytest.raises(TypeError, match=r"\['a'\] must hold floating-point numbers.*int32"):
        init_of(name)({"a": jnp.arange(3), "b": jnp.ones(3)}, log_density)


@every_sampler
def test_empty_positions(name):
    for nothing in ({}, [], None):
        with pytest.raises(ValueError, match=r"^(position|particles) holds no arrays"):
            init_of(name)(nothing, log_density)


@every_sampler
@pytest.mark.parametrize(
    "log_density_fn", [lambda x: x, lambda x: (jnp.sum(x), x)], ids=["vector", "with_aux"]
)
def test_log_density_that_is_no_scalar(name, log_density_fn):
    sampler = bound(name, log_density_fn)
    position = jnp.ones((3, 2)) if "svgd" in name else jnp.ones(2)
    with pytest.raises(ValueError, match=r"^log_density_fn must return a scalar.*\(2,\)"):
        sampler.step(jax.random.key(0), sampler.init(position))


@pytest.mark.parametrize("name", PARTICLES)
def test_particles_without_a_common_leading_axis(name):
    with pytest.raises(ValueError, match=r"^particles must be arrays that share.*'a'.*3.*'b'.*4"):
        init_of(name)({"a": jnp.ones((3, 2)), "b": jnp.ones(4)}, log_density)
    with pytest.raises(ValueError, match=r"^particles must be arrays that share.*None"):
        init_of(name)(jnp.float32(1.0), log_density)
    with pytest.raises(ValueError, match=r"^particles must hold at least one particle"):
        init_of(name)(jnp.ones((0, 2)), log_density)
    with pytest.raises(ValueError, match=r"^particles must be arrays"):
        samplers.svgd_direction({"a": jnp.ones((3, 2)), "b": jnp.ones(4)}, log_density)


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (lambda: clamp(samplers.sgld, 1.0, -1.0), "^low must be below high, got low=1.0"),
        (lambda: clamp(samplers.sgld, 0.5, 0.5), "^low must be below high"),
        (lambda: reflect(samplers.sgld, 0.5, 0.5), "^low must be below high"),
        (lambda: reflect(samplers.sgld, 0.0, jnp.inf), "^high must be finite, got high=inf"),
        (lambda: clip_drift(samplers.sgld, 0.0), "^max_drift must be positive"),
        (lambda: clip_drift(samplers.sgld, 1.0)(log_density, step_size=0.0), "^step_size must be"),
        (lambda: clip_score(log_density, -1.0), "^max_abs must be positive"),
    ],
)  # fmt: skip
def test_bad_wrappers(wrap, message):
    with pytest.raises(ValueError, match=message):
        wrap()


LANGEVIN = ["gradient_descent", "sgld", "psgld", "mala", "tempered_mala"]
BAD_SHAPES = [
    *((name, "temperature", (2,), "a scalar") for name in TEMPERED),
    *((name, "step_size", (3, 1), r".*position\['a'\], \(2,\)") for name in LANGEVIN),
    *((name, "step_size", (2,), "a scalar") for name in PARTICLES),
    ("adaptive_svgd", "decay", (2,), "a scalar"),
    ("adaptive_svgd", "damping", (2,), "a scalar"),
    ("stochastic_svgd", "langevin_weight", (2,), "a scalar"),
    *((name, "bandwidth", (2,), "a scalar") for name in PARTICLES),
    *((name, "noise_scale", (3,), r".*position\['a'\], \(2,\)") for name in LANGEVIN[1:]),
]


@pytest.mark.parametrize(("name", "argument", "shape", "expected"), BAD_SHAPES)
def test_hyperparameter_of_the_wrong_shape(name, argument, shape, expected):
    """Shapes are known inside jit too, where values are not."""

    def init_and_step(key, position, value):
        sampler = bound(name, **{argument: value})
        return sampler.step(key, sampler.init(position))

    position = {"a": jnp.ones((4, 2) if "svgd" in name else 2)}
    with pytest.raises(ValueError, match=rf"^{argument} must be {expected}.*got shape"):
        jax.eval_shape(init_and_step, jax.random.key(0), position, jnp.ones(shape))


def test_a_step_size_for_each_coordinate_is_one_for_each():
    sampler = samplers.sgld(log_density, step_size=jnp.array([0.1, 0.5]), noise_scale=0.0)
    state, _ = sampler.step(jax.random.key(0), sampler.init(jnp.ones(2)))
    assert state.position.tolist() == pytest.approx([0.9, 0.5])


@pytest.mark.parametrize("as_given", [np.asarray, np.ndarray.tolist])
def test_a_long_argument_is_shown_by_its_beginning(as_given):
    scales = as_given(np.linspace(-1.0, 1.0, 10_000))
    with pytest.raises(ValueError, match=r"scale must be positive .* got scale=\[-1") as caught:
        check_positive("scale", scales)
    assert len(str(caught.value)) < 300
