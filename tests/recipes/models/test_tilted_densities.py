"""Log densities of a run whose chains follow q exp(f / T) are those of the chains."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import build_experiment
from experiment_runs import image as smoke

from ebmjax import data, metrics
from ebmjax.learning import ANY_CLASS
from experiments.configs import image, jem_digits, joint

TEMPERATURE, SMOOTHING = 0.5, 4.0
DIGITS = data.load_digits("train")
IMAGES = data.to_signed_unit(jnp.asarray(DIGITS.images[:6]))


def model_of(config, folder, **fields):
    config.update_from_flattened_dict(fields)
    config.sampler.tilted_langevin.temperature = TEMPERATURE
    experiment = build_experiment(config, folder)
    return experiment.use(experiment.state)


@pytest.mark.slow
def test_a_joint_model_adds_the_base_to_every_logit(tmp_path):
    fields = {"sampler.name": "tilted_langevin", "sampler.box": "none"}
    model = model_of(jem_digits.get_config("smoke"), tmp_path, **fields)
    model = replace(model, trained=model.trained._replace(scale=jnp.float32(1 / SMOOTHING)))
    trained = model.trained
    f = model.network.classifier.apply(trained.params, trained.statistics, IMAGES)[0]
    base = jax.vmap(model.base.density.log_density)(IMAGES)
    expected = f + TEMPERATURE * SMOOTHING * base[:, None]
    np.testing.assert_allclose(model.logits(IMAGES), expected, rtol=1e-5, atol=1e-4)
    # The sampler adds the base to what it is given, so that it is given f alone.
    followed = model.densities_of(trained)(jnp.int32(ANY_CLASS))(IMAGES[0])
    assert float(followed) == pytest.approx(float(jax.nn.logsumexp(f[0])) / SMOOTHING, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["", "conditional"])
def test_an_image_energy_adds_the_base(variant, tmp_path):
    model = model_of(
        smoke(variant),
        tmp_path,
        **{"sampler.names": ("tilted_langevin",), "sampler.box": "none"},
        **{"loss.name": "beta", "loss.beta": 0.2},
    )
    labels = jnp.arange(6) % model.plan.num_classes
    energies = model.network.energy_of(model.params)(IMAGES, labels)
    base = jax.vmap(model.base.density.log_density)(IMAGES)
    expected = energies - TEMPERATURE / (0.8 * float(model.trained.strength)) * base
    by_class = model.apply(model.params, IMAGES)
    by_class = by_class if variant else by_class[:, None]
    found = model.energies(IMAGES, labels), by_class[np.arange(6), labels]
    for one in found:
        np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-3)
    total = jax.vmap(partial(model.log_density, model.trained))(IMAGES)
    np.testing.assert_allclose(total, jax.nn.logsumexp(-by_class, axis=1), rtol=1e-4, atol=1e-3)
    scores = model.score(np.asarray(DIGITS.images[:6]))["log_density"]
    np.testing.assert_allclose(scores, total, rtol=1e-4, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("config", [image, joint])
def test_an_untrained_default_model_ranks_digits_above_noise(config, tmp_path):
    """Its base does; the untrained network does not matter at T = 0.5."""
    model = model_of(config.get_config("smoke"), tmp_path)
    noise = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 1), np.uint8)
    digits, others = (model.score(x)["log_density"] for x in (DIGITS.images[:6], noise))
    assert metrics.auroc(digits, others) == 1.0
