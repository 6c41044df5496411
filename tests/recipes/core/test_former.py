"""Configurations of runs made before fields were renamed go on as runs of today."""

import json

import pytest

from ebmjax.recipes.core import former, workdir
from ebmjax.recipes.core.fields import WorkdirError
from experiments.configs import igebm_digits, jem_digits, thermo_digits, toy_samplers


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


def test_samplers_of_latent_models_and_of_the_plane_had_temperature_1(tmp_path):
    for folder, config, family in (
        (tmp_path / "latent", thermo_digits.get_config(), "thermo"),
        (tmp_path / "plane", toy_samplers.get_config(), "toy_samplers"),
    ):
        folder.mkdir()
        saved = as_made_before(config, family)
        for section in (saved["sampler"], *saved["sampler"].values()):
            if isinstance(section, dict) and "noise_scale" in section:
                del section["noise_scale"], section["temperature"]
        for setting in saved.get("eval", {}).get("settings", {}).values():
            del setting["tempered_mala"]["acceptance_decay"], setting["literal_mala"]["ratio"]
            del setting["proximal_sgld"]  # a sampler that was not there
        check_goes_on(folder, saved, config)
    config.eval.settings.tuned.tempered_mala.acceptance_decay = 0.5
    with pytest.raises(WorkdirError, match=r"tuned.tempered_mala.acceptance_decay was 0.9 and is"):
        workdir.check(folder, config)


def test_what_is_read_is_left_as_it_was():
    saved = {"family": "igebm", "sampler": {"box": "project"}}
    assert former.today(saved) == {"family": "image", "sampler": {"box": "clamp"}}
    assert saved["sampler"]["box"] == "project"


def test_an_evaluation_made_before_is_of_the_same_fields(tmp_path):
    config = toy_samplers.get_config()
    section = json.loads(config.to_json_best_effort())["eval"]
    del section["settings"]["tuned"]["tempered_mala"]["acceptance_decay"]
    del section["settings"]["tuned"]["proximal_sgld"]  # a sampler that was not there
    (tmp_path / "evaluation.json").write_text(json.dumps({"eval": section}))
    workdir.check_evaluated(tmp_path, config)
    config.eval.settings.tuned.mala.step_size = 0.5
    with pytest.raises(WorkdirError, match=r"config.eval: settings.tuned.mala.step_size was 1.0"):
        workdir.check_evaluated(tmp_path, config)
