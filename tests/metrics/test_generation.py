"""FID, KID, inception score and their extrapolation, against closed forms and plain loops."""

import itertools

import jax
import numpy as np
import pytest
import scipy.linalg

from ebmjax.metrics import _kernel_distance as kernel_module
from ebmjax.metrics import (
    extract_in_batches,
    extrapolate_to_infinity,
    feature_moments,
    fit_in_inverse_size,
    frechet_distance,
    inception_score,
    kernel_distance,
    kernel_distance_subsets,
    metric_at_sizes,
)

EPS = np.finfo(np.float64).eps


# ---- Frechet distance ----


def make_features(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)


def test_frechet_distance_is_the_matrix_square_roots():
    a, b = (feature_moments(make_features(60, 8, seed)) for seed in (0, 1))
    root = scipy.linalg.sqrtm(a.cov @ b.cov)
    want = np.sum((a.mean - b.mean) ** 2) + np.trace(a.cov + b.cov - 2 * np.real(root))
    got = frechet_distance(*a, *b)
    # sqrtm of a matrix that is not symmetric loses the condition number of its square root.
    condition = np.sqrt(np.linalg.cond(a.cov) * np.linalg.cond(b.cov))
    atol = 8 * EPS * condition * np.trace(a.cov + b.cov)
    assert atol < 1e-6 * want
    assert got == pytest.approx(want, rel=8 * EPS, abs=atol)
    assert frechet_distance(*b, *a) == pytest.approx(got, rel=1e-12)


def test_frechet_distance_of_diagonal_gaussians():
    mean_a, mean_b = np.array([1.0, -2.0, 0.5]), np.array([0.0, 1.0, 0.5])
    scale_a, scale_b = np.array([1.0, 3.0, 0.0]), np.array([2.0, 0.5, 0.25])
    want = np.sum((mean_a - mean_b) ** 2 + (scale_a - scale_b) ** 2)
    got = frechet_distance(mean_a, np.diag(scale_a**2), mean_b, np.diag(scale_b**2))
    assert got == pytest.approx(want, rel=30 * EPS)


def test_frechet_distance_where_covariances_do_not_commute_or_are_singular():
    """Of two lines: tr S_a + tr S_b - 2 |u . v|. A square root of rounding would leave 1e-8."""
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(2, 40))
    got = frechet_distance(np.zeros(40), np.outer(u, u), np.zeros(40), np.outer(v, v))
    want = u @ u + v @ v - 2 * abs(u @ v)
    # Factors of rounded matrices: eps * dimension, of the traces.
    assert got == pytest.approx(want, abs=40 * EPS * (u @ u + v @ v))


@pytest.mark.parametrize("n", [300, 12])
def test_frechet_distance_to_itself_is_zero(n):
    moments = feature_moments(make_features(n, 50))
    assert abs(frechet_distance(*moments, *moments)) < 50 * EPS * np.trace(moments.cov)


def test_frechet_distance_of_no_spread():
    assert frechet_distance(np.zeros(2), np.zeros((2, 2)), np.ones(2), np.eye(2)) == 4.0


def test_frechet_distance_takes_float32_from_the_device():
    features = make_features(200, 6).astype(np.float32)
    mean, cov = jax.numpy.mean(features, 0), jax.numpy.cov(features, rowvar=False)
    assert abs(frechet_distance(mean, cov, mean, cov)) < 50 * EPS * np.trace(cov)


def test_moments_are_numpys_with_an_unbiased_covariance():
    features = make_features(30, 4).astype(np.float32)
    moments = feature_moments(features)
    rows = features.astype(np.float64)
    centred = rows - rows.mean(0)
    np.testing.assert_allclose(moments.mean, rows.mean(0), rtol=30 * EPS)
    np.testing.assert_allclose(moments.cov, centred.T @ centred / 29, rtol=0, atol=1e-13 * 100)
    assert moments.mean.dtype == moments.cov.dtype == np.float64
    assert feature_moments([[1.0], [3.0]]).cov.tolist() == [[2.0]]  # one dimension is a matrix too


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(2), np.eye(2), np.zeros(3), np.eye(3)), "one extractor"),
        ((np.zeros(2), np.eye(3), np.zeros(2), np.eye(2)), r"cov_a \(d, d\)"),
        ((np.zeros(2), np.eye(2), np.zeros((2, 1)), np.eye(2)), "mean_b must have shape"),
        ((np.zeros(2), np.eye(2), np.array([0, np.nan]), np.eye(2)), "mean_b and cov_b .* finite"),
        ((np.zeros(2), np.array([[1, 1], [0, 1]]), np.zeros(2), np.eye(2)), "cov_a .*symmetric"),
        ((np.zeros(2), np.eye(2), np.zeros(2), np.diag([1, -1])), "cov_b has a negative"),
    ],
)
def test_frechet_distance_names_bad_moments(arguments, message):
    with pytest.raises(ValueError, match=message):
        frechet_distance(*arguments)


@pytest.mark.parametrize(
    "features", [np.zeros(3), np.zeros((1, 3)), np.zeros((3, 0)), np.zeros((2, 2, 2))]
)
def test_features_need_rows(features):
    with pytest.raises(ValueError, match=r"features must have shape \(n, d\)"):
        feature_moments(features)


def test_diverged_features_are_counted():
    features = np.ones((5, 2))
    features[[1, 3], 0] = np.nan, np.inf
    with pytest.raises(ValueError, match="2 of 5 rows"):
        feature_moments(features)


# ---- kernel distance ----


def looped_kernel_distance(a, b, kernel):
    """The definition, pair by pair."""

    def mean(pairs):
        return np.mean([kernel(x, y) for x, y in pairs])

    within = mean(itertools.permutations(a, 2)) + mean(itertools.permutations(b, 2))
    return within - 2 * mean(itertools.product(a, b))


def cubic(x, y):
    return (x @ y / len(x) + 1) ** 3


def gaussian(bandwidth):
    return lambda x, y: np.exp(-np.sum((x - y) ** 2) / (2 * bandwidth**2))


@pytest.mark.parametrize("rows", [1024, 4, 1], ids="{}-rows-at-a-time".format)
@pytest.mark.parametrize("kernel", ["polynomial", "rbf"])
def test_kernel_distance_is_its_double_loop(kernel, rows, monkeypatch):
    monkeypatch.setattr(kernel_module, "ROWS", rows)
    a, b = make_features(11, 3, seed=0), make_features(7, 3, seed=1)
    if kernel == "polynomial":
        kwargs, kernel_fn = {}, cubic
    else:
        kwargs, kernel_fn = {"bandwidth": 1.7}, gaussian(1.7)
    want = looped_kernel_distance(a, b, kernel_fn)
    largest = max(kernel_fn(x, x) for x in [*a, *b])
    got = kernel_distance(a, b, kernel=kernel, **kwargs)
    # Sums of at most 121 kernels, each of a few roundings.
    assert got == pytest.approx(want, abs=121 * 4 * EPS * largest)


def test_median_bandwidth():
    a, b = make_features(9, 3, seed=0), make_features(8, 3, seed=1)
    distances = [np.linalg.norm(x - y) for x, y in itertools.combinations([*a, *b], 2)]
    want = kernel_distance(a, b, kernel="rbf", bandwidth=np.median(distances))
    assert kernel_distance(a, b, kernel="rbf") == pytest.approx(want, rel=1e-10)


def expected_gaussian_kernel(shift, bandwidth):
    """E exp(-(x - y)^2 / (2 h^2)) for x ~ N(shift, 1), y ~ N(0, 1)."""
    total = bandwidth**2 + 2
    return bandwidth / np.sqrt(total) * np.exp(-(shift**2) / (2 * total))


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_kernel_distance_is_unbiased(shift):
    """At five rows, where a V-statistic is far off: 5 standard errors of 2000 repeats."""
    rng = np.random.default_rng(0)
    estimates = [
        kernel_distance(
            rng.normal(shift, 1, (5, 1)), rng.normal(0, 1, (5, 1)), kernel="rbf", bandwidth=0.8
        )
        for _ in range(2000)
    ]
    same, other = expected_gaussian_kernel(0, 0.8), expected_gaussian_kernel(shift, 0.8)
    standard_error = np.std(estimates, ddof=1) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - 2 * (same - other)) < 5 * standard_error
    bias_with_the_diagonal = 2 * (1 - same) / 5
    assert bias_with_the_diagonal > 20 * standard_error


def test_cubic_kernel_distance_is_unbiased():
    """Of N(m, 1) and N(0, 1) in one dimension, moment by moment."""
    m = 0.5
    rng = np.random.default_rng(1)
    estimates = [
        kernel_distance(rng.normal(m, 1, (6, 1)), rng.normal(0, 1, (4, 1))) for _ in range(2000)
    ]
    # (xy + 1)^3 = sum of binomials: the distance is sum_k C(3, k) (E x^k - E y^k)^2.
    want = 3 * m**2 + 3 * (m**2) ** 2 + (m**3 + 3 * m) ** 2
    standard_error = np.std(estimates, ddof=1) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - want) < 5 * standard_error


def test_subsets_are_disjoint_and_their_standard_error_is_one():
    """One odd row among equal ones lies in exactly one of the subsets that use every row."""
    num_subsets, subset_size, odd = 4, 5, 2.0
    a, b = np.zeros((20, 1)), np.ones((20, 1))
    a[3] = odd
    got = kernel_distance_subsets(
        jax.random.key(0), a, b, num_subsets=num_subsets, subset_size=subset_size
    )
    # Within a all kernels are 1, within b 8; between, 1 but (odd + 1)^3 for the odd row.
    drop = 2 * ((odd + 1) ** 3 - 1) / subset_size
    assert got.mean == pytest.approx(7 - drop / num_subsets, rel=1e-12)
    # One of four values differs by `drop`: variance drop^2 / 4, over four values.
    assert got.standard_error == pytest.approx(drop / num_subsets, rel=1e-12)


def test_subsets_follow_the_key_and_agree_with_the_whole():
    a, b = make_features(300, 2, seed=0), make_features(320, 2, seed=1)
    draws = [
        kernel_distance_subsets(
            jax.random.key(k), a, b, num_subsets=6, subset_size=50, kernel="rbf"
        )
        for k in (0, 0, 1)
    ]
    assert draws[0] == draws[1] != draws[2]
    whole = kernel_distance(a, b, kernel="rbf")
    # A standard error from six subsets has five degrees of freedom: P(|t_5| > 10) is 2e-4, and
    # the whole is known better than they are.
    assert abs(draws[0].mean - whole) < 10 * draws[0].standard_error


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"kernel": "linear"}, "'polynomial' or 'rbf'"),
        ({"bandwidth": 1.0}, "only kernel='rbf'"),
        ({"kernel": "rbf", "bandwidth": 0.0}, "bandwidth must be positive"),
        ({"features_b": np.zeros((4, 3))}, "one extractor"),
        ({"features_b": np.zeros((1, 2))}, "features_b must have shape"),
        ({"features_a": np.full((4, 2), np.nan)}, "features_a must be finite"),
    ],
)
def test_kernel_distance_names_bad_arguments(kwargs, message):
    arguments = {"features_a": np.zeros((4, 2)), "features_b": np.ones((4, 2))} | kwargs
    with pytest.raises(ValueError, match=message):
        kernel_distance(**arguments)


@pytest.mark.parametrize(
    ("num_subsets", "subset_size", "message"),
    [(1, 2, "num_subsets"), (2, 1, "subset_size"), (3, 4, "need 12 rows a side, got 20 and 10")],
)
def test_subsets_name_bad_arguments(num_subsets, subset_size, message):
    with pytest.raises(ValueError, match=message):
        kernel_distance_subsets(
            jax.random.key(0),
            np.zeros((20, 2)),
            np.zeros((10, 2)),
            num_subsets=num_subsets,
            subset_size=subset_size,
        )


# ---- inception score ----


@pytest.mark.parametrize(
    ("table", "want"),
    [
        (np.eye(5), 5.0),
        (np.full((6, 4), 0.25), 1.0),
        (np.repeat([[1.0, 0.0]], 3, axis=0), 1.0),  # sure, but always of the same
        ([[1.0, 0.0], [0.5, 0.5]], (4 / 3) ** 0.75),
    ],
    ids=["sure-and-even", "unsure", "one-class", "by-hand"],
)
def test_inception_score_of_known_tables(table, want):
    score = inception_score(table, num_splits=1)
    assert score.mean == pytest.approx(want, rel=20 * EPS)
    assert score.standard_deviation == 0


def test_inception_score_splits_in_order():
    table = np.concatenate([np.eye(2), np.full((3, 2), 0.5)])  # two rows, then three
    score = inception_score(table, num_splits=2)
    assert score.mean == pytest.approx(1.5, rel=20 * EPS)
    assert score.standard_deviation == pytest.approx(0.5, rel=20 * EPS)


def test_inception_score_takes_a_float32_softmax():
    logits = 5 * np.random.default_rng(0).normal(size=(40, 1008)).astype(np.float32)
    p = np.asarray(jax.nn.softmax(logits), np.float64)
    marginal = p.mean(0)
    want = np.exp(np.mean(np.sum(p * np.log(p / marginal), axis=1)))
    assert inception_score(p, num_splits=1).mean == pytest.approx(want, rel=1008 * EPS)
    assert inception_score(jax.nn.softmax(logits)).mean > 1


@pytest.mark.parametrize(
    ("table", "num_splits", "message"),
    [
        (np.eye(3) * 2, 1, "sum to one"),
        ([[1.5, -0.5]], 1, "sum to one"),
        ([[np.nan, 1.0]], 1, "sum to one"),
        (np.ones(3) / 3, 1, "shape"),
        (np.eye(3), 4, "num_splits=4"),
        (np.eye(3), 0, "num_splits"),
    ],
)
def test_inception_score_names_bad_arguments(table, num_splits, message):
    with pytest.raises(ValueError, match=message):
        inception_score(table, num_splits=num_splits)


# ---- extrapolation ----

SIZES = np.array([1000, 1389, 1778, 2167, 2556, 2944, 3333, 3722, 4111, 4500])


def test_extrapolation_finds_the_intercept_of_a_line():
    # A line is recovered up to rounding times the leverage of the origin, here below 2.
    values = 12.5 + 3000 / SIZES
    assert extrapolate_to_infinity(SIZES, values) == pytest.approx(12.5, rel=100 * EPS)
    assert extrapolate_to_infinity([10, 40], [5.0, 2.0]) == pytest.approx(1.0, rel=100 * EPS)


def test_fit_is_numpys_least_squares():
    values = 12.5 + 3000 / SIZES + np.random.default_rng(0).normal(size=10)
    (slope, intercept), cov = np.polyfit(1 / SIZES, values, 1, cov=True)
    fit = fit_in_inverse_size(list(SIZES), list(values))
    assert fit.intercept == extrapolate_to_infinity(SIZES, values)
    # polyfit solves a system whose condition number is near 10.
    assert fit == pytest.approx((intercept, slope, np.sqrt(cov[1, 1])), rel=1e-11)


def test_standard_error_is_the_spread_of_the_intercept():
    rng = np.random.default_rng(0)
    fits = [fit_in_inverse_size(SIZES, rng.normal(7, 2, 10)) for _ in range(2000)]
    intercepts = [fit.intercept for fit in fits]
    spread = np.std(intercepts, ddof=1)
    assert abs(np.mean(intercepts) - 7) < 5 * spread / np.sqrt(2000)
    # A standard deviation of 2000 values is known to 1 / sqrt(4000) of itself; the mean of squared
    # standard errors, of 8 degrees of freedom each, to sqrt(2 / 8 / 2000).
    ratio = np.mean([fit.standard_error**2 for fit in fits]) / spread**2
    assert abs(ratio - 1) < 5 * np.hypot(2 / np.sqrt(4000), np.sqrt(2 / 8 / 2000))
    assert np.isnan(fit_in_inverse_size([1, 2], [0.0, 1.0]).standard_error)


@pytest.mark.parametrize(
    ("sizes", "values", "message"),
    [
        ([100], [1.0], "at least two different"),
        ([100, 100], [1.0, 2.0], "at least two different"),
        ([0, 100], [1.0, 2.0], "positive"),
        ([-5, 100], [1.0, 2.0], "positive"),
        ([100, np.inf], [1.0, 2.0], "positive"),
        ([100, 200], [1.0], "one length"),
        ([[100, 200]], [[1.0, 2.0]], "one length"),
        ([100, 200], [1.0, np.nan], "finite"),
    ],
)
def test_extrapolation_names_bad_points(sizes, values, message):
    with pytest.raises(ValueError, match=message):
        extrapolate_to_infinity(sizes, values)


def test_metric_at_sizes_draws_without_replacement_and_anew():
    features = np.arange(20.0).reshape(10, 2)
    seen = []

    def record(subset):
        seen.append(subset[:, 0].astype(int).tolist())
        return subset[:, 0].mean()

    values = metric_at_sizes(jax.random.key(0), record, features, [4, 4, 10])
    assert [len(set(rows)) for rows in seen] == [4, 4, 10]
    assert seen[0] != seen[1]
    assert seen[2] != sorted(seen[2])
    np.testing.assert_array_equal(values, [np.mean(rows) for rows in seen])
    again = metric_at_sizes(jax.random.key(0), record, features, [4, 4, 10])
    np.testing.assert_array_equal(values, again)
    assert not np.array_equal(
        values, metric_at_sizes(jax.random.key(1), record, features, [4, 5, 10])
    )


@pytest.mark.parametrize("sizes", [[1, 3], [3, 11]])
def test_metric_at_sizes_names_bad_sizes(sizes):
    with pytest.raises(ValueError, match="from 2 to the 10 images"):
        metric_at_sizes(jax.random.key(0), len, np.zeros((10, 2)), sizes)


def test_extrapolated_frechet_distance_loses_its_bias():
    """FID of N(0, 1) from N draws to itself: 1/N + 2 - 2 c4(N), which is 1.5/N + O(1/N^2)."""
    rng = np.random.default_rng(0)
    sizes = [20, 40, 80]
    truth = np.zeros(1), np.eye(1)

    def fid(subset):
        return frechet_distance(*feature_moments(subset), *truth)

    keys = jax.random.split(jax.random.key(0), 300)
    values = np.array([metric_at_sizes(k, fid, rng.normal(size=(80, 1)), sizes) for k in keys])
    log_gamma = scipy.special.gammaln
    c4 = [np.sqrt(2 / (n - 1)) * np.exp(log_gamma(n / 2) - log_gamma((n - 1) / 2)) for n in sizes]
    want = 1 / np.array(sizes) + 2 - 2 * np.array(c4)
    standard_errors = values.std(0, ddof=1) / np.sqrt(len(keys))
    assert np.all(np.abs(values.mean(0) - want) < 5 * standard_errors)
    intercepts = np.array([extrapolate_to_infinity(sizes, row) for row in values])
    standard_error = intercepts.std(ddof=1) / np.sqrt(len(keys))
    # What is left is the curve of the exact values, far below the bias at the largest size.
    curvature = extrapolate_to_infinity(sizes, want)
    assert abs(intercepts.mean() - curvature) < 5 * standard_error
    assert abs(curvature) < want[-1] / 20


# ---- extraction ----


@pytest.mark.parametrize(("n", "batch_size"), [(7, 3), (6, 3), (2, 5), (1, 1)])
def test_extraction_keeps_every_image_and_one_shape(n, batch_size):
    images = np.random.default_rng(0).integers(0, 256, (n, 2, 2, 1), np.uint8)
    shapes = []

    @jax.jit
    def features_fn(batch):
        shapes.append((batch.shape, batch.dtype))  # once a compilation
        rows = batch.reshape(batch.shape[0], -1).astype("float32")
        return {"pixels": rows, "sum": rows.sum(1)}

    got = extract_in_batches(features_fn, images, batch_size)
    assert np.array_equal(got["pixels"], images.reshape(n, -1))
    assert np.array_equal(got["sum"], images.sum((1, 2, 3)))
    assert shapes == [((batch_size, 2, 2, 1), np.uint8)]
    assert all(type(rows) is np.ndarray for rows in got.values())


def test_extraction_names_bad_arguments():
    images = np.zeros((4, 2, 2, 1))
    with pytest.raises(ValueError, match="batch_size"):
        extract_in_batches(lambda x: x, images, 0)
    with pytest.raises(ValueError, match="images must have shape"):
        extract_in_batches(lambda x: x, images[:0], 2)
    for wrong in (lambda x: x.mean(), lambda x: x[:1], lambda x: ()):
        with pytest.raises(ValueError, match="one row an image: 2 of them"):
            extract_in_batches(wrong, images, 2)
