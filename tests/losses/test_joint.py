"""Logits as log densities and the cross-entropy, against scipy and scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from sklearn.metrics import accuracy_score, log_loss

from ebmjax.losses import class_log_density, cross_entropy_loss, joint_energy, joint_log_density

EPS = np.finfo(np.float32).eps
RNG = np.random.default_rng(2)
LOGITS = RNG.normal(0.0, 3.0, (6, 4)).astype(np.float32)
LABELS = np.array([0, 3, 1, 2, 2, 0])
# Logits of size 10 at most, so their differences are good to a few times 10 eps.
ATOL = 8 * 10 * EPS


def test_energies_and_log_densities():
    f = joint_log_density(jnp.asarray(LOGITS))
    np.testing.assert_allclose(f, logsumexp(LOGITS.astype(np.float64), axis=1), rtol=0, atol=ATOL)
    np.testing.assert_array_equal(joint_energy(jnp.asarray(LOGITS)), -f)
    np.testing.assert_array_equal(
        class_log_density(jnp.asarray(LOGITS), LABELS), LOGITS[np.arange(6), LABELS]
    )


def test_score_of_the_joint_density_is_the_mean_over_classes():
    gradient = jax.jit(jax.grad(lambda h: joint_log_density(h).sum()))(jnp.asarray(LOGITS))
    want = softmax(LOGITS.astype(np.float64), axis=1)
    np.testing.assert_allclose(gradient, want, rtol=2 * ATOL)


def test_cross_entropy_and_its_gradient():
    of_logits = jax.jit(jax.value_and_grad(cross_entropy_loss, has_aux=True))
    (loss, metrics), gradient = of_logits(jnp.asarray(LOGITS), jnp.asarray(LABELS))
    probabilities = softmax(LOGITS.astype(np.float64), axis=1)
    want = log_loss(LABELS, probabilities, labels=range(4))
    np.testing.assert_allclose(loss, want, rtol=0, atol=ATOL)
    np.testing.assert_allclose(
        gradient, (probabilities - np.eye(4)[LABELS]) / 6, rtol=0, atol=ATOL / 6
    )
    accuracy = accuracy_score(LABELS, LOGITS.argmax(axis=1))
    assert 0 < accuracy < 1
    np.testing.assert_allclose(metrics["accuracy"], accuracy, rtol=4 * EPS)
    assert metrics["cross_entropy"] == loss
    assert set(metrics) == {"cross_entropy", "accuracy"}


@pytest.mark.parametrize("bad", [-1, 4])
def test_labels_out_of_range(bad):
    labels = LABELS.copy()
    labels[2] = bad
    for function in (cross_entropy_loss, class_log_density):
        with pytest.raises(ValueError, match=rf"labels must lie in 0\.\.3.*{bad}"):
            function(LOGITS, labels)
    # Traced values cannot be refused: they poison the number instead of picking another class.
    assert np.isnan(jax.jit(cross_entropy_loss)(LOGITS, labels)[0])
    picked = jax.jit(class_log_density)(LOGITS, labels)
    np.testing.assert_array_equal(np.isnan(picked), np.arange(6) == 2)


@pytest.mark.parametrize(("num_classes", "dtype"), [(200, jnp.int8), (256, jnp.uint8)])
def test_labels_of_eight_bits_mean_the_same_classes(num_classes, dtype):
    logits = jnp.asarray(RNG.normal(size=(2, num_classes)), jnp.float32)
    labels = jnp.array([3, 100])
    for loss_fn in (class_log_density, cross_entropy_loss):
        for run in (loss_fn, jax.jit(loss_fn)):
            small, wide = run(logits, labels.astype(dtype)), run(logits, labels)
            jax.tree.map(np.testing.assert_array_equal, small, wide)
            assert np.isfinite(jax.tree.leaves(small)[0]).all()
