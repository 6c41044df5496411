"""The learning gradient of an image energy, its chains and its averages, against closed forms."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.optimizers.dual_averaging import dual_averaging as blackjax_dual_averaging
from training_problems import settled

from ebmjax.data import ImageData, to_signed_unit
from ebmjax.losses import (
    contrastive_divergence_loss,
    improved_contrastive_divergence_loss,
    nearest_neighbour_entropy,
)
from ebmjax.samplers import gradient_descent, mala, sgld
from ebmjax.training import (
    ChainKind,
    ImageNegatives,
    LiveSteps,
    dual_averaging_init,
    dual_averaging_update,
    init_image_energy_shards,
    make_image_energy_gradient_fn,
)

SHAPE, DIM = (2, 2, 1), 4
EPS = np.finfo(np.float32).eps
# Numbers of at most 10 through some 50 float32 operations, each off by one rounding.
ATOL = float(50 * 10 * EPS)
NOISELESS = partial(sgld, step_size=0.2, noise_scale=0.0)
KEY = jax.random.key(3)


def energy_of(params):
    """precision |x - mean_y|^2 / 2, the mean of a class all along one direction."""
    return lambda x, y: (
        0.5 * params["precision"] * jnp.sum((x - mean_of(params, y)) ** 2, axis=(-3, -2, -1))
    )


def mean_of(params, label):
    return jnp.reshape(params["means"][label], (*jnp.shape(label), 1, 1, 1))


PARAMS = {"precision": jnp.float32(0.8), "means": jnp.array([0.3, -0.5])}


def plain_view(key, images):
    del key
    return to_signed_unit(images)


def cd_loss(positive, negative, beta):
    del beta
    return contrastive_divergence_loss(positive, negative, energy_l2=0.1)


def uniform(key, label):
    del label
    return jax.random.uniform(key, SHAPE, minval=-1.0)


def negatives(**options):
    given = {
        "kinds": {"sgld": ChainKind(sampler=NOISELESS, num_steps=3)},
        "num_samples": 6,
        "law": uniform,
        "reinit_prob": 0.0,
        "num_classes": 2,
    }
    return ImageNegatives(**(given | options))


def shard_of(draw, buffer_size=12):
    shards = init_image_energy_shards(
        jax.random.key(1), draw, num_shards=1, buffer_size=buffer_size
    )
    return jax.tree.map(lambda leaf: leaf[0], shards)


def batch(num=5):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(num, *SHAPE)).astype(np.uint8)
    return ImageData(jnp.asarray(images), jnp.asarray(rng.integers(0, 2, size=num), jnp.int32))


def learn(draw=None, shard=None, *, loss_fn=cd_loss, params=PARAMS, key=KEY, **options):
    draw = draw or negatives()
    shard = shard or shard_of(draw)
    step = make_image_energy_gradient_fn(
        energy_of, loss_fn, view=plain_view, negatives=draw, **options
    )
    return *jax.jit(settled(step))(key, params, shard, batch()), shard


def moved(before, after):
    """(slots that changed, what they hold now) of two buffers."""
    old, new = (np.asarray(shard.buffer.positions) for shard in (before, after))
    slots = np.flatnonzero(np.any(old != new, axis=(1, 2, 3)))
    return slots, old[slots], new[slots]


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


def live_loss(positive, negative, beta, live_energy, live_entropy):
    """Contrastive divergence, of what live chains report nothing."""
    del beta
    return improved_contrastive_divergence_loss(
        positive,
        negative,
        live_energy,
        live_entropy,
        kl_weight=0.0,
        entropy_weight=0.0,
        energy_l2=0.1,
    )


def live(**options):
    return LiveSteps(**({"step_size": 0.2, "noise_scale": 0.0, "num_references": 4} | options))


@pytest.mark.parametrize("is_live", [False, True])
def test_the_gradient_is_contrastive_divergence_of_the_ends(is_live):
    """The ends are constants of it, also where other terms follow them through their chains."""
    options = {"loss_fn": live_loss, "live": live()} if is_live else {}
    gradients, after, metrics, before = learn(shard=shard_of(negatives(), 20), **options)
    slots, _, ends = moved(before, after)
    labels = jnp.asarray(slots >= 10, jnp.int32)

    def loss(params):
        energy = energy_of(params)
        positive = energy(to_signed_unit(batch().images), batch().labels)
        return cd_loss(positive, energy(jnp.asarray(ends), labels), 0.0)[0]

    value, expected = jax.value_and_grad(loss)(PARAMS)
    assert float(metrics["loss"]) == pytest.approx(float(value), abs=ATOL)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=ATOL), gradients, expected)


def test_without_a_buffer_every_chain_starts_anew():
    """No step at all but one towards the mean: ends are within half of the law's box, shifted."""
    draw = negatives(
        num_classes=1,
        num_samples=2000,
        kinds={"gd": ChainKind(sampler=partial(gradient_descent, step_size=0.5), num_steps=1)},
    )
    shard = shard_of(draw, buffer_size=0)
    _, after, metrics, _ = learn(draw, shard)
    assert jax.tree.leaves(after.buffer) == []
    # E of the ends: (0.8 / 2) (1 - 0.4)^2 |x - 0.3|^2 with x uniform on [-1, 1].
    expected = 0.4 * 0.36 * DIM * (1 / 3 + 0.09)
    # The standard deviation of one chain is at most its mean's size; 2000 chains, 5 errors.
    error = 5 * expected / np.sqrt(2000)
    assert float(metrics["negative_energy"]) == pytest.approx(expected, abs=error)


def test_several_kinds_move_equal_parts():
    """One kind stands nearly still, the other goes to the mean: three slots each."""
    draw = negatives(
        num_classes=1,
        kinds={
            "still": ChainKind(sampler=partial(NOISELESS, step_size=1e-6), num_steps=1),
            "quick": ChainKind(sampler=partial(NOISELESS, step_size=1.25), num_steps=2),
        },
    )
    _, after, metrics, before = learn(draw)
    old, new = (np.asarray(shard.buffer.positions) for shard in (before, after))
    is_at_mean = np.all(np.abs(new - 0.3) < 1e-5, axis=(1, 2, 3))
    assert np.sum(is_at_mean) == 3
    np.testing.assert_allclose(new[~is_at_mean], old[~is_at_mean], atol=1e-5)
    parts = [float(metrics[f"chain_{name}_displacement"]) for name in ("still", "quick")]
    assert float(metrics["chain_displacement"]) == pytest.approx(np.mean(parts), rel=1e-6)
    assert parts[0] < 1e-9 < parts[1]


def test_beta_scales_what_chains_follow_and_is_told_the_step():
    """At beta 0.5 a step is half as long, and the loss hears beta."""
    told = []

    def loss_fn(positive, negative, beta):
        told.append(beta)
        return cd_loss(positive, negative, beta)

    draw = negatives(kinds={"sgld": ChainKind(sampler=NOISELESS, num_steps=1)})
    shard = shard_of(draw)._replace(step=jnp.int32(5))
    _, after, metrics, before = learn(draw, shard, loss_fn=loss_fn, beta_fn=lambda step: 0.1 * step)
    slots, old, new = moved(before, after)
    means = np.asarray(PARAMS["means"])[(slots >= 6).astype(int)].reshape(-1, 1, 1, 1)
    np.testing.assert_allclose(new - old, 0.5 * 0.16 * (means - old), atol=ATOL)
    assert float(metrics["beta"]) == 0.5
    assert told


def test_augmentation_moves_old_starts_alone():
    """Starts from the buffer are set to 0, new ones (of law 7) stay; then one step of size 0.2."""
    options = {"num_classes": 1, "augment": lambda key, x: jnp.zeros_like(x)}
    options["kinds"] = {"sgld": ChainKind(sampler=NOISELESS, num_steps=1)}
    for reinit_prob, start in ((0.0, 0.0), (1.0, 7.0)):
        draw = negatives(
            reinit_prob=reinit_prob, law=lambda key, label: jnp.full(SHAPE, 7.0), **options
        )
        _, after, _, before = learn(draw)
        _, _, new = moved(before, after)
        np.testing.assert_allclose(new, start + 0.16 * (0.3 - start), atol=ATOL)


def test_live_chains_carry_the_gradient_of_their_last_step():
    """E of constant parameters at x - 0.2 precision (x - mean): its derivative by the precision."""

    def loss_fn(positive, negative, beta, live_energy, live_entropy):
        del beta
        return improved_contrastive_divergence_loss(
            0.0 * positive, 0.0 * negative, live_energy, live_entropy, entropy_weight=0.0
        )

    draw = negatives(num_classes=1, kinds={"sgld": ChainKind(sampler=NOISELESS, num_steps=3)})
    live = LiveSteps(step_size=0.2, noise_scale=0.0, num_references=4)
    gradients, after, metrics, before = learn(draw, loss_fn=loss_fn, live=live)
    slots, old, new = moved(before, after)
    assert len(slots) == 6  # the references stay where they are
    np.testing.assert_allclose(new, 0.3 + 0.84**3 * (old - 0.3), atol=ATOL)
    squares = np.mean(np.sum((0.84**2 * (old - 0.3)) ** 2, axis=(1, 2, 3)))
    # E = 0.4 (1 - 0.2 p)^2 s: by p at 0.8, with the outer 0.8 held.
    assert float(gradients["precision"]) == pytest.approx(-0.4 * 0.4 * 0.84 * squares, abs=ATOL)
    assert float(metrics["live_energy"]) == pytest.approx(0.4 * 0.84**2 * squares, abs=ATOL)


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


def test_a_step_size_finds_its_acceptance_in_training_and_keeps_its_floor():
    """MALA on a Gaussian of variance 1 / 0.8 in four dimensions, from a step far too long."""
    kind = {"sampler": mala, "num_steps": 5, "target_acceptance": 0.57, "step_size": 20.0}
    draw = negatives(num_classes=1, num_samples=64, kinds={"mala": ChainKind(**kind)})
    step = jax.jit(
        settled(make_image_energy_gradient_fn(energy_of, cd_loss, view=plain_view, negatives=draw))
    )
    shard, seen = shard_of(draw, 64), []
    for key in jax.random.split(KEY, 200):
        _, shard, metrics = step(key, PARAMS, shard, batch())
        seen.append(float(metrics["chain_acceptance_prob"]))
    # 64 chains of 4 reported steps: an error of at most 0.5 / 16 in each, averaged over 100, and
    # what dual averaging leaves: the mean error tends to 0, as 0.05 log(200) / 14 = 0.02.
    assert np.mean(seen[100:]) == pytest.approx(0.57, abs=0.05)
    assert float(metrics["chain_step_size"]) < 20.0
    floored = dual_averaging_init(0.3)
    for _ in range(5):
        floored = dual_averaging_update(
            floored, jnp.float32(0), step_size=0.3, target=0.57, min_step_size=0.01
        )
    assert float(floored.log_step_size) == pytest.approx(np.log(0.01), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": {}}, "at least one; got num_samples=6"),
        (
            {"num_samples": 7, "kinds": {n: ChainKind(sampler=sgld, num_steps=1) for n in "ab"}},
            "multiple of the number of kinds",
        ),
        ({"reinit_prob": 1.5}, "reinit_prob must lie between 0 and 1"),
    ],
)
def test_negatives_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=message):
        negatives(**options)


def test_what_does_not_go_together_is_told():
    draw = negatives()
    with pytest.raises(ValueError, match="buffer_size must be 0 or a multiple of num_shards=1"):
        init_image_energy_shards(KEY, draw, num_shards=1, buffer_size=4)
    with pytest.raises(ValueError, match=r"live.num_steps=3 must be fewer than the 3 steps"):
        learn(draw, live=LiveSteps(step_size=0.1, noise_scale=0.0, num_steps=3))
    with pytest.raises(ValueError, match="live chains need a replay buffer"):
        learn(draw, shard_of(draw, 0), live=LiveSteps(step_size=0.1, noise_scale=0.0))
    with pytest.raises(ValueError, match="target_acceptance must"):
        ChainKind(sampler=mala, num_steps=1, target_acceptance=1.5)
    with pytest.raises(ValueError, match=r"min_step_size must be .*got min_step_size=-1"):
        ChainKind(sampler=mala, num_steps=1, target_acceptance=0.5, min_step_size=-1.0)
    adapted = {"gd": ChainKind(sampler=gradient_descent, num_steps=1, target_acceptance=0.5)}
    with pytest.raises(ValueError, match="of kind 'gd', whose sampler accepts everything"):
        learn(negatives(num_classes=1, kinds=adapted))


def test_a_step_size_adapts_to_acceptances_of_any_dtype():
    """As the carry of a scan it keeps the dtypes it began with."""
    state = dual_averaging_init(0.3)
    acceptance = np.float64(0.5) if jax.config.jax_enable_x64 else jnp.bfloat16(0.5)
    moved = dual_averaging_update(state, acceptance, step_size=np.float64(0.3), target=0.57)
    assert jax.tree.map(lambda leaf: leaf.dtype, moved) == jax.tree.map(
        lambda leaf: leaf.dtype, state
    )


def test_the_live_entropy_is_sought_among_the_buffers_other_slots():
    """Of six chains that all start anew, among the six slots that they are not written to."""
    draw = negatives(
        num_classes=1, reinit_prob=1.0, law=lambda key, label: jax.random.normal(key, SHAPE)
    )
    _, after, metrics, before = learn(
        draw, shard_of(draw), loss_fn=live_loss, live=live(noise_scale=0.3, num_references=6)
    )
    slots, _, ends = moved(before, after)
    others = np.delete(np.asarray(before.buffer.positions), slots, axis=0)
    assert (len(ends), len(others)) == (6, 6)
    expected = nearest_neighbour_entropy(jnp.asarray(ends), jnp.asarray(others))
    assert float(metrics["live_entropy"]) == pytest.approx(float(expected), abs=ATOL)


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


def test_live_steps_have_noise():
    """From the mean one step before and one live: 0.84 n1 + n2 of scale 0.3."""
    draw = negatives(
        num_classes=1,
        num_samples=2000,
        law=lambda key, label: jnp.full(SHAPE, 0.3),
        kinds={
            "sgld": ChainKind(sampler=partial(sgld, step_size=0.2, noise_scale=0.3), num_steps=2)
        },
    )
    _, after, _, before = learn(
        draw, shard_of(draw, 2001), loss_fn=live_loss, live=live(noise_scale=0.3, num_references=1)
    )
    _, _, ends = moved(before, after)
    assert len(ends) == 2000
    # Five standard errors of a variance of normal numbers.
    assert ends.var() == pytest.approx(0.09 * (0.84**2 + 1), rel=5 * np.sqrt(2 / ends.size))


def test_the_loss_is_told_beta():
    def loss_fn(positive, negative, beta):
        loss, metrics = cd_loss(positive, negative, beta)
        return loss, {**metrics, "heard": jnp.float32(beta)}

    _, _, metrics, _ = learn(loss_fn=loss_fn, beta_fn=lambda step: 0.5)
    assert float(metrics["heard"]) == 0.5


def test_kinds_have_noise_of_their_own():
    kind = ChainKind(sampler=partial(sgld, step_size=0.2, noise_scale=0.3), num_steps=1)
    draw = negatives(
        num_classes=1, law=lambda key, label: jnp.zeros(SHAPE), kinds={"a": kind, "b": kind}
    )
    _, after, _, before = learn(draw)
    _, _, ends = moved(before, after)
    assert len(np.unique(ends.reshape(6, -1), axis=0)) == 6


def test_kinds_without_a_metric_are_left_out_of_its_mean():
    kinds = {
        "sgld": ChainKind(sampler=partial(sgld, step_size=0.2), num_steps=1),
        "gd": ChainKind(sampler=partial(gradient_descent, step_size=0.2), num_steps=1),
    }
    _, _, metrics, _ = learn(negatives(kinds=kinds))
    assert metrics["chain_acceptance_prob"] == metrics["chain_sgld_acceptance_prob"]
    assert "chain_gd_acceptance_prob" not in metrics


def test_shards_have_starts_of_their_own():
    shards = init_image_energy_shards(KEY, negatives(), num_shards=2, buffer_size=24)
    assert len(np.unique(shards.buffer.positions.reshape(24, -1), axis=0)) == 24
