"""The step of an image energy, its chains and their step sizes, against closed forms."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.optimizers.dual_averaging import dual_averaging as blackjax_dual_averaging
from image_problem import (
    KEY,
    PARAMS,
    batch,
    cd_loss,
    energy_of,
    image_gradient_fn,
    learn,
    live,
    live_loss,
    moved,
    negatives,
    shard_of,
)
from joint_problems import ATOL, NOISELESS, SHAPE
from training_problems import settled

from ebmjax._dual_averaging import dual_averaging_init, dual_averaging_update
from ebmjax.data import to_signed_unit
from ebmjax.learning import ChainKind, LiveSteps, init_carry
from ebmjax.losses import improved_contrastive_divergence_loss
from ebmjax.samplers import gradient_descent, mala


def test_chains_follow_the_class_of_their_slot_and_return_to_it():
    """Three noiseless steps shrink the distance from the class's mean by (1 - 0.2 precision)^3."""
    _, after, metrics, before = learn()
    slots, old, new = moved(before, after)
    assert len(slots) == 6
    means = np.asarray(PARAMS["means"])[(slots >= 6).astype(int)].reshape(-1, 1, 1, 1)
    np.testing.assert_allclose(new, means + (1 - 0.16) ** 3 * (old - means), atol=ATOL)
    assert int(after.step) == 1
    assert float(metrics["chain_displacement"]) == pytest.approx(
        np.mean((new - old) ** 2), rel=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize("is_live", [False, True])
def test_the_gradient_is_contrastive_divergence_of_the_ends(is_live):
    """The ends are constants of it, also where other terms follow them through their chains."""
    options = {"loss_fn": live_loss, "live": live()} if is_live else {}
    gradients, after, metrics, before = learn(carry=shard_of(negatives(), 20), **options)
    slots, _, ends = moved(before, after)
    labels = jnp.asarray(slots >= 10, jnp.int32)

    def loss(params):
        energy = energy_of(params)
        positive = energy(to_signed_unit(batch().images), batch().labels)
        return cd_loss(positive, energy(jnp.asarray(ends), labels), 0.0)[0]

    value, expected = jax.value_and_grad(loss)(PARAMS)
    assert float(metrics["loss"]) == pytest.approx(float(value), abs=ATOL)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=ATOL), gradients, expected)


def test_every_drawn_slot_gets_its_own_chain_back():
    """Two kinds shrink the distance to the mean by known shares, in six known slots."""
    rates = (0.25, 0.5)
    kinds = {
        str(rate): ChainKind(sampler=partial(gradient_descent, step_size=rate / 0.8), num_steps=1)
        for rate in rates
    }
    _, after, _, before = learn(draw := negatives(num_classes=1, kinds=kinds), shard_of(draw, 6))
    old, new = (np.asarray(carry.buffer.positions) - 0.3 for carry in (before, after))
    kept = np.median((new / old).reshape(6, -1), axis=1)
    assert sorted(np.round(kept, 4)) == [0.5] * 3 + [0.75] * 3
    np.testing.assert_allclose(new, kept[:, None, None, None] * old, atol=ATOL)


def test_beta_scales_what_chains_follow_and_is_told_the_step():
    """At beta 0.5 a step is half as long, and the loss hears beta."""

    def loss_fn(positive, negative, beta):
        loss, metrics = cd_loss(positive, negative, beta)
        return loss, {**metrics, "heard": jnp.float32(beta)}

    draw = negatives(kinds={"sgld": ChainKind(sampler=NOISELESS, num_steps=1)})
    carry = shard_of(draw)._replace(step=jnp.int32(5))
    _, after, metrics, before = learn(draw, carry, loss_fn=loss_fn, beta_fn=lambda step: 0.1 * step)
    slots, old, new = moved(before, after)
    means = np.asarray(PARAMS["means"])[(slots >= 6).astype(int)].reshape(-1, 1, 1, 1)
    np.testing.assert_allclose(new - old, 0.5 * 0.16 * (means - old), atol=ATOL)
    assert float(metrics["heard"]) == 0.5


def test_augmentation_moves_old_starts_alone():
    """Starts from the buffer are set to 0, new ones (of law 7) stay; then one step of size 0.2."""
    options = {"num_classes": 1, "augment": lambda key, x: jnp.zeros_like(x)}
    options["kinds"] = {"sgld": ChainKind(sampler=NOISELESS, num_steps=1)}
    for reinit_prob, start in ((0.0, 0.0), (1.0, 7.0)):
        draw = negatives(
            reinit_prob=reinit_prob, start_fn=lambda key, label: jnp.full(SHAPE, 7.0), **options
        )
        _, after, _, before = learn(draw)
        _, _, new = moved(before, after)
        np.testing.assert_allclose(new, start + 0.16 * (0.3 - start), atol=ATOL)


def test_what_does_not_go_together_is_told():
    draw = negatives()
    with pytest.raises(ValueError, match="buffer_size must hold the 6 negatives of each of 1"):
        init_carry(KEY, draw, num_shards=1, buffer_size=4)
    with pytest.raises(ValueError, match=r"live.num_steps=3 must be fewer than the 3 steps"):
        learn(draw, live=LiveSteps(step_size=0.1, noise_scale=0.0, num_steps=3))
    with pytest.raises(ValueError, match=r"batch_axis must name axes that are mapped.*'data'"):
        learn(draw, batch_axis=("data", "shard"))
    with pytest.raises(ValueError, match="live chains need a replay buffer"):
        learn(draw, shard_of(draw, 0), live=LiveSteps(step_size=0.1, noise_scale=0.0))
    with pytest.raises(ValueError, match=r"start_fn must .* of shape \(2, 2, 1\); got \(3, 2, 1\)"):
        learn(negatives(start_fn=lambda key, label: jnp.zeros((3, 2, 1))))
    with pytest.raises(ValueError, match="target_acceptance must"):
        ChainKind(sampler=mala, num_steps=1, target_acceptance=1.5)
    with pytest.raises(ValueError, match=r"min_step_size must be .*got min_step_size=-1"):
        ChainKind(sampler=mala, num_steps=1, target_acceptance=0.5, min_step_size=-1.0)
    adapted = {"gd": ChainKind(sampler=gradient_descent, num_steps=1, target_acceptance=0.5)}
    with pytest.raises(ValueError, match="of kind 'gd', whose sampler accepts every move"):
        learn(negatives(num_classes=1, kinds=adapted))


@pytest.mark.slow
def test_live_chains_carry_the_gradient_of_their_last_step():
    """E of constant parameters at x - 0.2 precision (x - mean): its derivative by the precision."""

    def loss_fn(positive, negative, beta, live_energy, live_entropy):
        del beta
        return improved_contrastive_divergence_loss(
            0.0 * positive, 0.0 * negative, live_energy, live_entropy, entropy_weight=0.0
        )

    draw = negatives(num_classes=1, kinds={"sgld": ChainKind(sampler=NOISELESS, num_steps=3)})
    gradients, after, metrics, before = learn(draw, loss_fn=loss_fn, live=live())
    slots, old, new = moved(before, after)
    assert len(slots) == 6  # the references stay where they are
    np.testing.assert_allclose(new, 0.3 + 0.84**3 * (old - 0.3), atol=ATOL)
    squares = np.mean(np.sum((0.84**2 * (old - 0.3)) ** 2, axis=(1, 2, 3)))
    # E = 0.4 (1 - 0.2 p)^2 s: by p at 0.8, with the outer 0.8 held.
    assert float(gradients["precision"]) == pytest.approx(-0.4 * 0.4 * 0.84 * squares, abs=ATOL)
    assert float(metrics["live_energy"]) == pytest.approx(0.4 * 0.84**2 * squares, abs=ATOL)


@pytest.mark.slow
def test_live_chains_follow_beta_their_class_and_the_box():
    """Down (1 - beta) E of the slot's class, here by 1 - 0.2 * 0.5 * 0.8 = 0.92 a step."""
    draw = negatives()
    _, after, metrics, before = learn(
        draw,
        shard_of(draw, 20),
        loss_fn=live_loss,
        live=live(num_references=2, low=-0.6, high=0.5),
        beta_fn=lambda step: 0.5,
    )
    slots, old, new = moved(before, after)
    means = np.asarray(PARAMS["means"])[(slots >= 10).astype(int)].reshape(-1, 1, 1, 1)
    expected = np.clip(means + 0.92**3 * (old - means), -0.6, 0.5)
    np.testing.assert_allclose(new, expected, atol=ATOL)
    energies = 0.4 * np.sum((new - means) ** 2, axis=(1, 2, 3))
    assert float(metrics["live_energy"]) == pytest.approx(energies.mean(), abs=ATOL)


def test_dual_averaging_against_blackjax():
    init, update, _ = blackjax_dual_averaging(t0=10, gamma=0.05, kappa=0.75)
    theirs, ours, average = init(0.3), dual_averaging_init(0.3), np.log(0.3)
    for count, acceptance in enumerate((0.1, 0.9, 0.4, 0.57, 1.0, 0.0), 1):
        theirs = update(theirs, 0.57 - acceptance)
        ours = dual_averaging_update(ours, jnp.float32(acceptance), step_size=0.3, target=0.57)
        assert float(ours.log_step_size) == pytest.approx(float(theirs.log_x), rel=1e-4)
        # BlackJAX averages the step sizes before this one; Hoffman & Gelman, and this, with it.
        average += count**-0.75 * (float(ours.log_step_size) - average)
        assert float(ours.log_average) == pytest.approx(average, rel=1e-5)


@pytest.mark.slow
def test_a_step_size_finds_its_acceptance_in_training():
    """MALA on a Gaussian of variance 1 / 0.8 in four dimensions, from a step far too long."""
    kind = {"sampler": mala, "num_steps": 5, "target_acceptance": 0.57, "step_size": 20.0}
    draw = negatives(num_classes=1, num_samples=64, kinds={"mala": ChainKind(**kind)})
    step = jax.jit(settled(image_gradient_fn(draw)))
    carry, seen = shard_of(draw, 64), []
    for key in jax.random.split(KEY, 200):
        _, carry, metrics = step(key, PARAMS, carry, batch())
        seen.append(float(metrics["chain_acceptance_prob"]))
    # 64 chains of 4 reported steps: an error of at most 0.5 / 16 in each, averaged over 100, and
    # what dual averaging leaves: the mean error tends to 0, as 0.05 log(200) / 14 = 0.02.
    assert np.mean(seen[100:]) == pytest.approx(0.57, abs=0.05)
    assert float(metrics["chain_step_size"]) < 20.0


@pytest.mark.parametrize("num_bad", [5, 50, 500])
@pytest.mark.parametrize(("acceptance", "most"), [(1.0, 1), (0.62, 3)])
def test_a_step_size_keeps_its_floor_and_leaves_it_at_once(num_bad, acceptance, most):
    """However long nothing was accepted. Slightly better moves than wanted take it off as well."""
    options = {"step_size": 0.3, "target": 0.57, "min_step_size": 0.01}
    state, log_min = dual_averaging_init(0.3), np.log(np.float32(0.01))
    update = jax.jit(lambda state, acceptance: dual_averaging_update(state, acceptance, **options))
    for _ in range(num_bad):
        state = update(state, 0.0)
    assert float(state.log_step_size) == pytest.approx(log_min, rel=1e-6)
    for _ in range(most):
        state = update(state, acceptance)
    assert float(state.log_step_size) > log_min + 1e-3
