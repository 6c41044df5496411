"""Image energies from configurations: what is refused, and every variant."""

import pytest
from experiment_runs import assert_keeps_state, build_experiment
from experiment_runs import image as smoke

from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.models.energy import checks
from ebmjax.recipes.parts.objectives import chains_beta
from ebmjax.recipes.parts.samplers import temperature

TILTED = {"sampler.names": ("tilted_langevin",), "sampler.box": "none"}
BOXED = {"sampler.names": ("sgld", "mala"), "sampler.box": "reject"}

SHARED = {"sampler.names": ("sgld", "tilted_langevin"), "sampler.box": "none"}


@pytest.mark.parametrize(
    ("variant", "overrides", "message"),
    [
        ("", {"data.num_classes": 0, "model.is_conditional": True}, "is an energy E"),
        ("", {"sampler.names": ("sgld", "sgld")}, "must be different samplers"),
        ("mixed", {"sampler.num_samples": 16},
         "must be a multiple of 3, for equal parts of samplers .*num_shards=1 shards"),
        ("", {"sampler.buffer.size": 4}, "config.sampler.buffer.size must be .* and at least 12"),
        ("conditional", {"sampler.buffer.size": 201}, "size must be a multiple of 10"),
        ("conditional", {"sampler.buffer.size": 110}, "size must be .* and at least 120"),
        ("improved", {"mesh.num_shards": 2, "loss.num_references": 7},
         "num_references=7 must be a multiple of config.mesh.num_shards=2"),
        ("", {"evals.samples.every": "never", "train.keep_best": "sample_fid"},
         r"keep_best must be one of \[\]"),
        ("improved", {"sampler.name": "mala"}, "set --config.sampler.name=sgld"),
        ("improved", {"loss.live_steps": 3}, "live_steps=3 below config.sampler.num_steps=3"),
        ("improved", {"sampler.max_score": 1.0}, "set --config.sampler.max_score=None"),
        ("", {"sampler.names": ("tilted_langevin",)}, "set --config.sampler.box=none"),
        ("", SHARED, "negatives between chains of two"),
        ("", TILTED | {"loss.name": "denoising"}, r"name=mala '--config.sampler.names=\(\)'"),
        ("", BOXED | {"sampler.buffer.start_scale": 2},
         r"box='reject' keeps chains in \[-1.2, 1.2\], and .*='uniform' may start them"),
        ("", {"model.num_scales": 4}, "must have at least 16 pixels a side"),
        ("", {"data.holdout": 60}, "batch_size must be at most .*, 4 after .*holdout=60"),
        ("beta", {"train.batch_size": 15, "loss.beta_variant": "true_objective"},
         "batch_size must be even"),
    ],
)  # fmt: skip
def test_a_mistake_is_told(variant, overrides, message, tmp_path):
    config = smoke(variant, **overrides)
    with pytest.raises(ConfigError, match=message):
        build_experiment(config, tmp_path)


def test_temperatures():
    config = smoke(**{"sampler.sgld.step_size": 2.0, "sampler.sgld.noise_scale": 0.4})
    config.sampler.names = ("sgld", "hmc")
    sgld, hmc = checks.find_samplers(config).values()
    assert temperature(sgld) == pytest.approx(0.04)
    assert temperature(hmc) == 5e-5
    config.sampler.sgld.noise_scale = None
    assert temperature(checks.find_samplers(config)["sgld"]) == config.sampler.sgld.temperature


VARIANTS = ("psgld_exact", "mala_literal", "tempered_mala", "multiscale", "conditional")
VARIANTS += ("improved", "augmented", "short_run", "beta_schedule", "bare_psgld")


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_makes_a_step_that_keeps_the_state(variant, tmp_path):
    metrics = assert_keeps_state(smoke(variant), tmp_path)
    assert metrics["chain_acceptance_prob"].shape == (2,)


def test_beta_over_the_run():
    config = smoke("beta", **{"loss.beta_start": 0.0, "loss.beta": 0.4})
    beta = lambda step: chains_beta({**config.loss, "step": step}, 10)  # noqa: E731
    assert [float(beta(step)) for step in (0, 5, 10)] == pytest.approx([0.0, 0.2, 0.4])
    config.loss.beta_start = None
    assert beta(3) == 0.4
    assert chains_beta({}, 10) == 0.0
