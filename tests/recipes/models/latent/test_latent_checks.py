"""Latent EBM configurations whose fields do not go together."""

import jax
import jax.numpy as jnp
import pytest
from experiment_runs import digits

from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.models.latent.parts import model_of, widths
from experiments.configs import thermo_digits

REFUSED = [
    (
        {"sampler.persistent": True, "sampler.warm_start": True},
        r"config\.sampler\.persistent and config\.sampler\.warm_start exclude each other",
    ),
    (
        {"loss.name": "covariance"},
        r"needs at least 2 chains of every image, got config\.loss\.chains_per_observation=1",
    ),
    (
        {"loss.name": "through_chain", "loss.kl_weight": 0.0, "sampler.persistent": True},
        r"differentiates whole chains and so starts them afresh",
    ),
    (
        {
            "loss.name": "through_chain",
            "loss.kl_weight": 0.0,
            "sampler.posterior.name": "mala",
        },
        r"config\.sampler\.posterior\.name='mala' accepts or rejects",
    ),
    (
        {"loss.name": "through_chain", "loss.chains_per_observation": 16},
        r"config\.loss\.chains_per_observation=16 cannot carry the full covariance .*dim=16 dim",
    ),
    (
        {"loss.name": "through_chain", "loss.kl_covariance": "diagonal"},
        r"chains_per_observation=1 cannot carry a diagonal .*at least 4.*kl_weight=0\.0",
    ),
    (
        {"train.keep_best": "test_accuracy"},
        r"keep_best='test_accuracy' .* which monitors \['sample_fid', 'sample_is', 'sample_kid'\]",
    ),
    (
        {"evals.generation.smallest_num": 40},
        r"evals\.generation\.smallest_num must be from 2 to .*generation\.num_images - 1 = 39",
    ),
]


@pytest.mark.parametrize(("overrides", "expected"), REFUSED)
def test_fields_that_exclude_each_other(overrides, expected):
    with pytest.raises(ConfigError, match=expected):
        families.check(digits(**overrides))


@pytest.mark.parametrize("num_chains", [8, 20, 60])
def test_populations_of_smc_have_every_chain(num_chains):
    overrides = {
        "evals.evidence.methods": ("smc",),
        "evals.evidence.num_chains": num_chains,
        "evals.evidence.divergences": False,
    }
    pattern = rf"evidence\.num_chains must be a multiple of 8, and at least 16, .* got {num_chains}"
    with pytest.raises(ConfigError, match=pattern):
        families.check(digits(**overrides))
    families.check(digits(**overrides | {"evals.evidence.num_chains": 24}))


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"loss.name": "covariance", "loss.chains_per_observation": 2},
        {"loss.name": "through_chain", "loss.kl_weight": 0.0},
        {"sampler.persistent": True},
        {"evals.generation.every": "never"},
        {"train.keep_best": "sample_fid", "evals.checkpoint": "best"},
    ],
)
def test_what_goes_together_passes(overrides):
    families.check(digits(**overrides))


@pytest.mark.parametrize(
    ("side", "expected"),
    [(8, (64,)), (25, (128, 64)), (28, (128, 64)), (32, (256, 128, 64)), (33, (256, 128, 64))],
)
def test_the_generators_widths_follow_the_side_of_the_data(side, expected):
    assert widths(side) == expected
    config = thermo_digits.get_config()
    model, init = model_of(config, (side, side + 1, 3))
    params = jax.eval_shape(init, jax.random.key(0))
    images = jax.eval_shape(model.generator_fn, params.generator, jnp.zeros((2, 16)))
    assert images.shape == (2, side, side + 1, 3)
