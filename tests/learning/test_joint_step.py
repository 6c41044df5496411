"""The step of a joint energy model against closed forms in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from joint_problems import (
    ATOL,
    DIM,
    KEY,
    NUM_CLASSES,
    ONE_HOT,
    PARAMS,
    SHAPE,
    added,
    assert_trees_close,
    batch,
    buffer_rows,
    centred,
    class_start,
    classification_gradient,
    density_gradient,
    generative_gradient,
    gradient_by_hand,
    image_data,
    joint_objective,
    logits_by_hand,
    make_gradient_fn,
    negatives,
    plain_run,
    quadratic,
    rows,
    run,
    shard_of,
    softmax_by_hand,
)

from ebmjax.learning import init_carry
from ebmjax.losses import beta_objective_loss
from ebmjax.networks import SADA_JEM_POLICY, Network, NormPolicy
from ebmjax.samplers import pyld


def test_the_gradient_is_that_of_both_terms_at_negatives_held_fixed():
    (gradients, after, metrics), before = plain_run()
    ends = buffer_rows(after)  # every slot was drawn
    assert np.all(np.abs(ends - buffer_rows(before)).max(axis=1) > 0.01)
    generative = generative_gradient(PARAMS, ends)
    assert_trees_close(gradients, added(classification_gradient(PARAMS), generative))

    x, positives = rows(batch()[0].images), rows(batch()[1].images)
    logits = logits_by_hand(PARAMS, x)
    log_norm = np.log(np.exp(logits).sum(axis=1))
    cross_entropy = np.mean(log_norm - logits[np.arange(len(x)), batch()[0].labels])
    f_positive, f_negative = (log_density(points) for points in (positives, ends))
    expected = {
        "loss": cross_entropy - f_positive.mean() + f_negative.mean(),
        "cross_entropy": cross_entropy,
        "energy_gap": f_positive.mean() - f_negative.mean(),
        # In place: a chain ends in the slot it started from.
        "chain_displacement": np.mean((ends - buffer_rows(before)) ** 2),
        "smoothing": 1.0,
    }
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=0, atol=ATOL, err_msg=name)


@pytest.mark.parametrize("weights", [(0.3, 1.7), (0.0, 1.0), (2.0, 0.0)])
def test_the_terms_have_weights(weights):
    objective = joint_objective(classification_weight=weights[0], generative_weight=weights[1])
    (gradients, after, metrics), _ = run(objective)
    generative = generative_gradient(PARAMS, buffer_rows(after), weights[1])
    expected = added(classification_gradient(PARAMS, weights[0]), generative)
    assert_trees_close(gradients, expected)
    total = weights[0] * metrics["cross_entropy"] - weights[1] * metrics["energy_gap"]
    np.testing.assert_allclose(metrics["loss"], total, atol=ATOL)


def test_class_conditional_densities_are_logits_of_labels():
    draw = negatives(num_classes=NUM_CLASSES, start_fn=class_start)
    carry = shard_of(quadratic(), draw, buffer_size=8 * NUM_CLASSES)
    (gradients, after, _), _ = run(joint_objective(is_conditional=True), draw, carry=carry)

    moved = np.any(buffer_rows(after) != buffer_rows(carry), axis=1)
    ends, labels = buffer_rows(after)[moved], np.flatnonzero(moved) // 8
    assert len(ends) == 8
    unlabelled = batch()[1]
    x = rows(unlabelled.images)
    expected = added(
        classification_gradient(PARAMS),
        gradient_by_hand(PARAMS, x, -ONE_HOT[np.asarray(unlabelled.labels)] / len(x)),
        gradient_by_hand(PARAMS, ends, ONE_HOT[labels] / 8),
    )
    assert_trees_close(gradients, expected)

    # Its chains follow the Gaussian of their class: each step shrinks the way to the mean.
    means = np.asarray(PARAMS["mean"], float)
    shrink = (1 - 0.2 * np.exp(np.asarray(PARAMS["log_precision"], float))) ** 3
    starts = 0.1 * (1.0 + labels)[:, None] * np.ones(DIM)
    by_hand = means[labels] + shrink[labels, None] * (starts - means[labels])
    np.testing.assert_allclose(ends, by_hand, atol=ATOL)
    assert len(set(labels.tolist())) > 1


@pytest.mark.parametrize(("is_adaptive", "rho"), [(False, 0.3), (True, 0.3)])
def test_sam_climbs_on_the_negatives_it_comes_down_on(is_adaptive, rho):
    (gradients, after, metrics), _ = run(joint_objective(rho=rho, is_adaptive=is_adaptive))
    (first, plain_after, plain_metrics), _ = plain_run()
    ends = buffer_rows(after)
    np.testing.assert_allclose(ends, buffer_rows(plain_after), atol=ATOL)  # by another program
    np.testing.assert_allclose(metrics["loss"], plain_metrics["loss"], atol=ATOL)

    def total(params):
        return added(classification_gradient(params), generative_gradient(params, ends))

    params = {name: np.asarray(leaf, float) for name, leaf in PARAMS.items()}
    size = {n: np.abs(p) if is_adaptive else np.ones_like(p) for n, p in params.items()}
    climb = {name: size[name] * g for name, g in total(params).items()}
    norm = np.sqrt(sum(np.sum(leaf**2) for leaf in climb.values()))
    displaced = {n: params[n] + rho * size[n] * climb[n] / norm for n in params}
    assert_trees_close(gradients, total(displaced))
    assert optax.tree.norm(optax.tree.sub(gradients, first)) > 100 * ATOL


def test_a_plain_classifier_draws_nothing():
    shards = init_carry(KEY, None, num_shards=2, smoothing=1.0)
    assert jax.tree.leaves(shards.buffer) == []
    assert shards.smoothing.shape == (2,)
    carry = jax.tree.map(lambda leaf: leaf[0], shards)
    gradient_fn = jax.jit(make_gradient_fn(quadratic(), None, joint_objective(loss=None)))
    gradients, after, metrics = gradient_fn(KEY, PARAMS, carry, batch())
    assert_trees_close(gradients, classification_gradient(PARAMS))
    assert jax.tree.structure(after) == jax.tree.structure(carry)
    assert set(metrics) == {"loss", "cross_entropy", "accuracy", "smoothing"}


def test_every_role_has_its_view_and_views_their_keys():
    """A classifier whose statistics are the mean of each of the last four batches it saw."""
    traced = []

    def view(name):
        def shown(key, images):
            traced.append((name, images.shape))
            return jnp.full(images.shape, jax.random.uniform(key))

        return shown

    def logits(params, statistics, images, *, use="running", batch_axis=None):
        out = quadratic().apply(params, {}, images)[0]
        seen = jnp.append(statistics["seen"][1:], jnp.mean(images)) if use == "batch" else 0
        return out, {"seen": seen} if use == "batch" else statistics

    classifier = Network(lambda key, images: (PARAMS, {"seen": jnp.zeros(4)}), logits)
    options = {"classified_view": view("classified"), "positive_view": view("positives")}
    (_, after, _), _ = run(joint_objective(rho=0.1), classifier=classifier, **options)
    assert traced == [("classified", (6, *SHAPE)), ("positives", (5, *SHAPE))]
    seen = after.statistics["seen"].tolist()
    assert seen[:2] == [0, 0]
    assert len(set(seen)) == 3


@pytest.mark.slow
def test_a_density_in_two_parts_is_the_same_density():
    """PYLD with one inner move is SGLD, here through a first layer that doubles its input."""

    def in_two_parts(density):
        assert density.first_layer is not None
        return pyld(density.first_layer, density.head, step_size=0.2, num_inner=1, noise_scale=0.0)

    whole = quadratic()
    split = whole._replace(
        first_layer=lambda params, images: 2 * images,
        head=lambda params, statistics, hidden, **use: whole.apply(params, statistics, hidden / 2),
    )
    objective = joint_objective(is_conditional=True, density_scale=0.7)
    options = {"num_classes": NUM_CLASSES}
    ends = []
    for classifier, draw in (
        (whole, negatives(**options)),
        (split, negatives(sampler=in_two_parts, **options)),
    ):
        carry = shard_of(classifier, draw, buffer_size=24, smoothing=1.3)
        (_, after, _), _ = run(objective, draw, classifier=classifier, carry=carry)
        ends.append(buffer_rows(after))
    np.testing.assert_allclose(ends[1], ends[0], rtol=0, atol=ATOL)
    assert np.abs(ends[0] - buffer_rows(carry)).max() > 0.1


@pytest.mark.slow
def test_chains_may_have_a_network_of_their_own():
    """A chain network whose logits are doubled doubles every step of the conditional chains."""

    def logits(params, statistics, images, **use):
        return 2 * quadratic().apply(params, statistics, images)[0], statistics

    doubled = quadratic()._replace(apply=logits)
    draw = negatives(num_classes=NUM_CLASSES)
    carry = shard_of(quadratic(), draw, buffer_size=24)
    objective = joint_objective(is_conditional=True)
    (gradients, after, _), _ = run(objective, draw, carry=carry, chain_classifier=doubled)
    twice = joint_objective(is_conditional=True, density_scale=2.0)
    (expected, expected_after, _), _ = run(twice, draw, carry=carry)
    assert_trees_close(after.buffer, expected_after.buffer)
    assert_trees_close(gradients, expected)  # the loss keeps the network that trains


@pytest.mark.parametrize("num_classes", [1, 2, 6])
def test_conditional_chains_need_the_networks_classes(num_classes):
    draw = negatives(num_classes=num_classes)
    carry = shard_of(quadratic(), draw, buffer_size=48)
    gradient_fn = make_gradient_fn(quadratic(), draw, joint_objective(is_conditional=True))
    with pytest.raises(ValueError, match="num_classes must be the network's 3"):
        gradient_fn.check_data(PARAMS, carry, image_data())


def test_conditional_chains_are_put_back_in_place():
    draw = negatives(num_classes=NUM_CLASSES, replacement="argmax")
    gradient_fn = make_gradient_fn(quadratic(), draw, joint_objective(is_conditional=True))
    carry = shard_of(quadratic(), draw, buffer_size=48)
    with pytest.raises(ValueError, match="replacement='argmax' reorders samples"):
        jax.eval_shape(gradient_fn, KEY, PARAMS, carry, batch())


@pytest.mark.parametrize("draw", [negatives(), None])
def test_a_batch_is_a_pair_of_streams(draw):
    """``ImageData`` is a tuple of two arrays, and so is its pair."""
    gradient_fn = make_gradient_fn(quadratic(), draw)
    for wrong in (batch()[0], (*batch(), batch()[0])):
        with pytest.raises(ValueError, match=r"must be a pair of ImageData.*Plan.batch_size"):
            gradient_fn(KEY, PARAMS, shard_of(quadratic(), draw), wrong)


def test_the_beta_objective_weighs_negatives_of_a_flatter_density():
    beta, scale = 0.4, 0.6

    def generative_loss(positive, negative, smoothing):
        return beta_objective_loss(positive / smoothing, negative / smoothing, beta=beta)

    objective = joint_objective(generative_loss=generative_loss, density_scale=scale)
    (gradients, after, metrics), before = run(objective)
    ends = buffer_rows(after)
    np.testing.assert_allclose(ends, chains_by_hand(before, 3, 0.2 * scale), atol=ATOL)

    x = rows(batch()[1].images)
    f, g = (log_density(p) for p in (x, ends))
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
        (None, 0.2, ["positives", "classified"]),
        (NormPolicy(updated_by=("negatives",)), 0.2, ["negatives"]),
        (SADA_JEM_POLICY, 0.2, ["positives", "chains", "negatives", "classified"]),
    ],
    ids=["default_sam", "negatives_sam", "sada_jem"],
)
def test_statistics_are_updated_once_a_step_by_the_roles_of_the_policy(policy, rho, order):
    (_, after, _), _ = run(joint_objective(rho=rho), classifier=centred(), norm_policy=policy)
    ends = buffer_rows(after).mean(axis=0)
    centres = {"positives": POSITIVES, "classified": CLASSIFIED, "negatives": ends, "chains": ends}
    expected = updated(START, *[centres[role] for role in order])
    got = np.ravel(after.statistics["centre"])
    np.testing.assert_allclose(got, expected + np.zeros(DIM), atol=ATOL)


CASES = [
    NormPolicy(),
    NormPolicy(chains="running"),
    NormPolicy(negatives="running"),
    NormPolicy(positives="running", updated_by=("classified",)),
]


@pytest.mark.slow
@pytest.mark.parametrize("policy", CASES, ids=["batch", "chains", "negatives", "positives"])
def test_each_role_is_normalised_as_the_policy_says(policy):
    """Running averages are those the step began with, in both passes of SAM."""
    objective = joint_objective(rho=0.2)
    (gradients, after, _), _ = run(objective, classifier=centred(), norm_policy=policy)
    ends = buffer_rows(after).astype(float)
    labelled, unlabelled = batch()

    def shown(x, role):
        use = getattr(policy, role)
        return x - (x.mean(axis=0) if use == "batch" else START)

    def total(params):
        x = shown(rows(labelled.images), "classified")
        error = softmax_by_hand(logits_by_hand(params, x)) - ONE_HOT[np.asarray(labelled.labels)]
        positives = shown(rows(unlabelled.images), "positives")
        chain_ends = shown(ends, "negatives")
        return added(
            gradient_by_hand(params, x, error / len(x)),
            density_gradient(params, positives, np.full(5, -1 / 5)),
            density_gradient(params, chain_ends, np.full(8, 1 / 8)),
        )

    params = {name: np.asarray(leaf, float) for name, leaf in PARAMS.items()}
    climb = total(params)
    norm = np.sqrt(sum(np.sum(leaf**2) for leaf in climb.values()))
    displaced = {name: params[name] + 0.2 * climb[name] / norm for name in params}
    assert_trees_close(gradients, total(displaced))


@pytest.mark.parametrize("use", ["batch", "running"])
def test_chains_climb_the_density_of_their_batch_or_each_its_own(use):
    draw = negatives()
    carry = shard_of(centred(), draw)
    (_, after, _), _ = run(classifier=centred(), norm_policy=NormPolicy(chains=use))
    x = carry.buffer.positions

    @jax.jit
    @jax.grad
    def score(x):
        logits = centred().apply(PARAMS, {"centre": jnp.full(SHAPE, START)}, x, use=use)[0]
        return jnp.sum(jax.nn.logsumexp(logits, axis=-1))

    for _ in range(3):
        x = x + 0.2 * score(x)
    np.testing.assert_allclose(after.buffer.positions, x, atol=ATOL)


@pytest.mark.slow
def test_the_buffer_keeps_as_many_as_asked_by_the_policy():
    def step(**options):
        (_, after, _), before = run(None, negatives(**options))
        return buffer_rows(before), buffer_rows(after)

    start, ends = step()
    by_density = ends[np.argsort(log_density(ends))]
    kept = {}
    for replacement in ("argmax", "softmax", "in_place"):
        before, after = step(replacement=replacement, num_kept=3)
        np.testing.assert_array_equal(before, start)
        slots = np.flatnonzero(np.any(before != after, axis=1))
        kept[replacement] = set(map(tuple, after[slots]))
        assert len(slots) == len(kept[replacement]) == 3
        assert kept[replacement] <= set(map(tuple, ends))  # the policy moves no chain
        if replacement == "in_place":
            np.testing.assert_array_equal(after[slots], ends[slots])
    assert kept["argmax"] == set(map(tuple, by_density[-3:]))
    assert kept["softmax"] != kept["argmax"]


def log_density(x):
    return np.log(np.exp(logits_by_hand(PARAMS, x)).sum(axis=1))


def test_without_a_buffer_every_chain_starts_anew():
    """Chains at rest return the law's draws, here one start a class."""
    draw = negatives(num_classes=NUM_CLASSES, start_fn=class_start)
    seen = []

    def loss(positive, negative, smoothing):
        jax.debug.callback(seen.append, negative)
        return jnp.mean(negative - jnp.mean(positive)) / smoothing, {}

    objective = joint_objective(generative_loss=loss, density_scale=0.0)
    (_, after, _), _ = run(objective, draw, carry=shard_of(quadratic(), draw, buffer_size=0))
    jax.effects_barrier()
    assert after.buffer == ()
    starts = np.stack([np.ravel(class_start(None, label)) for label in range(NUM_CLASSES)])
    distances = np.abs(np.asarray(seen[0])[:, None] - log_density(starts))
    assert np.all(distances.min(axis=1) < ATOL)
    assert len(set(distances.argmin(axis=1).tolist())) > 1
