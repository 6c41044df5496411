"""Refusals of configurations: they name the field, and nothing is written."""

import math
import re

import pytest
from experiment_runs import digits, launch

from ebmjax.recipes.config import declare, families
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.run.explain import fields_behind

COUNTS = (
    "train.num_epochs", "train.batch_size", "train.steps_per_dispatch", "train.log_every",
    "train.checkpoint_every_epochs", "train.max_consecutive_skips", "mesh.num_shards",
    "data.image_size", "data.max_train", "data.max_test", "model.latent_dim",
    "sampler.prior.num_steps", "sampler.posterior.num_steps", "loss.num_intervals",
    "loss.pilot_intervals", "eval.num_test", "eval.evidence.num_images",
    "eval.evidence.num_chains",
)  # fmt: skip
POSITIVE = (
    "sampler.prior.step_size", "sampler.posterior.step_size", "loss.exponent",
    "model.likelihood_scale", "optimizer.prior.learning_rate",
    "optimizer.prior.final_learning_rate", "optimizer.generator.learning_rate",
    "optimizer.generator.final_learning_rate", "eval.every_epochs",
)  # fmt: skip
OUT_OF_RANGE = [
    *((name, value) for name in COUNTS for value in (0, -1)),
    *((name, value) for name in POSITIVE for value in (0.0, -1.0, math.nan, math.inf)),
    *(("loss.kl_weight", value) for value in (-0.1, math.nan, math.inf)),
    *(("optimizer.decay_per_epoch", value) for value in (0.0, 1.1, math.nan)),
    ("eval.gradient_variance.num_gradients", 1),
    ("eval.samples.num_images", 1),
    ("eval.samples.num_images", -1),
    ("seed", -1),
    ("seed", 2**32),  # the key of 0
    ("model.generator_features", (0,)),
    ("model.prior_hidden", (100, -1)),
    ("model.prior_hidden", (100.0,)),
    ("model.prior_hidden", ("wide",)),
    ("model.prior_hidden", (True,)),  # an integer in Python
    ("train.num_epochs", 2**31),
    ("eval.evidence.num_chains", 10**30),
    ("loss.exponent", 1e300),  # infinite in 32 bits
    ("model.likelihood_scale", 1e-300),  # 0 in 32 bits
]
# Numbers of intervals and exponents whose powers underflow near 0, or round to 1.
INDISTINCT = [(10, 38.0), (10, 40.0), (10, 60.0), (30, 30.0), (10, 1e-7), (10, 1e-9)]
UNKNOWN = [
    ("family", "thermal", "'latent'"),
    ("sampler.prior.name", "nuts", "'sgld'"),
    ("sampler.posterior.name", "svgd", "'mala'"),
    ("loss.name", "best", "['covariance', 'frozen_prior', 'telescoped', 'tempered'"),
    ("eval.evidence.methods", ("best",), "'stepping_stone'"),
    ("loss.kl_covariance", "tiny", "['diagonal', 'full', 'shrunk']"),
]


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """The message with which a run of the smoke configuration, changed, is refused."""
    monkeypatch.chdir(tmp_path)

    def refused(error=ConfigError, **overrides):
        with pytest.raises(error) as caught:
            launch(digits(**overrides), "configs/thermo_digits.py:smoke", "run")
        message = str(caught.value)
        assert message.endswith((".", ")", "...", "?"))
        assert "\n" not in message
        assert not (tmp_path / "run").exists()
        assert not (tmp_path / "runs").exists()
        return message

    return refused


@pytest.mark.parametrize(("name", "value"), OUT_OF_RANGE)
def test_a_value_out_of_range_is_named(name, value, refused):
    message = refused(**{name: value})
    pattern = rf"config\.{re.escape(name)} must be .*, got {re.escape(repr(value))}\. Set it with"
    assert re.match(pattern, message), message


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("energy", "model.features"),
        ("energy", "model.hidden"),
        ("latent", "model.generator_features"),
    ],
)
def test_a_network_without_layers_is_refused(family, name):
    fields = families.all_fields(family)
    config = declare.defaults(fields)
    config.update_from_flattened_dict({name: ()})
    with pytest.raises(ConfigError, match=rf"config\.{name} must have at least one entry"):
        declare.check(fields, config)


@pytest.mark.parametrize("family", families.FAMILIES)
def test_no_integer_may_be_larger_than_programs_count(family):
    """A larger one would end in the compiler, in a folder that was filled meanwhile."""
    fields = families.all_fields(family)
    names = {
        name
        for name, one in fields.items()
        if one.values.kind is int and name not in ("seed", "eval.density.grid_points")
    }
    assert {"train.num_epochs", "mesh.num_shards"} < names
    for name in names:
        assert f"at most {2**31 - 1}" in fields[name].values.refusal(2**31), name
        assert fields[name].values.refusal(2**31 - 1) is None, name


@pytest.mark.parametrize(("name", "value", "choices"), UNKNOWN)
def test_an_unknown_name_lists_the_choices(name, value, choices, refused):
    message = refused(**{name: value})
    assert message.startswith(f"config.{name} must be one of ")
    assert choices in message
    wrong = value[0] if isinstance(value, tuple) else value
    assert f", got {wrong!r}." in message  # and perhaps the nearest names


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"train.batch_size": 152}, r"config\.train\.batch_size must be at most .* got 152 with"),
        ({"mesh.num_shards": 7}, r"config\.train\.batch_size must be a multiple of"),
        (
            {"eval.evidence.num_chains": 47},
            r"config\.eval\.evidence\.num_chains=47 are too few .*config\.model\.latent_dim=16 .*"
            r"--config\.eval\.evidence\.num_chains=48 .*evidence\.divergences=False",
        ),
        (
            {"data.holdout": 140, "data.max_holdout": None},
            r"config\.data\.holdout=140 leaves 4 of 144 training images .*at least config\."
            r"train\.batch_size=72\.",
        ),
        ({"train.num_epochs": 2**31 - 1}, r"config\.train\.num_epochs=2147483647 makes more"),
        ({"data.max_test": 20, "eval.num_test": 24}, r"config\.eval\.num_test must be at most"),
        ({"eval.evidence.num_images": 25}, r"config\.eval\.evidence\.num_images must be at most"),
        *(
            (
                {"loss.num_intervals": num_intervals, "loss.exponent": exponent},
                rf"config\.loss\.num_intervals={num_intervals} and config\.loss\.exponent="
                rf"{exponent} make powers that coincide .* Take an exponent nearer to 1, or fewer",
            )
            for num_intervals, exponent in INDISTINCT
        ),
        ({"loss.pilot_intervals": 40, "loss.exponent": 25.0, "loss.schedule": "adaptive"},
         r"config\.loss\.pilot_intervals=40 and config\.loss\.exponent=25\.0 make powers"),
        ({"data.name": "cifar11"}, r"config\.data\.name='cifar11', split train: name must be a"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_fields_that_do_not_fit_each_other_are_named(overrides, expected, refused):
    assert re.search(expected, refused(**overrides))


def test_fields_are_found_by_the_arguments_of_the_library_and_their_values():
    config = digits(**{"loss.num_intervals": 4, "sampler.prior.step_size": 0.4})
    found = fields_behind("intervals=4, step_size=0.4; size=0.4 and steps=-1.", config)
    assert found == ["config.loss.num_intervals=4", "config.sampler.prior.step_size=0.4"]
    assert fields_behind("prior_step_size must be 1; got 0.4.", config) == found[1:]
    assert fields_behind("config.loss.num_intervals=4 with num_intervals=4", config) == []
