"""Latent EBM configurations whose fields do not go together."""

import jax
import jax.numpy as jnp
import pytest
from experiment_runs import digits, launch

from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.models.latent.parts import model_of, widths
from experiments.configs import thermo_digits

LITERAL = {"loss.name": "through_chain", "loss.kl_weight": 0.0}
ADAPTIVE = {"loss.pilot_intervals": 40, "loss.exponent": 25.0, "loss.schedule": "adaptive"}
REFUSED = [
    ({"sampler.persistent": True, "sampler.warm_start": True}, "persistent .*warm_start exclude"),
    ({"loss.name": "covariance"}, r"at least 2 chains .*loss\.chains_per_observation=1"),
    (LITERAL | {"sampler.persistent": True}, "differentiates whole chains"),
    (LITERAL | {"sampler.posterior.name": "mala"}, r"posterior\.name='mala' accepts or rejects"),
    ({"loss.name": "through_chain", "loss.chains_per_observation": 16}, "the full covariance"),
    ({"loss.name": "through_chain", "loss.kl_covariance": "diagonal"}, "cannot carry a diagonal"),
    ({"train.keep_best": "test_accuracy"}, r"which monitors \['sample_fid', 'sample_is'"),
    ({"evals.generation.smallest_num": 40}, r"smallest_num must be from 2 to .*num_images - 1"),
    *(
        (
            {
                "evals.evidence.methods": ("smc",),
                "evals.evidence.num_chains": num,
                "evals.evidence.divergences": False,
            },
            rf"num_chains must be a multiple of 8, and at least 16, .* got {num}",
        )
        for num in (8, 60)
    ),
    ({"evals.evidence.num_chains": 47}, r"num_chains=47 are too few .*num_chains=48"),
    ({"train.batch_size": 152}, r"config\.train\.batch_size must be at most"),
    ({"mesh.num_shards": 7}, r"config\.train\.batch_size must be a multiple of"),
    ({"data.holdout": 140}, r"config\.data\.holdout=140 leaves 4 of 144 training images"),
    ({"train.num_epochs": 2**31 - 1}, r"config\.train\.num_epochs=2147483647 makes more"),
    ({"data.max_test": 20, "evals.num_test": 24}, r"config\.evals\.num_test must be at most"),
    ({"evals.evidence.num_images": 25}, r"config\.evals\.evidence\.num_images must be at most"),
    # Powers that underflow near 0, or round to 1.
    ({"loss.num_intervals": 10, "loss.exponent": 38.0}, "make powers that coincide"),
    ({"loss.num_intervals": 10, "loss.exponent": 1e-7}, "make powers that coincide"),
    (ADAPTIVE, r"pilot_intervals=40 and config\.loss\.exponent=25\.0 make powers"),
    ({"data.name": "cifar11"}, r"config\.data\.name='cifar11', split train: "),
]


@pytest.mark.parametrize(("overrides", "expected"), REFUSED)
def test_fields_that_do_not_fit_each_other_are_named(overrides, expected, tmp_path):
    with pytest.raises(ConfigError, match=expected) as caught:
        launch(digits(**overrides), "configs/thermo_digits.py:smoke", str(tmp_path / "run"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


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
