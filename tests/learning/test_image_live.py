"""Live chains of an image energy: what they follow, and where their entropy is sought."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from image_problem import (
    ATOL,
    NOISELESS,
    PARAMS,
    SHAPE,
    learn,
    live,
    live_loss,
    moved,
    negatives,
    shard_of,
)

from ebmjax.learning import ChainKind
from ebmjax.losses import improved_contrastive_divergence_loss, nearest_neighbour_entropy


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
def test_the_live_entropy_is_sought_among_the_buffers_other_slots():
    """Six chains start anew; their nearest are among the six slots that they are not written to."""
    draw = negatives(
        num_classes=1, reinit_prob=1.0, start_fn=lambda key, label: jax.random.normal(key, SHAPE)
    )
    _, after, metrics, before = learn(
        draw, shard_of(draw), loss_fn=live_loss, live=live(noise_scale=0.3, num_references=6)
    )
    slots, _, ends = moved(before, after)
    others = np.delete(np.asarray(before.buffer.positions), slots, axis=0)
    assert (len(ends), len(others)) == (6, 6)
    expected = nearest_neighbour_entropy(jnp.asarray(ends), jnp.asarray(others))
    assert float(metrics["live_entropy"]) == pytest.approx(float(expected), abs=ATOL)


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
