"""A conditional energy is used by its classes; the monitor weighs adapted moves."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import build_experiment
from image_smoke import smoke
from scipy import special

from ebmjax import data, samplers
from ebmjax.learning import dual_averaging_init
from ebmjax.recipes.models.image.chains import Trained
from ebmjax.recipes.models.image.evaluate import make_evaluation
from ebmjax.recipes.models.image.monitor import ImageMonitor


def by_class(params, images, labels):
    """Rises with the class where an image is bright."""
    return 0.5 * labels * jnp.mean(images, axis=(-3, -2, -1))


@pytest.fixture(scope="module")
def conditional(tmp_path_factory):
    """The use of an energy of ten classes whose parameters do not matter."""
    config = smoke("conditional")
    config.eval.batch_size = 3
    experiment = build_experiment(config, tmp_path_factory.mktemp("run"))
    monitor = replace(experiment.monitor, energy_of=lambda params: partial(by_class, params))
    return make_evaluation(monitor, config, (8, 8, 1)).use(experiment.state)


IMAGES = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1), np.uint8)


def test_a_conditional_energy_scores_by_all_classes(conditional):
    means = np.asarray(data.to_signed_unit(jnp.asarray(IMAGES))).mean(axis=(1, 2, 3))
    log_densities = -0.5 * np.arange(10) * means[:, None]
    found = conditional.score(IMAGES)
    np.testing.assert_allclose(
        found["log_density"], special.logsumexp(log_densities, axis=1), rtol=1e-5
    )
    np.testing.assert_allclose(
        found["class_probability"], special.softmax(log_densities, axis=1), rtol=1e-4
    )


def test_a_conditional_energy_needs_labels(conditional):
    images, labels = data.to_signed_unit(jnp.asarray(IMAGES)), jnp.arange(5)
    found = conditional.apply(conditional.params, images, labels)
    np.testing.assert_allclose(found, by_class(None, images, labels))
    with pytest.raises(ValueError, match="labels must be given to a conditional energy"):
        conditional.apply(conditional.params, images)


def test_the_monitor_weighs_moves_of_the_adapted_step(tmp_path):
    """Noise follows the step and the temperature; SGLD reports the same of the same move."""
    config = smoke(**{"sampler.box": "none", "sampler.names": ("mala",)})
    config.sampler.mala.update(step_size=9.0, noise_scale=None, temperature=0.02)
    energy = lambda x, label: 0.05 * jnp.sum(jnp.cos(9.0 * x), axis=(-3, -2, -1))  # noqa: E731
    x = jax.random.uniform(jax.random.key(3), (1, 2, 2, 1), minval=-1.0, maxval=1.0)
    monitor = ImageMonitor(
        workdir=tmp_path,
        key=jax.random.key(0),
        energy_of=lambda params: energy,
        plan=None,  # pyright: ignore
        test=data.ImageData(np.zeros((1, 2, 2, 1), np.uint8), np.zeros(1, np.int32)),
        distances=None,  # pyright: ignore
        beta_fn=lambda step: 0.0,
        config=config,
    )
    model = Trained({}, {"mala": dual_averaging_init(0.3)}, 0.0)
    sgld = samplers.sgld(lambda x: -energy(x, 0), step_size=0.3, temperature=0.02)
    told = []
    for key in jax.random.split(jax.random.key(5), 6):
        found = monitor._report(key, model, x, jnp.zeros(1, jnp.int32))
        told.append(float(found["acceptance_implied"]))
        _, info = sgld.step(key, sgld.init(x[0]))
        assert told[-1] == pytest.approx(float(info.acceptance_prob), rel=1e-3, abs=1e-6)
    assert max(told) - min(told) > 0.1
