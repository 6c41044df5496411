"""Every public function names the argument that it cannot use."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import metrics

KEY, NAN = jax.random.key(0), float("nan")
HALVES, ROWS = np.full((4, 2), 0.5), np.arange(12.0).reshape(6, 2)
CHAINS, PIXELS = np.arange(16.0).reshape(2, 8), np.zeros((8, 6), np.float32)


def logits_fn(key, images):
    return images[:, :2]


ATTACK = {"key": KEY, "logits_fn": logits_fn, "images": PIXELS, "labels": np.zeros(8, int)}
ATTACK |= {"epsilon": 0.1, "norm": "linf", "num_steps": 1}
GOOD = {
    "accuracy": {"logits": HALVES, "labels": np.zeros(4, int)},
    "apgd_attack": ATTACK,
    "auroc": {"in_scores": np.ones(2), "out_scores": np.ones(3)},
    "brier_score": {"probabilities": HALVES, "labels": np.zeros(4, int)},
    "coordinate_gradient_variance": {"gradients": {"a": np.ones(3)}},
    "effective_sample_size": {"chains": CHAINS},
    "energy_landscape": {
        "value_fn": lambda p: jnp.sum(p["w"]),
        "params": {"w": np.ones(2)},
        "direction_x": {"w": np.ones(2)},
        "direction_y": {"w": np.ones(2)},
        "coordinates_x": np.zeros(1),
        "coordinates_y": np.zeros(1),
    },
    "extract_in_batches": {"features_fn": lambda x: x, "images": np.zeros((4, 3)), "batch_size": 2},
    "extrapolate_to_infinity": {"sizes": [100, 200], "values": [1.0, 2.0]},
    "feature_moments": {"features": ROWS},
    "frechet_distance": {
        "mean_a": np.zeros(2),
        "cov_a": np.eye(2),
        "mean_b": np.zeros(2),
        "cov_b": np.eye(2),
    },
    "gradient_variance": {"stacked_gradients": np.ones((3, 2))},
    "inception_score": {"probabilities": np.eye(3)},
    "kernel_distance": {"features_a": ROWS, "features_b": ROWS},
    "ood_scores": {"logits_fn": lambda x: x, "images": PIXELS},
    "paired_difference": {"values": np.ones(3), "reference": np.ones(3)},
    "pgd_attack": ATTACK,
    "potential_scale_reduction": {"chains": CHAINS},
}
BAD = [
    ("accuracy", {"labels": np.full(4, 2)}, r"labels must lie in 0\.\.1.* = 2"),
    ("accuracy", {"labels": np.zeros((4, 2), int)}, "take jnp.argmax"),
    ("apgd_attack", {"loss": "dlr"}, r"loss must be one of \['ce'\] for 2 classes"),
    ("auroc", {"in_scores": np.zeros((2, 1))}, r"in_scores must have shape \(n,\)"),
    ("auroc", {"out_scores": np.zeros(0)}, r"out_scores must have shape \(n,\)"),
    ("brier_score", {"probabilities": 3 * HALVES}, r"sum to one.*softmax.* got \[1.5 1.5\]"),
    ("coordinate_gradient_variance", {"gradients": {"a": np.ones(3, int)}}, r"gradients\['a'\]"),
    ("effective_sample_size", {"chains": np.zeros(100)}, r"got shape \(100,\)"),
    ("effective_sample_size", {"chains": CHAINS.T[:, :4]}, "at least 1 chain.*4 draws"),
    ("energy_landscape", {"direction_x": {"w": np.ones(3)}}, "direction_x.* shapes of params"),
    ("energy_landscape", {"coordinates_y": np.zeros(0)}, r"coordinates_y must have shape \(n,\)"),
    ("energy_landscape", {"value_fn": lambda p: p["w"]}, "value_fn must return a scalar"),
    ("extract_in_batches", {"features_fn": lambda x: x[:1]}, "one row an image: 2 of them"),
    ("extrapolate_to_infinity", {"sizes": [100, 100]}, "at least two different"),
    ("extrapolate_to_infinity", {"values": [1.0, NAN]}, "finite"),
    ("feature_moments", {"features": np.zeros((1, 3))}, r"features must have shape \(n, d\)"),
    ("feature_moments", {"features": [[NAN], [1.0], [2.0]]}, "1 of 3 rows"),
    ("frechet_distance", {"mean_b": np.zeros(3), "cov_b": np.eye(3)}, "one extractor"),
    ("frechet_distance", {"mean_b": np.array([0, NAN])}, "mean_b and cov_b must be finite"),
    ("frechet_distance", {"cov_a": np.array([[1, 1], [0, 1]])}, "cov_a symmetric"),
    ("frechet_distance", {"cov_b": np.diag([1, -1])}, "negative eigenvalue"),
    ("gradient_variance", {"stacked_gradients": np.ones((1, 2))}, "at least 2 repeats"),
    ("inception_score", {"probabilities": 2 * np.eye(3)}, "sum to one"),
    ("kernel_distance", {"bandwidth": 1.0}, "only kernel='rbf'"),
    ("kernel_distance", {"features_b": ROWS[:, :1]}, "one extractor"),
    ("ood_scores", {"images": np.zeros((2, 3), np.uint8)}, "images must hold floating-point"),
    ("ood_scores", {"logits_fn": lambda x: x[:, 0]}, r"\(8, classes\), got \(8,\)"),
    ("paired_difference", {"values": np.ones((2, 3))}, r"one shape.*\(2, 3\).*\(1, 3\)"),
    ("pgd_attack", {"epsilon": np.ones(2)}, "epsilon must be one radius"),
    ("pgd_attack", {"norm": "l1"}, r"norm must be one of \['linf', 'l2'\], got norm='l1'"),
    ("pgd_attack", {"low": 0.5}, r"images must lie within \[low, high\] = \[0.5, 1.0\]; 48 of 48"),
    ("pgd_attack", {"logits_fn": lambda key, x: x[:, 0]}, "logits_fn.* two classes"),
    ("potential_scale_reduction", {"chains": CHAINS[:1]}, "at least 2 chain"),
    ("potential_scale_reduction", {"method": "split"}, '"rank" or "classic", got method'),
]


@pytest.mark.parametrize(("name", "bad", "message"), BAD, ids=[f"{a}-{[*b]}" for a, b, _ in BAD])
def test_a_bad_argument_is_named(name, bad, message):
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(metrics, name)(**GOOD[name] | bad)


@pytest.mark.parametrize("name", sorted({name for name, *_ in BAD} - {"apgd_attack"}))
def test_and_without_it_the_call_is_good(name):
    getattr(metrics, name)(**GOOD[name])
