"""The generative objectives of a joint step, its smoothing, and objectives that are refused."""

import jax
import numpy as np
import pytest
from joint_problems import (
    ATOL,
    KEY,
    PARAMS,
    added,
    assert_trees_close,
    batch,
    buffer_rows,
    classification_gradient,
    density_gradient,
    generative_gradient,
    joint_objective,
    logits_by_hand,
    make_gradient_fn,
    negatives,
    quadratic,
    rows,
    run,
    shard_of,
    softmax_by_hand,
)

from ebmjax.losses import beta_objective_loss


def test_the_beta_objective_weighs_negatives_of_a_flatter_density():
    beta, scale = 0.4, 0.6

    def generative_loss(positive, negative, smoothing):
        return beta_objective_loss(positive / smoothing, negative / smoothing, beta=beta)

    objective = joint_objective(generative_loss=generative_loss, density_scale=scale)
    (gradients, after, metrics), before = run(objective)
    ends = buffer_rows(after)
    np.testing.assert_allclose(ends, chains_by_hand(before, 3, 0.2 * scale), atol=ATOL)

    x = rows(batch()[1].images)
    f, g = (np.log(np.exp(logits_by_hand(PARAMS, p)).sum(axis=1)) for p in (x, ends))
    negative_sum = np.exp(beta * g).sum()
    kept = negative_sum / (np.exp(beta * f) + negative_sum)  # 1 - w+, Eq. 8
    expected = added(
        classification_gradient(PARAMS),
        density_gradient(PARAMS, x, -kept / len(x)),
        density_gradient(PARAMS, ends, kept.mean() * np.exp(beta * g) / negative_sum),
    )
    assert_trees_close(gradients, expected)
    np.testing.assert_allclose(metrics["positive_weight"], 1 - kept.mean(), atol=ATOL)


def chains_by_hand(carry, num_steps, step_size):
    """Ends of chains without noise that climb f of the quadratic model, in float64."""
    x = buffer_rows(carry).astype(float)
    means = np.asarray(PARAMS["mean"], float)
    precision = np.exp(np.asarray(PARAMS["log_precision"], float))
    for _ in range(num_steps):
        share = softmax_by_hand(logits_by_hand(PARAMS, x))
        pull = precision[:, None] * (means - x[:, None])
        x = x + step_size * np.sum(share[..., None] * pull, axis=1)
    return x


def test_smoothing_divides_the_density_of_chains_and_loss():
    draw = negatives()
    carry = shard_of(quadratic(), draw, smoothing=2.5)
    (gradients, after, metrics), _ = run(None, draw, carry=carry)
    ends = buffer_rows(after)
    np.testing.assert_allclose(ends, chains_by_hand(carry, 3, 0.2 / 2.5), atol=ATOL)
    expected = added(classification_gradient(PARAMS), generative_gradient(PARAMS, ends, 1 / 2.5))
    assert_trees_close(gradients, expected)
    assert metrics["smoothing"] == after.smoothing == 2.5


@pytest.mark.slow
def test_adaptive_smoothing_closes_its_share_of_the_way_to_the_ratio():
    weights = {"classification_weight": 0.5, "generative_weight": 2.0}
    objective = joint_objective(smoothing_ratio=0.7, smoothing_rate=0.25, **weights)
    draw = negatives()
    carry = shard_of(quadratic(), draw, smoothing=1.5)
    (gradients, after, metrics), _ = run(objective, draw, carry=carry)

    def norm(tree):
        return np.sqrt(sum(np.sum(leaf**2) for leaf in tree.values()))

    ends = buffer_rows(after)
    classification = classification_gradient(PARAMS, 0.5)
    generative = generative_gradient(PARAMS, ends, 2.0 / 1.5)
    assert_trees_close(gradients, added(classification, generative))  # by the smoothing before
    ratio = norm(generative) / norm(classification)
    by_hand = np.exp(np.log(1.5) + 0.25 * np.log(ratio / 0.7))
    np.testing.assert_allclose(after.smoothing, by_hand, rtol=ATOL)
    assert metrics["smoothing"] == 1.5
    assert not np.isclose(by_hand, 1.5, rtol=0.05)

    # Chains without drift stand still, so do both gradients, and the log of the ratio's distance
    # to its goal shrinks by the factor 0.75 a step.
    still = joint_objective(smoothing_ratio=0.7, smoothing_rate=0.25, density_scale=0.0, **weights)
    gradient_fn = jax.jit(make_gradient_fn(quadratic(), draw, still))
    smoothings = [1.5]
    for _ in range(20):
        carry = gradient_fn(KEY, PARAMS, carry, batch())[1]
        smoothings.append(float(carry.smoothing))
    starts = generative_gradient(PARAMS, buffer_rows(carry), 2.0)
    goal = np.log(norm(starts) / norm(classification) / 0.7)
    by_hand = goal + (np.log(1.5) - goal) * 0.75 ** np.arange(21)
    np.testing.assert_allclose(np.log(smoothings), by_hand, atol=4 * ATOL)  # 1 / (1 - 0.75)
