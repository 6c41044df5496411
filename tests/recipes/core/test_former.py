"""Configurations of runs made before fields were renamed go on as runs of today."""

import json
from pathlib import Path

import pytest

from ebmjax.recipes.core import former, workdir
from ebmjax.recipes.core.fields import WorkdirError
from experiments.configs import (
    igebm_digits,
    jem_digits,
    shortrun_cifar10,
    svgdjem_digits,
    thermo_digits,
    toy_beta,
    toy_samplers,
)


def as_made_before(config, family):
    """``config`` as json, without what the table of samplers brought."""
    saved = json.loads(config.to_json_best_effort())
    saved["family"] = family
    sampler = saved["sampler"]
    for name in ("gradient_descent", "hmc", "literal_psgld", "svgd", "proximal_sgld"):
        sampler.pop(name, None)
    sampler.pop("allow_decoupled", None)
    return saved


def check_goes_on(tmp_path, saved, config):
    (tmp_path / "config.json").write_text(json.dumps(saved))
    workdir.check(tmp_path, config)


def test_the_box_project_is_clamp(tmp_path):
    config = igebm_digits.get_config()
    saved = as_made_before(config, "igebm")
    saved["sampler"]["box"] = "project"
    saved["sampler"]["allow_decoupled"] = False
    saved["sampler"]["hmc"] = config.sampler.hmc.to_dict()
    check_goes_on(tmp_path, saved, config)
    assert workdir.read_config(tmp_path)["sampler"]["box"] == "clamp"
    config.sampler.box = "reflect"
    with pytest.raises(WorkdirError, match=r"sampler.box was 'clamp' and is now 'reflect'"):
        workdir.check(tmp_path, config)


@pytest.mark.parametrize("variant", ["", "hmc"])
def test_hmc_was_a_kernel_of_blackjax(variant, tmp_path):
    config = jem_digits.get_config(variant)
    saved = as_made_before(config, "jem")
    saved["sampler"]["blackjax"] |= {
        "kernel": "hmc",
        "hmc": {"step_size": 0.01, "num_integration_steps": 5},
    }
    saved["sampler"]["literal_mala"]["temperature"] = 1.0
    if variant:
        saved["sampler"]["name"] = "blackjax"
    check_goes_on(tmp_path, saved, config)
    if variant:
        config.sampler.hmc.step_size = 0.2
        with pytest.raises(WorkdirError, match=r"sampler.hmc.step_size was 0.1 and is now 0.2"):
            workdir.check(tmp_path, config)


def test_samplers_of_latent_models_had_temperature_1(tmp_path):
    config = thermo_digits.get_config()
    saved = as_made_before(config, "thermo")
    for section in (saved["sampler"]["prior"], saved["sampler"]["posterior"]):
        del section["noise_scale"], section["temperature"]
    check_goes_on(tmp_path, saved, config)


MADE_BEFORE = Path(__file__).parent / "made_before"
"""Files config.json of runs made before fields were declared, whose families had other names."""

CONFIGS = {
    "jem_digits": jem_digits.get_config,
    "svgdjem_digits": svgdjem_digits.get_config,
    "igebm_digits": igebm_digits.get_config,
    "shortrun_cifar10_cpu": lambda: shortrun_cifar10.get_config("cpu"),
    "thermo_digits": thermo_digits.get_config,
    "toy_beta": toy_beta.get_config,
    "toy_samplers": toy_samplers.get_config,
}


def read_before(name):
    return json.loads((MADE_BEFORE / f"{name}.json").read_text())


@pytest.mark.parametrize("name", CONFIGS)
def test_a_run_made_before_goes_on(name, tmp_path):
    config, saved = CONFIGS[name](), read_before(name)
    check_goes_on(tmp_path, saved, config)
    saved["train"]["batch_size"] += 1
    with pytest.raises(WorkdirError, match=r"train\.batch_size was"):
        check_goes_on(tmp_path, saved, config)


def test_another_value_of_a_field_that_is_a_constant_today_is_told(tmp_path):
    config, saved = toy_samplers.get_config(), read_before("toy_samplers")
    saved["optimizer"]["b2"] = 0.9
    with pytest.raises(WorkdirError, match=r"optimizer.b2 was 0.9 and is now 'absent'"):
        check_goes_on(tmp_path, saved, config)


def test_what_is_read_is_left_as_it_was():
    saved = {"family": "igebm", "sampler": {"box": "project"}}
    assert former.today(saved) == {"family": "image", "sampler": {"box": "clamp"}}
    assert saved["sampler"]["box"] == "project"


@pytest.mark.parametrize("name", CONFIGS)
def test_an_evaluation_made_before_is_of_the_same_fields(name, tmp_path):
    section = read_before(name)["eval"]
    (tmp_path / "evaluation.json").write_text(json.dumps({"eval": section}))
    workdir.check_evaluated(tmp_path, CONFIGS[name]())


def test_an_evaluation_in_other_settings_of_samplers_is_told(tmp_path):
    section = read_before("toy_samplers")["eval"]
    del section["settings"]["tuned"]["tempered_mala"]["acceptance_decay"]
    section["settings"]["tuned"]["mala"]["step_size"] = 0.5
    (tmp_path / "evaluation.json").write_text(json.dumps({"eval": section}))
    with pytest.raises(WorkdirError, match=r"config.eval: eval.settings.tuned.mala.step_size was"):
        workdir.check_evaluated(tmp_path, toy_samplers.get_config())
