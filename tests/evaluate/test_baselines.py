"""Baselines against densities that are known."""

import jax
import numpy as np
import pytest
import scipy.stats

from ebmjax import evaluate

RNG = np.random.default_rng(0)
MIXING = RNG.normal(size=(5, 5))
CENTRES = np.array([[-6.0, 0.0], [6.0, 0.0], [0.0, 6.0], [0.0, -6.0]])


def fit(x, *given, **options):
    return evaluate.fit_baselines(jax.random.key(0), x.reshape(len(x), -1, 1), *given, **options)


def assert_near(density, truth, x):
    """Compares mean log densities in pairs, within 5 standard errors."""
    differences = density(x) - truth
    assert abs(np.mean(differences)) < 5 * np.std(differences) / np.sqrt(len(x))
    assert np.std(differences) < 0.2 * np.std(truth)


def test_gaussian_data_have_their_closed_form():
    law = scipy.stats.multivariate_normal(np.arange(5.0), MIXING @ MIXING.T + np.eye(5))
    found = fit(law.rvs(3000, random_state=RNG), ranks=(2,))
    test = law.rvs(1000, random_state=RNG)
    assert next(iter(found)) == "gaussians"
    assert len(found["gaussians"].args[0]) == 1
    assert_near(found["gaussians"], law.logpdf(test), test)


def draw_clusters(num):
    labels = RNG.choice(4, num, p=[0.1, 0.2, 0.3, 0.4])
    x = CENTRES[labels] + RNG.normal(size=(num, 2)) * [0.5, 1.0]
    densities = [scipy.stats.norm.pdf(x, c, [0.5, 1.0]).prod(1) for c in CENTRES]
    return x, labels, np.log(np.array([0.1, 0.2, 0.3, 0.4]) @ densities)


@pytest.mark.parametrize("with_labels", [False, True])
def test_a_mixture_has_its_number_of_components_and_density(with_labels):
    x, labels, _ = draw_clusters(3000)
    found = fit(x, labels if with_labels else None, num_components=(1, 2, 4, 16), ranks=(1,))
    test, _, truth = draw_clusters(1000)
    assert len(found["gaussians"].args[0]) == 4
    assert_near(found["gaussians"], truth, test)
    if with_labels:  # a factor and a variance for each coordinate are any Gaussian of the plane
        assert_near(found["factor_analysis"], truth, test)
    assert ("uniform" in found, "flow" in found) == (False, False)


def test_a_covariance_of_few_factors_is_found_where_images_are_few():
    """Forty pixels of two factors: 160 images are too few for a full covariance."""
    factor = RNG.normal(size=(40, 2))
    law = scipy.stats.multivariate_normal(np.zeros(40), factor @ factor.T + 0.1 * np.eye(40))
    found = fit(law.rvs(200, random_state=RNG), ranks=(2, 8), box=(-1.0, 1.0))
    assert list(found) == ["factor_analysis", "gaussians", "uniform"]
    assert found["factor_analysis"].args[0][0].factor.shape == (40, 2)
    test = law.rvs(2000, random_state=RNG)
    means = [np.mean(density(test)) for density in found.values()]
    assert np.mean(law.logpdf(test)) > means[0] > means[1] > means[2]
    assert means[2] == pytest.approx(-40 * np.log(2))


@pytest.mark.slow
def test_a_flow_is_normalised_and_learns_a_curve():
    pytest.importorskip("flowjax")
    angle = RNG.uniform(0, np.pi, 2000)
    x = np.stack([np.cos(angle), np.sin(angle)], 1) + 0.1 * RNG.normal(size=(2000, 2))
    options = {"num_components": (1,), "flow_minutes": 0.5}
    grid = np.stack(np.meshgrid(*[np.linspace(-4, 4, 401)] * 2), -1).reshape(-1, 2)
    found = fit(x, **options)
    values = found["flow"](grid)
    assert next(iter(found)) == "flow"
    assert np.exp(values).sum() * 0.02**2 == pytest.approx(1, abs=0.02)


def test_too_few_positions_are_refused():
    with pytest.raises(ValueError, match=r"len\(x\)"):
        fit(np.zeros((5, 2)))
