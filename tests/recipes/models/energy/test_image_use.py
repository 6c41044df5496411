"""A conditional energy is used by its classes."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import build_experiment
from image_smoke import smoke
from scipy import special

from ebmjax import data


def by_class(params, statistics, images):
    """Falls with the class where an image is bright."""
    return -0.5 * jnp.arange(10.0)[None] * jnp.mean(images, axis=(-3, -2, -1))[:, None]


@pytest.fixture(scope="module")
def conditional(tmp_path_factory):
    """The use of an energy of ten classes whose parameters do not matter."""
    config = smoke("conditional")
    config.evals.batch_size = 3
    experiment = build_experiment(config, tmp_path_factory.mktemp("run"))
    model = experiment.use(experiment.state)
    return replace(model, logits_fn=by_class)


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
