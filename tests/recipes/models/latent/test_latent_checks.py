"""Latent EBM configurations whose fields do not go together."""

import jax
import jax.numpy as jnp
import pytest
from experiment_runs import digits, launch

from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.models.latent.parts import model_of, widths
from experiments.configs import thermo_digits

THROUGH = {"loss.name": "through_chain"}
EXCHANGE = {"sampler.exchange_every": 2}
REFUSED = [
    ({"sampler.persistent": True, "sampler.warm_start": True}, "persistent .*warm_start exclude"),
    (EXCHANGE | {"loss.name": "vanilla"}, "swaps powers above 0, .* got 'vanilla'"),
    (EXCHANGE | {"sampler.warm_start": True}, "exchange_every swaps powers above 0"),
    (EXCHANGE | {"sampler.posterior.temperature": 0.5}, "posterior.temperature must be 1"),
    (EXCHANGE | {"sampler.place_powers": True}, "place_powers needs .*persistent=True"),
    ({"loss.name": "covariance"}, r"chains_per_observation must be at least 2 for .*, got 1"),
    (THROUGH | {"sampler.persistent": True}, "differentiates whole chains"),
    (THROUGH | {"sampler.posterior.name": "mala"}, r"posterior\.name='mala' may reject"),
    (THROUGH | {"sampler.name": "hmc"}, r": config\.sampler\.name='hmc' may reject"),
    (THROUGH | {"loss.kl_weight": 1.0}, "at least 4 for .*kl_covariance='diagonal'"),
    (THROUGH | {"loss.kl_weight": 1.0, "loss.kl_covariance": "full"}, "at least 19 for .*'full'"),
    ({"train.keep_best": "test_accuracy"}, r"keep_best must be one of \['sample_fid', 'sample_k"),
    ({"evals.evidence.num_chains": 60}, "num_chains must be a multiple of 8 of at least 16"),
    ({"train.batch_size": 152}, r"config\.train\.batch_size must be at most"),
    ({"mesh.num_shards": 7}, r"config\.train\.batch_size must be a multiple of"),
    (
        {"data.holdout": 140},
        "must be at most .* 4 after config.data.max_train=144 and config.data.holdout=140",
    ),
    ({"train.num_epochs": 2**31 - 1}, r"config\.train\.num_epochs=2147483647 makes more"),
    # Powers that underflow near 0.
    ({"loss.exponent": 38.0}, "loss.exponent must be from 0.01 to 10"),
    ({"data.name": "cifar11"}, r"config\.data\.name='cifar11'.*, split train: "),
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
