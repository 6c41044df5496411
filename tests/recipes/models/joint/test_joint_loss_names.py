"""The generative losses of joint models by configuration: one meaning of penalty and smoothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import data, losses
from ebmjax.learning import Samples
from ebmjax.recipes.models.energy import parts as joint_parts
from ebmjax.recipes.models.energy.parts import chain_plan, make_objective
from ebmjax.recipes.parts.objectives import make_loss
from experiments.configs import jem_digits

POSITIVE, NEGATIVE = jnp.array([2.0, -1.0, 0.5]), jnp.array([-3.0, 2.0])
BETA, SCALE, ALPHA = 0.2, 3.0, 4.0


def value_of(name, alpha, **overrides):
    config = jem_digits.get_config()
    config.loss.update(name=name, beta=BETA, output_scale=SCALE, **overrides)
    loss, numbers = make_loss(config, None)
    data, samples = (Samples(f, f / alpha, f) for f in (POSITIVE, NEGATIVE))
    return loss(None, None, data, samples, {**numbers, "smoothing": jnp.float32(alpha)})


@pytest.mark.parametrize("alpha", [1.0, ALPHA])
@pytest.mark.parametrize("name", ["contrastive_divergence", "beta", "svgd"])
def test_penalty_and_means_are_of_f_whatever_the_smoothing(name, alpha):
    bare, _ = value_of(name, alpha, energy_l2=0.0)
    value, metrics = value_of(name, alpha, energy_l2=0.1)
    squares = np.mean(np.square(POSITIVE)) + np.mean(np.square(NEGATIVE))
    assert float(metrics["energy_l2"]) == pytest.approx(0.1 * squares)
    assert float(value - bare) == pytest.approx(0.1 * squares, rel=1e-6)
    if name != "svgd":
        found = -metrics["positive_energy"], -metrics["negative_energy"], metrics["energy_gap"]
    else:
        names = ("positive_log_density", "negative_log_density", "log_density_gap")
        found = tuple(metrics[name] for name in names)
    assert [float(mean) for mean in found] == pytest.approx([0.5, -0.5, 1.0])


def test_smoothing_is_the_temperature_of_every_loss():
    """For p(x) proportional to exp(f / alpha), contrastive divergence in nats is that of f / 4."""
    expected = float(jnp.mean(NEGATIVE) - jnp.mean(POSITIVE)) / ALPHA
    for name in ("contrastive_divergence", "svgd"):
        value, _ = value_of(name, ALPHA, energy_l2=0.0)
        assert float(value) == pytest.approx(expected, abs=1e-6)
    value, _ = value_of("beta", ALPHA, energy_l2=0.0)
    of_f, _ = losses.beta_objective_loss(POSITIVE, NEGATIVE, beta=BETA, output_scale=SCALE / ALPHA)
    assert float(value) == pytest.approx(float(of_f) / ALPHA, rel=1e-6)


@pytest.mark.parametrize(
    ("loss", "scale"),
    [
        ({"name": "contrastive_divergence"}, 1.0),
        ({"name": "beta", "beta": 0.2}, 0.8),
    ],
)
def test_chains_follow_what_the_weights_leave_of_the_density(loss, scale):
    config = jem_digits.get_config()
    config.loss.update(loss)
    objective = make_objective(config, None, 10)
    assert objective.density_scale(objective.numbers) == pytest.approx(scale)


def test_the_objective_has_the_numbers_of_its_fields():
    config = jem_digits.get_config()
    config.loss.update(generative_weight=0.5)
    config.optimizer.update(rho=0.05, adaptive=True)
    found = make_objective(config, None, 10)
    assert (found.classification_weight, found.generative_weight) == (1.0, 0.5)
    assert (found.rho, found.is_adaptive) == (0.05, True)


def test_chains_have_the_numbers_of_their_fields_shared_among_the_shards():
    config = jem_digits.get_config()
    config.mesh.num_shards = 4
    config.sampler.update(num_steps=7, num_samples=40)
    config.sampler.buffer.update(reinit_prob=0.25, replacement="argmax", num_kept=8)
    plan = chain_plan(config, data.load_digits("train"))
    (kind,) = plan.kinds.values()
    assert (kind.num_steps, plan.num_samples, plan.num_kept) == (7, 10, 2)
    assert (plan.reinit_prob, plan.replacement, plan.num_classes) == (0.25, "argmax", 1)


NUM = 1024
# A pixel's level says where it is from: 8 times the row and the column.
PLACES = np.broadcast_to(np.arange(64, dtype=np.uint8).reshape(8, 8, 1), (NUM, 8, 8, 1))


def moves(view):
    """Returns the rows and columns that views moved images by, and which they mirrored."""
    levels = np.asarray(data.from_signed_unit(view(jax.random.key(0), jnp.asarray(PLACES))), int)
    rows, columns = np.divmod(levels[:, 4, 4, 0], 8)
    is_mirrored = levels[:, 4, 5, 0] < levels[:, 4, 4, 0]
    shifts = set(rows - 4) | set(columns - np.where(is_mirrored, 3, 4))
    return {int(shift) for shift in shifts}, set(is_mirrored.tolist())


def views(**fields):
    config = jem_digits.get_config()
    plain = {"noise_scale": 0.0, "crop_padding": 2, "flip": True}
    config.data.update(plain | fields)
    of_positives = joint_parts.make_view(config, is_augmented=config.data.augment_positives)
    return moves(joint_parts.make_view(config)), moves(of_positives)


AS_LABELS = ({-2, -1, 0, 1, 2}, {False, True})


@pytest.mark.parametrize(
    ("fields", "of_positives"),
    [
        ({}, AS_LABELS),
        ({"augment_positives": False}, ({0}, {False})),
    ],
)
def test_p_x_has_its_own_part_of_the_augmentation(fields, of_positives):
    """Sees every place and both sides among 1,024 images."""
    assert views(**fields) == (AS_LABELS, of_positives)


def test_images_are_the_first_of_each_class():
    images = data.load_digits("train")
    found = joint_parts.take_images(images, 2)
    np.testing.assert_array_equal(found.labels, np.repeat(np.arange(10), 2))
    for label in range(10):
        theirs = images.images[images.labels == label]
        np.testing.assert_array_equal(found.images[2 * label : 2 * label + 2], theirs[:2])
    assert len(joint_parts.take_images(images, 10_000).labels) == len(images.labels)
