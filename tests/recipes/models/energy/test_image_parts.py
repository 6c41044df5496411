"""The parts of an image energy have the numbers of their fields, without a run."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from experiment_runs import image as smoke

from ebmjax import data, losses, optim
from ebmjax.learning import Samples
from ebmjax.recipes.models.energy import parts
from ebmjax.recipes.parts.objectives import make_loss

TRAIN = data.load_digits("train")

LEVELS = jnp.asarray(np.arange(400 * 4, dtype=np.uint8).reshape(400, 2, 2, 1))
POSITIVE, NEGATIVE = jnp.array([2.0, -1.0, 0.5]), jnp.array([-3.0, 2.0, 1.0])


def seen(**fields):
    plain = {"flip": False, "noise_scale": 0.0, "dequantise": False}
    config = smoke(**{f"data.{name}": value for name, value in (plain | fields).items()})
    return np.asarray(parts.make_view(config)(jax.random.key(0), LEVELS))


def test_images_are_seen_between_minus_one_and_one():
    np.testing.assert_array_equal(seen(), data.to_signed_unit(LEVELS))


def test_half_of_the_images_are_seen_mirrored():
    plain, flipped = seen(), seen(flip=True)
    is_mirrored = (flipped == plain[:, :, ::-1]).all(axis=(1, 2, 3))
    is_same = (flipped == plain).all(axis=(1, 2, 3))
    assert np.all(is_mirrored ^ is_same)
    assert 150 < is_mirrored.sum() < 250  # 5 standard errors of a fair coin: 50


def test_noise_is_independent_of_the_levels_and_has_its_scale():
    noise = (seen(noise_scale=0.25) - seen()).ravel()
    # 1600 Gaussians, to 5 standard errors.
    assert np.std(noise) == pytest.approx(0.25, rel=5 / np.sqrt(2 * 1600))
    assert np.mean(noise) == pytest.approx(0.0, abs=5 * 0.25 / 40)


def test_dequantised_levels_stay_within_their_interval():
    """A level fills 1 / 256 of the 2 units of the box, and mirrors change nothing of that."""
    found = (seen(dequantise=True) + 1.0) * 128.0 - np.asarray(LEVELS, np.float32)
    assert -1e-4 <= found.min() < 0.05
    assert 0.95 < found.max() <= 1.0 + 1e-4


def loss(config, beta=0.0, *live):
    """The loss at ``POSITIVE`` and ``NEGATIVE``."""
    loss_fn, numbers = make_loss(config, TRAIN)
    data, samples = (Samples(f, f, f) for f in (-POSITIVE, -NEGATIVE))
    samples = samples._replace(**dict(zip(("live", "entropy"), live, strict=False)))
    return loss_fn(None, None, data, samples, {**numbers, "beta": beta, "beta_start": None})


def test_the_improved_loss_has_its_weights():
    weights = {"energy_l2": 0.5, "kl_weight": 0.25, "entropy_weight": 2.0}
    config = smoke("improved", **{f"loss.{name}": value for name, value in weights.items()})
    live, entropy = jnp.array([1.0, 4.0]), jnp.float32(3.0)
    found = loss(config, 0.0, -live, entropy)[0]
    expected = losses.improved_contrastive_divergence_loss(
        POSITIVE, NEGATIVE, live, entropy, **weights
    )[0]
    assert float(found) == pytest.approx(float(expected))


def test_the_robust_loss_is_of_densities_and_tells_energies():
    config = smoke("beta", **{"loss.output_scale": 3.0, "loss.energy_l2": 0.5})
    found, metrics = loss(config, 0.25)
    bare, _ = losses.beta_objective_loss(-POSITIVE, -NEGATIVE, beta=0.25, output_scale=3.0)
    penalty = 0.5 * (np.mean(np.square(POSITIVE)) + np.mean(np.square(NEGATIVE)))
    assert float(found) == pytest.approx(float(bare) + penalty, rel=1e-6)
    names = ("positive_energy", "negative_energy", "energy_gap", "energy_l2")
    told = [float(metrics[name]) for name in names]
    assert told == pytest.approx([0.5, 0.0, -0.5, penalty], abs=1e-6)


@pytest.mark.parametrize(("box", "ends"), [("clamp", (-0.75, 1.5)), ("none", (-np.inf, np.inf))])
def test_live_steps_go_on_where_the_chain_has_annealed_to(box, ends):
    config = smoke("improved", **{"sampler.box": box, "sampler.low": -0.75, "sampler.high": 1.5})
    config.sampler.final_step_fraction = 0.25
    config.sampler.sgld.update(step_size=0.8, noise_scale=0.5)
    config.loss.update(live_steps=2, num_references=12)
    config.mesh.num_shards = 4
    found = parts.make_objective(config, TRAIN, 10).live
    assert (found.step_size, found.noise_scale) == (0.8 * 0.25, 0.5 * 0.5)
    assert (found.num_steps, found.num_references) == (2, 3)
    assert (found.low, found.high) == ends
    assert parts.make_objective(smoke(), TRAIN, 10).live is None


def test_chains_have_the_numbers_of_their_fields_shared_among_the_shards():
    config = smoke(**{"sampler.names": ("sgld", "mala"), "mesh.num_shards": 2})
    config.sampler.update(num_steps=7, num_samples=40, target_acceptance=0.5)
    config.sampler.buffer.reinit_prob = 0.25
    config.sampler.mala.update(step_size=0.5, temperature=1.0)
    plan = parts.chain_plan(config, TRAIN)
    assert (plan.num_samples, plan.reinit_prob, plan.num_classes) == (20, 0.25, 1)
    sgld, mala = plan.kinds["sgld"], plan.kinds["mala"]
    assert (sgld.target_acceptance, mala.target_acceptance) == (None, 0.5)
    assert (mala.num_steps, mala.step_size) == (7, 0.5)


def test_a_conditional_energy_has_a_buffer_of_every_class():
    config = smoke("conditional")
    assert parts.chain_plan(config, TRAIN).num_classes == config.data.num_classes == 10


def updates_of(**fields):
    """The updates of two steps of gradients (3, 4), and the average afterwards."""
    config = smoke(**{f"optimizer.{k}": v for k, v in fields.items()})
    optimizer = parts.make_optimizer(config, 4000, 100, config.optimizer)
    params, found = jnp.zeros(2), []
    state = optimizer.init(params)
    for _ in range(2):
        update, state = optimizer.update(jnp.array([3.0, 4.0]), state, params)
        params = optax.apply_updates(params, update)
        found.append(np.asarray(update))
    return np.array(found), np.asarray(optim.averaged_parameters(state))


def test_the_optimizer_is_adam_with_an_average():
    fields = {"learning_rate": 0.5, "b1": 0.25, "b2": 0.75}
    found, average = updates_of(**fields, average_decay=0.75)
    adam, state = optax.adam(0.5, b1=0.25, b2=0.75), None
    state = adam.init(jnp.zeros(2))
    for update in found:
        expected, state = adam.update(jnp.array([3.0, 4.0]), state)
        np.testing.assert_allclose(update, expected, rtol=1e-6)
    by_hand = 0.75 * (0.25 * found[0]) + 0.25 * (found[0] + found[1])
    np.testing.assert_allclose(average, by_hand, rtol=1e-6)


def test_a_gradient_is_clipped_by_its_norm():
    """Adam divides by what it was given: only the damping of 1e-8 shows the size."""
    found, _ = updates_of(max_norm=5e-8, b1=0.0, b2=0.0, learning_rate=1.0)
    clipped = np.array([3e-8, 4e-8])
    np.testing.assert_allclose(found[0], -clipped / (clipped + 1e-8), rtol=1e-5)
