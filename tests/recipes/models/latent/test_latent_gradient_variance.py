"""The gradient variance of the prior and of the generator apart, and where runs report it."""

import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax.latent import LatentParams
from ebmjax.recipes.evaluators.gradient_variance import over_batches, over_coordinates

RNG = np.random.default_rng(0)
# Parts of different sizes, means and scales: no part's number is another's.
PRIOR = RNG.normal(1, 2, (5, 6))
GENERATOR = RNG.normal(-1, 0.5, (5, 4))
GRADIENTS = [
    LatentParams({"kernel": jnp.asarray(prior)}, {"kernel": jnp.asarray(generator)})
    for prior, generator in zip(PRIOR.astype(np.float32), GENERATOR.astype(np.float32), strict=True)
]
# Sums of ten numbers of one sign, around means of up to twice their deviation.
RTOL = 16 * float(np.finfo(np.float32).eps)


def test_every_part_has_the_thesiss_variance():
    found = over_coordinates(GRADIENTS[0])
    expected = {
        "coordinate_gradient_variance": np.concatenate([PRIOR[0], GENERATOR[0]]).var(),
        "prior_coordinate_gradient_variance": PRIOR[0].var(),
        "generator_coordinate_gradient_variance": GENERATOR[0].var(),
    }
    assert found == {name: pytest.approx(value, rel=RTOL) for name, value in expected.items()}


def test_every_part_has_the_variance_over_batches():
    found = over_batches(GRADIENTS)
    everything = np.concatenate([PRIOR, GENERATOR], axis=1)
    for name, part in (("", everything), ("prior_", PRIOR), ("generator_", GENERATOR)):
        variance = part.var(axis=0, ddof=1).mean()
        assert found[f"{name}gradient_variance"] == pytest.approx(variance, rel=RTOL)
        mean = part.var(axis=1).mean()
        assert found[f"mean_{name}coordinate_gradient_variance"] == pytest.approx(mean, rel=RTOL)
    norm = np.linalg.norm(everything.mean(axis=0))
    assert found["gradient_mean_norm"] == pytest.approx(norm, rel=RTOL)
    summed = everything.var(axis=0, ddof=1).sum()
    # A difference whose larger term is less than three times the result.
    assert norm**2 < 3 * (norm**2 - summed / 5)
    ratio = (norm**2 - summed / 5) / summed
    assert found["gradient_signal_to_noise"] == pytest.approx(ratio, rel=4 * RTOL)


def test_a_prior_that_never_learns_thins_the_variance_of_all_by_its_coordinates():
    silent = [LatentParams({"kernel": jnp.zeros(6)}, one.generator) for one in GRADIENTS]
    found = over_batches(silent)
    assert found["prior_gradient_variance"] == 0
    assert found["mean_prior_coordinate_gradient_variance"] == 0
    thinned = found["generator_gradient_variance"] * 4 / 10
    assert found["gradient_variance"] == pytest.approx(thinned, rel=RTOL)
