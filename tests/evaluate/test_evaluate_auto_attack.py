"""AutoAttack of a linear model, whose radii are known, of masked gradients, and through chains."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ebmjax import evaluate, metrics
from ebmjax.data import ImageData, to_signed_unit

WEIGHTS = np.random.default_rng(0).normal(size=(16, 5)).astype(np.float32)
IMAGES = np.random.default_rng(1).integers(90, 166, (12, 4, 4, 1)).astype(np.uint8)


def linear(images):
    return images.reshape(len(images), -1) @ WEIGHTS


IDENTITY = np.eye(16)
FLOATS = np.asarray(to_signed_unit(jnp.asarray(IMAGES)))
LABELS = np.argmax(linear(FLOATS), axis=1)
LABELS[0] = (LABELS[0] + 1) % 5  # one image is wrong from the start
TEST = ImageData(IMAGES, LABELS)
attacked = partial(evaluate.auto_attack, jax.random.key(0), linear, TEST, num_steps=20)


def breaks(norm, weights=WEIGHTS, pixels=FLOATS, labels=LABELS, mixing=IDENTITY):
    """Radii in levels, (N,), at which images break: the box is too far away to matter."""
    directions = weights.T[labels][:, None] - weights.T[None]
    margins = np.einsum("ncd,nd->nc", directions, pixels.reshape(len(pixels), -1))
    slopes = np.linalg.norm(directions @ mixing.T, ord={"linf": 1, "l2": 2}[norm], axis=-1)
    others = ~np.eye(5, dtype=bool)[labels]
    return 127.5 * np.min(np.where(others, margins / np.where(others, slopes, 1), np.inf), axis=1)


@pytest.mark.slow
def test_robust_accuracy_of_a_linear_model_is_exact():
    """At radii between those at which images break, each alone but the one that is wrong."""
    options, expected = {}, {}
    for norm in ("linf", "l2"):
        found = breaks(norm)
        levels = [0, *(np.sort(found)[2:10:3] + 0.02)]
        options[norm] = levels
        expected[norm] = {f"{level:g}": found > level for level in levels}
        expected[norm]["0"] = found > 0
    report = attacked(**options, num_queries=300)
    for norm, by_radius in expected.items():
        assert report[norm] == {r: x.mean() for r, x in by_radius.items()}
        for r, x in by_radius.items():
            assert report["per_image"][f"{norm}.{r}"].tolist() == x.tolist()
            interval = stats.binomtest(int(x.sum()), 12).proportion_ci(method="wilson")
            assert (report["low"][norm][r], report["high"][norm][r]) == interval
        curves = [list(one[norm].values()) for one in report["after"].values()]
        assert np.all(np.diff(curves, axis=0) <= 0)
        assert np.all(np.diff(curves[-1]) < 0)
    assert report["clean"] == 11 / 12
    assert report["protocol"]["attacks"] == ["apgd_ce", "apgd_t", "fab_t", "square"]


def test_broken_images_are_not_attacked_again(monkeypatch):
    """Each attack sees the batches of survivors alone; what breaks stays broken at larger radii."""
    seen = []

    def attack(name, breaks_first):
        def run(key, classify, images, labels, **options):
            jax.debug.callback(lambda x: seen.append((name, x.tolist())), labels)
            is_hit = (labels == 0) & breaks_first
            margins = jnp.where(is_hit, -1.0, 1.0)
            return metrics.PGDResult(images, ~is_hit, margins, jnp.ones(len(images), bool))

        return run

    monkeypatch.setattr(metrics, "apgd_attack", attack("apgd", breaks_first=True))
    monkeypatch.setattr(metrics, "square_attack", attack("square", breaks_first=False))
    labels = np.array([0, 1, 0, 1, 0, 0], np.int32)
    images = np.zeros((6, 4, 4, 1), np.uint8)
    images[labels == 1] = 255

    def classify(x):
        bright = x.mean((1, 2, 3))
        return jnp.stack([-bright, bright], axis=1)

    report = evaluate.auto_attack(
        jax.random.key(0), classify, ImageData(images, labels), linf=(8, 16), l2=(), batch_size=2,
        attacks=("apgd_ce", "square"),
    )  # fmt: skip
    jax.effects_barrier()
    assert report["linf"] == {"8": 2 / 6, "16": 2 / 6}
    assert report["after"]["apgd_ce"]["linf"] == {"8": 2 / 6, "16": 2 / 6}
    assert [name for name, _ in seen] == ["apgd"] * 3 + ["square", "apgd", "square"]
    assert [x for name, x in seen if name == "square"] == [[1, 1]] * 2


def rounded(images):
    return linear(jnp.round(images * 64) / 64)


def test_random_search_breaks_what_hides_its_gradient():
    """Rounded pixels have the derivative 0, so PGD, APGD and FAB cannot move."""
    level = float(np.sort(breaks("linf"))[6])
    radii = {"linf": (2 * level,), "l2": ()}
    by_gradient = ("apgd_ce", "apgd_t", "fab_t")
    with pytest.warns(UserWarning, match="had no usable gradient"):
        report = attacked_rounded(radii, attacks=by_gradient)
    (left,) = report["after"]["fab_t"]["linf"].values()
    assert report["clean"] >= left > 0.5  # few are broken, and none counts as robust
    assert list(report["linf"].values()) == [0.0]
    with pytest.warns(UserWarning, match=r"Random search \(square\) broke \d images"):
        report = attacked_rounded(radii, attacks=(*by_gradient, "square"), num_queries=300)
    assert next(iter(report["linf"].values())) < 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = attacked(**radii, attacks=by_gradient)
    assert next(iter(plain["linf"].values())) < 0.5


def attacked_rounded(radii, **options):
    return evaluate.auto_attack(jax.random.key(0), rounded, TEST, **radii, num_steps=5, **options)


def test_saturated_logits_hide_nothing():
    """Cross-entropy's own gradient is zero at these scales; every radius is found all the same."""
    found = breaks("linf")
    level = float(np.sort(found)[6] * 1.02)
    scaled = lambda x: 1e4 * linear(x)  # noqa: E731
    for attacks in (("apgd_t",), ("fab_t",)):
        report = evaluate.auto_attack(
            jax.random.key(0), scaled, TEST, linf=(level,), l2=(), attacks=attacks, num_steps=20
        )
        assert list(report["linf"].values()) == [np.mean(found > level)]


MIXING = np.eye(16, dtype=np.float32)
MIXING[:, 3] += 2.0 * np.sign(np.random.default_rng(2).normal(size=16)).astype(np.float32)


@pytest.mark.slow
def test_attacks_go_through_chains_with_noise():
    """The full derivative finds more than the identity's, and copies average noise away."""

    def refine(key, images):
        moved = images.reshape(-1, 16) @ MIXING
        return (moved + 1e-4 * jax.random.normal(key, moved.shape)).reshape(images.shape)

    labels = np.argmax(linear(FLOATS.reshape(12, 16) @ MIXING), axis=1)
    exact = breaks("linf", WEIGHTS, FLOATS.reshape(12, 16) @ MIXING, labels, MIXING)
    ranked = np.sort(exact)
    levels = (ranked[3:10:3] + ranked[4:11:3]) / 2
    curves = {
        gradient: evaluate.auto_attack(
            jax.random.key(0), linear, ImageData(IMAGES, labels), linf=levels, l2=(),
            transform=refine, gradients=gradient, attacks=("apgd_ce", "apgd_t", "fab_t"),
            num_steps=20, num_eot=2,
        )
        for gradient in (("bpda",), ("bpda", "full"))
    }  # fmt: skip
    bpda, both = (np.array(list(one["linf"].values())) for one in curves.values())
    np.testing.assert_array_equal(both, (exact[None] > levels[:, None]).mean(1))
    assert bpda.sum() > both.sum()
    assert curves[("bpda", "full")]["protocol"]["gradients"] == ["bpda", "full"]


@pytest.mark.parametrize(("num_classes", "ran"), [(2, ["apgd_ce"]), (3, ["apgd_ce", "apgd_dlr"])])
def test_losses_that_need_more_classes_give_way(num_classes, ran):
    report = evaluate.auto_attack(
        jax.random.key(0), lambda x: linear(x)[:, :num_classes],
        ImageData(IMAGES[:2], [0, 1]), linf=(1,), l2=(), attacks=("apgd_ce", "apgd_t", "apgd_dlr"),
        num_steps=1,
    )  # fmt: skip
    assert report["protocol"]["attacks"] == ran


@pytest.mark.slow
def test_the_ensemble_is_at_least_as_strong_as_each_attack_and_as_pgd():
    rng = np.random.default_rng(3)
    first, second = (rng.normal(size=s).astype(np.float32) / 2 for s in ((16, 24), (24, 5)))

    def net(images):
        return jnp.tanh(3 * images.reshape(len(images), -1) @ first) @ second

    images = rng.integers(60, 196, (60, 4, 4, 1)).astype(np.uint8)
    labels = np.argmax(net(to_signed_unit(jnp.asarray(images))), axis=1)
    test, radii = ImageData(images, labels), {"linf": (2, 4, 8), "l2": ()}
    options = {**radii, "num_steps": 30, "num_queries": 300}
    whole = evaluate.auto_attack(jax.random.key(0), net, test, **options)["linf"]
    others = [evaluate.robustness(jax.random.key(0), net, test, **radii, num_steps=20)]
    for name in ("apgd_ce", "apgd_t", "fab_t", "square"):
        others.append(
            evaluate.auto_attack(jax.random.key(0), net, test, **options, attacks=(name,))
        )
    for other in others:
        for radius, accuracy in whole.items():
            assert accuracy <= other["linf"][radius]
    assert 0 < whole["4"] < 1
    assert sum(whole.values()) < sum(others[0]["linf"].values())


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"attacks": ("pgd",)}, "attacks must name at least one of"),
        ({"attacks": ()}, "attacks must name at least one of"),
        ({"num_queries": 0}, "num_queries must be an integer of at least 1"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1"),
        ({"linf": (-1,)}, "levels must be zero or more"),
    ],
)
def test_what_cannot_be_run_is_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        attacked(**{"linf": (1,), "l2": (), **bad})
