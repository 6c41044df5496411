"""Normalisation statistics in a joint step: whose each role uses, and which are remembered."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from joint_problems import (
    ATOL,
    DIM,
    KEY,
    ONE_HOT,
    PARAMS,
    SHAPE,
    added,
    assert_trees_close,
    batch,
    buffer_rows,
    centred,
    density_gradient,
    gradient_by_hand,
    joint_objective,
    logits_by_hand,
    make_gradient_fn,
    negatives,
    rows,
    run,
    shard_of,
    softmax_by_hand,
)

from ebmjax.learning import init_carry
from ebmjax.networks import SADA_JEM_POLICY, NormPolicy

CLASSIFIED, POSITIVES = (rows(part.images).mean(axis=0) for part in batch())
START = 0.05


def updated(start, *centres):
    for centre in centres:
        start = 0.1 * start + 0.9 * centre
    return start


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "rho", "order"),
    [
        (None, None, ["positives", "classified"]),
        (None, 0.2, ["positives", "classified"]),
        (NormPolicy(updated_by=("negatives",)), 0.2, ["negatives"]),
        (SADA_JEM_POLICY, 0.2, ["positives", "chains", "negatives", "classified"]),
    ],
    ids=["default", "default_sam", "negatives_sam", "sada_jem"],
)
def test_statistics_are_updated_once_a_step_by_the_roles_of_the_policy(policy, rho, order):
    (_, after, _), _ = run(joint_objective(rho=rho), classifier=centred(), norm_policy=policy)
    ends = buffer_rows(after).mean(axis=0)
    centres = {"positives": POSITIVES, "classified": CLASSIFIED, "negatives": ends, "chains": ends}
    expected = updated(START, *[centres[role] for role in order])
    got = np.ravel(after.statistics["centre"])
    np.testing.assert_allclose(got, expected + np.zeros(DIM), atol=ATOL)


def test_a_plain_classifier_updates_its_statistics_by_the_labelled_images():
    statistics = centred().init(KEY, None)[1]
    shards = init_carry(KEY, None, num_shards=1, statistics=statistics, smoothing=1.0)
    carry = jax.tree.map(lambda leaf: leaf[0], shards)
    alone = joint_objective(loss=None)
    step = jax.jit(make_gradient_fn(centred(), None, alone))
    _, after, _ = step(KEY, PARAMS, carry, batch())
    got = np.ravel(after.statistics["centre"])
    np.testing.assert_allclose(got, updated(START, CLASSIFIED), atol=ATOL)


CASES = [
    NormPolicy(),
    NormPolicy(chains="running"),
    NormPolicy(negatives="running"),
    NormPolicy(positives="running", updated_by=("classified",)),
    NormPolicy(second_pass="running"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", CASES, ids=["batch", "chains", "negatives", "positives", "second_pass"]
)
def test_each_role_is_normalised_as_the_policy_says(policy):
    """Running averages are those the step began with, in both passes of SAM."""
    objective = joint_objective(rho=0.2)
    (gradients, after, _), _ = run(objective, classifier=centred(), norm_policy=policy)
    ends = buffer_rows(after).astype(float)
    labelled, unlabelled = batch()

    def shown(x, role, second_pass):
        use = policy.use(role, second_pass=second_pass)
        return x - (x.mean(axis=0) if use == "batch" else START)

    def total(params, second_pass):
        x = shown(rows(labelled.images), "classified", second_pass)
        error = softmax_by_hand(logits_by_hand(params, x)) - ONE_HOT[np.asarray(labelled.labels)]
        positives = shown(rows(unlabelled.images), "positives", second_pass)
        chain_ends = shown(ends, "negatives", second_pass)
        return added(
            gradient_by_hand(params, x, error / len(x)),
            density_gradient(params, positives, np.full(5, -1 / 5)),
            density_gradient(params, chain_ends, np.full(8, 1 / 8)),
        )

    params = {name: np.asarray(leaf, float) for name, leaf in PARAMS.items()}
    climb = total(params, False)
    norm = np.sqrt(sum(np.sum(leaf**2) for leaf in climb.values()))
    displaced = {name: params[name] + 0.2 * climb[name] / norm for name in params}
    assert_trees_close(gradients, total(displaced, True))


def perturbed(chains):
    """Moves of the chains' ends when one start moves: that chain's first, then the others'."""
    classifier, draw = centred(), negatives()
    carry = shard_of(classifier, draw)
    moved = carry.buffer.positions.at[2].add(0.5)
    other = carry._replace(buffer=carry.buffer._replace(positions=moved))
    gradient_fn = jax.jit(make_gradient_fn(classifier, draw, norm_policy=NormPolicy(chains=chains)))
    ends = [buffer_rows(gradient_fn(KEY, PARAMS, s, batch())[1]) for s in (carry, other)]
    distances = np.abs(ends[0] - ends[1]).max(axis=1)
    return distances[2], np.delete(distances, 2)


@pytest.mark.slow
def test_chains_see_each_other_by_their_batch_alone():
    own, others = zip(*map(perturbed, ("running", "batch")), strict=True)
    assert min(own) > 0.1
    assert np.all(others[0] == 0)
    assert np.all(others[1] > 1e-3)


def test_chains_normalised_by_their_batch_climb_the_density_of_all():
    draw = negatives()
    carry = shard_of(centred(), draw)
    (_, after, _), _ = run(classifier=centred(), norm_policy=NormPolicy(chains="batch"))
    x = carry.buffer.positions

    @jax.jit
    @jax.grad
    def score(x):
        logits = centred().apply(PARAMS, {"centre": jnp.zeros(SHAPE)}, x, use="batch")[0]
        return jnp.sum(jax.nn.logsumexp(logits, axis=-1))

    for _ in range(3):
        x = x + 0.2 * score(x)
    np.testing.assert_allclose(after.buffer.positions, x, atol=ATOL)
