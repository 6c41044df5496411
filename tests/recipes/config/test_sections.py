"""A configuration has the sections of the samplers that it names, and of no others."""

import json
import re
import sys

import pytest

from ebmjax.recipes.config import command_line, declare, families, show_fields
from ebmjax.recipes.config.errors import WorkdirError
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.models.latent import checks as latent_checks
from ebmjax.recipes.models.latent import fields as latent
from ebmjax.recipes.parts import objectives, samplers
from ebmjax.recipes.parts.samplers import SAMPLERS
from experiments.configs import jem_digits

NAMING = [
    ("energy", "sampler.names", ("mala", "psgld")),
    ("joint", "sampler.name", "psgld"),
    ("latent", "sampler.name", "psgld"),
    ("latent", "sampler.posterior.name", "psgld"),
]
FILE = """
from functools import partial

from ebmjax.recipes.models.energy.fields import configure_joint as configure

BASE = {"sampler.psgld.decay": 0.25, "sampler.mala.step_size": 0.75}
VARIANTS = {"psgld": {"sampler.name": "psgld"}}
get_config = partial(configure, base=BASE, variants=VARIANTS)
"""


def sections_in(config):
    """Names of the samplers whose sections a configuration, or what JSON says of one, has."""
    return {f"sampler.{name}" for name in config["sampler"] if name in SAMPLERS}


@pytest.mark.parametrize(("family", "field", "value"), NAMING)
def test_a_section_is_where_its_sampler_is_named(family, field, value):
    every = families.all_fields(family)
    config = declare.defaults(every)
    assert sections_in(config) > {"sampler.psgld"}
    config.update_from_flattened_dict({field: value})
    families.check(config)
    before = config.to_json_best_effort()
    expected = {f"sampler.{name}" for name in declare.entries_of(value)}
    assert sections_in(run_folder.as_json(config)) == expected
    assert config.to_json_best_effort() == before
    families.prune(config)
    assert sections_in(config) == expected
    assert config.sampler.psgld.decay == every["sampler.psgld.decay"].default
    families.check(config)
    families.prune(config)  # again


ARGUMENTS = ("--config.sampler.name=mala", "--config.sampler.mala.step_size=0.2")


@pytest.mark.parametrize("arguments", [ARGUMENTS, ARGUMENTS[::-1]])
def test_a_command_line_names_a_sampler_and_sets_its_fields_in_any_order(arguments):
    config = command_line.read("configs/jem_digits.py", arguments)
    assert sections_in(config) == {"sampler.mala"}
    expected = {"step_size": 0.2, "temperature": 5e-4}
    assert config.sampler.mala.to_dict() == expected


OF = {"image": {**samplers.SINGLE, **samplers.TILTING, "": None}, "joint": {**SAMPLERS, "": None}}


@pytest.mark.parametrize(("config", "sampler"), [(key, one) for key in OF for one in OF[key]])
def test_one_flag_names_a_part_and_a_refusal_has_the_whole_command(config, sampler, capsys):
    of_others = {
        name for name, of in objectives.MODELS.items() if (of == "joint") == (config == "image")
    }
    for objective in {"", *objectives.OBJECTIVES} - of_others:
        named = ("sampler", sampler), ("loss", objective)
        given = [f"--config.{section}.name={one}" for section, one in named if one]
        try:
            command_line.read(config, given)
        except SystemExit as refused:
            assert len(given) == 2
            given += re.findall(r"--config\.\S*[^.\s]", str(refused))
        capsys.readouterr()
        found = command_line.read(config, [*given, "--config.sampler.num_steps=7"])
        assert found.sampler.num_steps == 7
        numbers = found.sampler.get(found.sampler.name)
        if objective and not objectives.draws(objective) and "temperature" in numbers:
            assert numbers.temperature == 1.0
            assert "chosen: " in capsys.readouterr().err or sampler == "tilted_langevin"


@pytest.mark.parametrize("name", latent.SAMPLERS)
@pytest.mark.parametrize("config", ["joint", "image", "latent"])
def test_one_name_is_taken_by_every_configuration_of_ones_own_images(config, name):
    assert command_line.read(config, [f"--config.sampler.name={name}"]).sampler.name == name


@pytest.mark.parametrize(
    ("given", "prior", "posterior"),
    [
        ({"name": "hmc"}, "hmc", "hmc"),
        ({"prior.name": "hmc"}, "hmc", "sgld"),
        ({"name": "hmc", "prior.name": "gradient_descent"}, "gradient_descent", "hmc"),
        ({"prior.name": "sgld", "posterior.name": "hmc"}, "sgld", "hmc"),  # as in old folders
    ],
)
def test_prior_and_posterior_may_have_a_sampler_each(given, prior, posterior, tmp_path):
    given |= {"hmc.num_integration_steps": 7}
    config = command_line.read("latent", [f"--config.sampler.{k}={v}" for k, v in given.items()])
    (tmp_path / "config.json").write_text(json.dumps(run_folder.as_json(config)))
    config = run_folder.config_of(tmp_path)
    for part, name in (("prior", prior), ("posterior", posterior)):
        chosen = latent_checks.sampler(config, part)
        assert (chosen.name, chosen.options.get("num_integration_steps", 7)) == (name, 7)
        assert ("temperature" in config.sampler[part]) == (name != "gradient_descent")
    assert ("name" in config.sampler) == ("posterior.name" not in given)


def test_values_of_a_file_wait_until_their_sampler_is_named(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    for name, field, value in (("psgld", "decay", 0.25), ("mala", "step_size", 0.75)):
        config = command_line.read(str(file), [f"--config.sampler.name={name}"])
        assert config.sampler[name][field] == value
        assert sections_in(config) == {f"sampler.{name}"}
    assert command_line.read(f"{file}:psgld", []).sampler.psgld.decay == 0.25
    assert sections_in(command_line.read(str(file), [])) == {"sampler.sgld"}


def test_a_run_has_the_named_section_alone_and_is_the_same_whatever_waits(tmp_path):
    config = jem_digits.get_config("smoke")
    run_folder.prepare(tmp_path, config)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert sections_in(saved) == sections_in(run_folder.config_of(tmp_path)) == {"sampler.sgld"}
    config.sampler.mala.step_size = 3.0
    run_folder.check(tmp_path, config)
    config.sampler.name = "mala"
    expected = "sampler.name was 'sgld' and is now 'mala'; .*sampler.mala.step_size was 'absent'"
    with pytest.raises(WorkdirError, match=expected):
        run_folder.check(tmp_path, config)


@pytest.fixture
def printed(monkeypatch, capsys):
    """Lines that ``ebmjax fields`` prints."""

    def printed(*arguments):
        monkeypatch.setattr(sys, "argv", ["ebmjax fields", *arguments])
        show_fields.main()
        return capsys.readouterr().out.splitlines()

    return printed


OWN = '''
from typing import Annotated

from ebmjax._ranges import FRACTION


def heavy_ball(log_density_fn, *, step_size=1.0, momentum: Annotated[float, FRACTION] = 0.9):
    """Rolls on.

    Args:
      momentum: share that is kept. At 0 it is gradient descent.
    """
'''


def test_fields_refuses_what_a_run_refuses(printed, capsys):
    sampler = "--config.sampler.name=tilted_langevin"
    arguments = "joint", "--config.loss.name=denoising", sampler
    said = []
    for command in (
        lambda: printed(*arguments),
        lambda: command_line.read(*arguments[:1], arguments[1:]),
    ):
        with pytest.raises(SystemExit):
            command()
        said.append(capsys.readouterr().err)
    assert said[0] == said[1]
    assert "set --config.sampler.name=mala" in said[0]


def test_fields_of_a_sampler_of_ones_own_are_printed(tmp_path, printed, capsys):
    file = tmp_path / "own.py"
    file.write_text(OWN)
    name = f"{file}:heavy_ball"
    for config, argument in (
        ("jem_digits", f"sampler.name={name}"),
        ("igebm_digits", f"sampler.names=('sgld', {name!r})"),
        ("thermo_digits", f"sampler.name={name}"),
        ("thermo_digits", f"sampler.prior.name={name}"),
    ):
        option = "--config.sampler.options.momentum=0.5"
        for given, value in (([], 0.9), ([option], 0.5)):
            lines = printed(config, f"--config.{argument}", *given)
            expected = f"sampler.options.momentum = {value}  # share that is kept [in [0, 1)]"
            assert lines.count(expected) == 1
    with pytest.raises(SystemExit) as ended:
        printed("jem_digits", f"--config.sampler.name={file}:other")
    assert ended.value.code == 2
    assert "must name a function of" in capsys.readouterr().err
