"""The learning gradient of a joint energy model against closed forms in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from joint_problems import (
    DIM,
    EPS,
    NUM_CLASSES,
    SHAPE,
    batch,
    buffer_rows,
    cd_loss,
    centred,
    class_law,
    gradient_by_hand,
    joint_objective,
    logits_by_hand,
    make_gradient_fn,
    negatives,
    quadratic,
    quadratic_params,
    rows,
    shard_of,
    softmax_by_hand,
)

from ebmjax.losses import beta_objective_loss, nearest_neighbour_entropy, svgd_generative_loss
from ebmjax.networks import SADA_JEM_POLICY, Classifier, NormPolicy
from ebmjax.samplers import pyld, svgd
from ebmjax.training import init_joint_shards

KEY = jax.random.key(2)
PARAMS = quadratic_params()
ONE_HOT = np.eye(NUM_CLASSES)
# Entries below 10 (images within 1, means within 2, precisions below 2, biases below 2), through
# about 50 float32 operations, sums of up to 8 x 4 terms included, each off by one rounding.
ATOL = 50 * 10 * EPS


def run(objective=None, draw=None, *, classifier=None, shard=None, params=PARAMS, **options):
    """(gradients, shard, metrics), and the shard the step started from."""
    classifier = classifier or quadratic()
    draw = draw or negatives()
    shard = shard or shard_of(classifier, draw)
    gradient_fn = jax.jit(make_gradient_fn(classifier, draw, objective, **options))
    return gradient_fn(KEY, params, shard, batch()), shard


def assert_trees_close(got, expected, atol=ATOL):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=atol), got, expected)


def added(*trees):
    return jax.tree.map(lambda *leaves: sum(leaves), *trees)


def classification_gradient(params, weight=1.0):
    labelled, _ = batch()
    x = rows(labelled.images)
    weights = softmax_by_hand(logits_by_hand(params, x)) - ONE_HOT[np.asarray(labelled.labels)]
    return gradient_by_hand(params, x, weight * weights / len(x))


def density_gradient(params, x, weights):
    """Of the weighted sum of f(x)."""
    share = softmax_by_hand(logits_by_hand(params, x))
    return gradient_by_hand(params, x, np.asarray(weights)[:, None] * share)


def generative_gradient(params, ends, weight=1.0):
    """Of contrastive divergence with the ends of the chains held fixed."""
    x = rows(batch()[1].images)
    return added(
        density_gradient(params, x, np.full(len(x), -weight / len(x))),
        density_gradient(params, ends, np.full(len(ends), weight / len(ends))),
    )


def test_the_gradient_is_that_of_both_terms_at_negatives_held_fixed():
    (gradients, after, metrics), before = run()
    ends = buffer_rows(after)  # every slot was drawn
    assert np.all(np.abs(ends - buffer_rows(before)).max(axis=1) > 0.01)
    generative = generative_gradient(PARAMS, ends)
    assert_trees_close(gradients, added(classification_gradient(PARAMS), generative))

    x, positives = rows(batch()[0].images), rows(batch()[1].images)
    logits = logits_by_hand(PARAMS, x)
    log_norm = np.log(np.exp(logits).sum(axis=1))
    cross_entropy = np.mean(log_norm - logits[np.arange(len(x)), batch()[0].labels])
    f_positive, f_negative = (
        np.log(np.exp(logits_by_hand(PARAMS, points)).sum(axis=1)) for points in (positives, ends)
    )
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


def test_the_reported_loss_is_the_one_differentiated():
    def generative_loss(positive, negative, smoothing):
        return cd_loss(positive, negative, smoothing)[0], {"loss": jnp.float32(7.0)}

    plain = run()[0][2]["loss"]
    assert float(run(joint_objective(generative_loss=generative_loss))[0][2]["loss"]) == plain


def test_class_conditional_densities_are_logits_of_labels():
    draw = negatives(num_classes=NUM_CLASSES, law=class_law)
    shard = shard_of(quadratic(), draw, buffer_size=8 * NUM_CLASSES)
    (gradients, after, _), _ = run(joint_objective(is_conditional=True), draw, shard=shard)

    moved = np.any(buffer_rows(after) != buffer_rows(shard), axis=1)
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
    (first, plain_after, plain_metrics), _ = run()
    ends = buffer_rows(after)
    np.testing.assert_array_equal(ends, buffer_rows(plain_after))
    assert metrics["loss"] == plain_metrics["loss"]

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
    shards = init_joint_shards(KEY, {}, None, num_shards=2, buffer_size=0)
    assert jax.tree.leaves(shards.buffer) == []
    assert shards.smoothing.shape == (2,)
    shard = jax.tree.map(lambda leaf: leaf[0], shards)
    gradient_fn = jax.jit(make_gradient_fn(quadratic(), None))
    gradients, after, metrics = gradient_fn(KEY, PARAMS, shard, batch())
    assert_trees_close(gradients, classification_gradient(PARAMS))
    assert jax.tree.structure(after) == jax.tree.structure(shard)
    assert set(metrics) == {"loss", "cross_entropy", "accuracy"}
    # No random bits but those of the views, and these draw none.
    assert "random" not in str(jax.make_jaxpr(gradient_fn)(KEY, PARAMS, shard, batch()))


def test_the_beta_objective_weighs_negatives_of_a_flatter_density():
    beta, scale = 0.4, 0.6

    def generative_loss(positive, negative, smoothing):
        return beta_objective_loss(positive / smoothing, negative / smoothing, beta=beta)

    draw = negatives(density_scale=scale)
    objective = joint_objective(generative_loss=generative_loss)
    (gradients, after, metrics), before = run(objective, draw)
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


def chains_by_hand(shard, num_steps, step_size):
    """Ends of chains without noise that climb f of the quadratic model, in float64."""
    x = buffer_rows(shard).astype(float)
    means = np.asarray(PARAMS["mean"], float)
    precision = np.exp(np.asarray(PARAMS["log_precision"], float))
    for _ in range(num_steps):
        share = softmax_by_hand(logits_by_hand(PARAMS, x))
        pull = precision[:, None] * (means - x[:, None])
        x = x + step_size * np.sum(share[..., None] * pull, axis=1)
    return x


def test_smoothing_divides_the_density_of_chains_and_loss():
    draw = negatives()
    shard = shard_of(quadratic(), draw, smoothing=2.5)
    (gradients, after, metrics), _ = run(None, draw, shard=shard)
    ends = buffer_rows(after)
    np.testing.assert_allclose(ends, chains_by_hand(shard, 3, 0.2 / 2.5), atol=ATOL)
    expected = added(classification_gradient(PARAMS), generative_gradient(PARAMS, ends, 1 / 2.5))
    assert_trees_close(gradients, expected)
    assert metrics["smoothing"] == after.smoothing == 2.5


def test_adaptive_smoothing_closes_its_share_of_the_way_to_the_ratio():
    weights = {"classification_weight": 0.5, "generative_weight": 2.0}
    objective = joint_objective(smoothing_ratio=0.7, smoothing_rate=0.25, **weights)
    draw = negatives()
    shard = shard_of(quadratic(), draw, smoothing=1.5)
    (gradients, after, metrics), _ = run(objective, draw, shard=shard)

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
    still = negatives(density_scale=0.0)
    gradient_fn = jax.jit(make_gradient_fn(quadratic(), still, objective))
    smoothings = [1.5]
    for _ in range(20):
        shard = gradient_fn(KEY, PARAMS, shard, batch())[1]
        smoothings.append(float(shard.smoothing))
    starts = generative_gradient(PARAMS, buffer_rows(shard), 2.0)
    goal = np.log(norm(starts) / norm(classification) / 0.7)
    by_hand = goal + (np.log(1.5) - goal) * 0.75 ** np.arange(21)
    np.testing.assert_allclose(np.log(smoothings), by_hand, atol=4 * ATOL)  # 1 / (1 - 0.75)


@pytest.mark.parametrize("variant", ["corrected", "literal"])
def test_the_literal_svgd_loss_has_no_negative_phase(variant):
    def generative_loss(positive, negative, smoothing):
        return svgd_generative_loss(positive, negative, smoothing=smoothing, variant=variant)

    draw = negatives(sampler=lambda density: svgd(density, step_size=1.0), is_interacting=True)
    shard = shard_of(quadratic(), draw, smoothing=2.0)
    objective = joint_objective(generative_loss=generative_loss)
    (gradients, after, metrics), _ = run(objective, draw, shard=shard)
    x, ends = rows(batch()[1].images), buffer_rows(after)
    parts = [
        classification_gradient(PARAMS),
        density_gradient(PARAMS, x, np.full(len(x), -0.5 / len(x))),
    ]
    if variant == "corrected":
        parts.append(density_gradient(PARAMS, ends, np.full(8, 0.5 / 8)))
    assert_trees_close(gradients, added(*parts))
    entropy = nearest_neighbour_entropy(after.buffer.positions)
    np.testing.assert_allclose(metrics["negative_entropy"], entropy, rtol=10 * EPS)
    assert metrics["chain_bandwidth"] > 0


def test_every_role_has_its_view_and_views_their_keys():
    """A classifier whose statistics are the mean of each of the last four batches it saw."""
    traced = []

    def view(name):
        def shown(key, images):
            traced.append((name, images.shape))
            return jnp.full(images.shape, jax.random.uniform(key))

        return shown

    def logits(params, statistics, images, *, use="running", batch_axis=None):
        out = quadratic().logits(params, {}, images)[0]
        seen = jnp.append(statistics["seen"][1:], jnp.mean(images)) if use == "batch" else 0
        return out, {"seen": seen} if use == "batch" else statistics

    classifier = Classifier(lambda key, images: (PARAMS, {"seen": jnp.zeros(4)}), logits)
    options = {"classified_view": view("classified"), "positive_view": view("positives")}
    (_, after, _), _ = run(joint_objective(rho=0.1), classifier=classifier, **options)
    assert traced == [("classified", (6, *SHAPE)), ("positives", (5, *SHAPE))]
    seen = after.statistics["seen"].tolist()
    assert seen[:2] == [0, 0]
    assert len(set(seen)) == 3


def test_one_pass_for_all_roles_is_the_passes_role_by_role():
    one_by_one = quadratic({"unused": jnp.zeros(())})
    (together, together_after, metrics), _ = run()
    (apart, apart_after, apart_metrics), _ = run(classifier=one_by_one)
    assert_trees_close(together, apart)
    assert_trees_close(together_after.buffer, apart_after.buffer)
    assert_trees_close(metrics, apart_metrics)


CLASSIFIED, POSITIVES = (rows(part.images).mean(axis=0) for part in batch())
START = 0.05


def updated(start, *centres):
    for centre in centres:
        start = 0.1 * start + 0.9 * centre
    return start


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
    shards = init_joint_shards(KEY, centred().init(KEY, None)[1], None, num_shards=1, buffer_size=0)
    shard = jax.tree.map(lambda leaf: leaf[0], shards)
    _, after, _ = jax.jit(make_gradient_fn(centred(), None))(KEY, PARAMS, shard, batch())
    got = np.ravel(after.statistics["centre"])
    np.testing.assert_allclose(got, updated(START, CLASSIFIED), atol=ATOL)


CASES = [
    NormPolicy(),
    NormPolicy(negatives="running"),
    NormPolicy(positives="running", updated_by=("classified",)),
    NormPolicy(second_pass="running"),
]


@pytest.mark.parametrize("policy", CASES, ids=["batch", "negatives", "positives", "second_pass"])
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
    """How far each chain's end moves when one start does, that one's in the first place."""
    classifier, draw = centred(), negatives()
    shard = shard_of(classifier, draw)
    moved = shard.buffer.positions.at[2].add(0.5)
    other = shard._replace(buffer=shard.buffer._replace(positions=moved))
    gradient_fn = jax.jit(make_gradient_fn(classifier, draw, norm_policy=NormPolicy(chains=chains)))
    ends = [buffer_rows(gradient_fn(KEY, PARAMS, s, batch())[1]) for s in (shard, other)]
    distances = np.abs(ends[0] - ends[1]).max(axis=1)
    return distances[2], np.delete(distances, 2)


def test_chains_under_running_averages_do_not_see_each_other():
    own, others = perturbed("running")
    assert own > 0.1
    assert np.all(others == 0)


def test_chains_normalised_by_their_batch_do():
    own, others = perturbed("batch")
    assert own > 0.1
    assert np.all(others > 1e-3)


def test_chains_normalised_by_their_batch_climb_the_density_of_all():
    draw = negatives()
    shard = shard_of(centred(), draw)
    (_, after, _), _ = run(classifier=centred(), norm_policy=NormPolicy(chains="batch"))
    x = shard.buffer.positions

    def total(x):
        logits = centred().logits(PARAMS, {"centre": jnp.zeros(SHAPE)}, x, use="batch")[0]
        return jnp.sum(jax.nn.logsumexp(logits, axis=-1))

    for _ in range(3):
        x = x + 0.2 * jax.grad(total)(x)
    np.testing.assert_allclose(after.buffer.positions, x, atol=ATOL)


def test_a_density_in_two_parts_is_the_same_density():
    """PYLD with one inner move is SGLD, here through a first layer that doubles its input."""

    def in_two_parts(density):
        assert density.first_layer is not None
        return pyld(density.first_layer, density.head, step_size=0.2, num_inner=1, noise_scale=0.0)

    whole = quadratic()
    split = whole._replace(
        first_layer=lambda params, images: 2 * images,
        head=lambda params, statistics, hidden, **use: whole.logits(params, statistics, hidden / 2),
    )
    objective = joint_objective(is_conditional=True)
    options = {"num_classes": NUM_CLASSES, "density_scale": 0.7}
    ends = []
    for classifier, draw in (
        (whole, negatives(**options)),
        (split, negatives(sampler=in_two_parts, **options)),
    ):
        shard = shard_of(classifier, draw, buffer_size=24, smoothing=1.3)
        (_, after, _), _ = run(objective, draw, classifier=classifier, shard=shard)
        ends.append(buffer_rows(after))
    np.testing.assert_allclose(ends[1], ends[0], rtol=0, atol=ATOL)
    assert np.abs(ends[0] - buffer_rows(shard)).max() > 0.1


def test_chains_may_have_a_network_of_their_own():
    """A chain network whose logits are doubled doubles every step of the conditional chains."""

    def logits(params, statistics, images, **use):
        return 2 * quadratic().logits(params, statistics, images)[0], statistics

    doubled = quadratic()._replace(logits=logits)
    options = {"num_classes": NUM_CLASSES}
    draw, twice = negatives(**options), negatives(density_scale=2.0, **options)
    shard = shard_of(quadratic(), draw, buffer_size=24)
    objective = joint_objective(is_conditional=True)
    (gradients, after, _), _ = run(objective, draw, shard=shard, chain_classifier=doubled)
    (expected, expected_after, _), _ = run(objective, twice, shard=shard)
    assert_trees_close(after.buffer, expected_after.buffer)
    assert_trees_close(gradients, expected)  # the loss keeps the network that trains


@pytest.mark.parametrize("has_statistics", [True, False])
def test_interacting_chains_that_the_batch_couples_are_refused(has_statistics):
    draw = negatives(sampler=lambda density: svgd(density, step_size=1.0), is_interacting=True)
    classifier = centred() if has_statistics else quadratic()
    gradient_fn = make_gradient_fn(classifier, draw, norm_policy=SADA_JEM_POLICY)
    arguments = (KEY, PARAMS, shard_of(classifier, draw), batch())
    if has_statistics:
        with pytest.raises(ValueError, match="chains='running'"):
            jax.eval_shape(gradient_fn, *arguments)
    else:  # nothing to couple them by
        jax.eval_shape(gradient_fn, *arguments)


def test_interacting_chains_belong_to_no_class():
    draw = negatives(sampler=svgd, is_interacting=True, num_classes=NUM_CLASSES)
    with pytest.raises(ValueError, match="is_interacting must be False"):
        make_gradient_fn(quadratic(), draw, joint_objective(is_conditional=True))


@pytest.mark.parametrize("num_classes", [1, 2, 6])
def test_conditional_chains_need_the_networks_classes(num_classes):
    draw = negatives(num_classes=num_classes)
    shard = shard_of(quadratic(), draw, buffer_size=48)
    gradient_fn = make_gradient_fn(quadratic(), draw, joint_objective(is_conditional=True))
    with pytest.raises(ValueError, match="num_classes must be the network's 3"):
        jax.eval_shape(gradient_fn, KEY, PARAMS, shard, batch())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classification_weight": -1.0}, "classification_weight must be zero or more"),
        ({"generative_weight": -0.1}, "generative_weight must be zero or more"),
        ({"generative_weight": np.nan}, "generative_weight must be zero or more"),
        ({"rho": 0.0}, "rho must be positive"),
        ({"rho": -0.2}, "rho must be positive"),
        ({"smoothing_ratio": 0.0}, "smoothing_ratio must be positive"),
        ({"smoothing_rate": 0.0}, "smoothing_rate must be positive"),
        ({"smoothing_rate": 1.5}, "smoothing_rate must lie between"),
    ],
)
def test_bad_objectives_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        joint_objective(**options)
