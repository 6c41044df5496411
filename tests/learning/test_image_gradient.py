"""The learning gradient of an image energy and its chains, against closed forms."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from image_problem import (
    ATOL,
    KEY,
    NOISELESS,
    PARAMS,
    SHAPE,
    batch,
    cd_loss,
    energy_of,
    learn,
    live,
    live_loss,
    moved,
    negatives,
    shard_of,
)

from ebmjax.data import to_signed_unit
from ebmjax.learning import ChainKind, LiveSteps, init_carry
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
    for name in ("num_steps", "num_references"):
        with pytest.raises(ValueError, match=f"{name} must be an integer of at least 1, got"):
            LiveSteps(step_size=0.1, noise_scale=0.0, **{name: 0})
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
