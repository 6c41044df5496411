"""Networks by command: ``config.model.factory``, in every family of images."""

import re
import shutil

import jax
import numpy as np
import pytest
from experiment_runs import change, contents, launch, rows_of, strict_json, summary_of
from own_networks import FACTORY_RUNS, configuration

from ebmjax.recipes.config import declare, families
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.models.energy.parts import make_classifier, make_energy
from ebmjax.recipes.models.latent.parts import model_of as latent_model

SHAPE = (8, 8, 1)
MAKE = {"joint": make_classifier, "energy": make_energy, "latent": latent_model}


def made(family, factory, **fields):
    config = declare.defaults(families.all_fields(family))
    config.update({"model": {"factory": f"own_networks:{factory}"}, "data": {"num_classes": 10}})
    change(config, {name.replace("__", "."): value for name, value in fields.items()})
    return MAKE[family](config, SHAPE)


REFUSED = [
    ("energy", "nothing", {}, r"factory='own_networks:nothing' must name a function of .*'logits'"),
    ("energy", "raises", {}, r"raises', line \d+: RuntimeError: no such file"),
    ("energy", "number", {}, r"must return a Flax Linen, Flax NNX or Equinox module.* got a int"),
    ("energy", "dense", {"shape": [1]}, r"energies of shape \(\) .*got \(1,\)\. End it with"),
    ("joint", "dense", {"shape": [7]}, r"logits of shape \(10,\) .*\(8, 8, 1\), got \(7,\)"),
    ("energy", "normalised", {}, r"keeps batch statistics .* this family does not carry"),
    ("energy", "dropped", {}, r"draws random numbers .* leave dropout out"),
    ("latent", "dense", {}, r"must return 2 networks, energies and images, got a Dense"),
    ("latent", "needs", {"depth": 2}, r"must return 2 networks"),
    ("energy", "needs", {}, r"has arguments \['depth'\] without a value.*options\.depth=VALUE"),
    ("energy", "dense", {"width": 3}, r"options\.width is no option.* which takes \['shape'\]"),
    ("energy", "needs", {"image_shape": 3}, r"options\.image_shape is no option.*\['depth'\]"),
]


@pytest.mark.parametrize(("family", "factory", "options", "message"), REFUSED)
def test_what_a_factory_does_wrong_is_said_before_anything_compiles(
    family, factory, options, message
):
    fields = {f"model.options.{key}": value for key, value in options.items()}
    with pytest.raises(ConfigError, match=message):
        made(family, factory, **fields)


@pytest.mark.parametrize(
    ("family", "name", "value"),
    [
        ("joint", "model.depth", 16),
        ("joint", "model.norm", "group"),
        ("energy", "model.spectral_norm", 2.0),
        ("energy", "model.dtype", "bfloat16"),
        ("latent", "model.prior_hidden", (3,)),
        ("latent", "model.generator_features", (3,)),
    ],
)
def test_a_field_of_our_networks_is_refused_beside_a_factory(family, name, value):
    fields = families.all_fields(family)
    config = declare.defaults(fields)
    config.update_from_flattened_dict({"model.factory": "own_networks:dense", name: value})
    families.check(config)  # a file may leave it waiting
    with pytest.raises(
        ConfigError, match=rf"{re.escape(name)} is no field.* needs our own network"
    ):
        families.check(config, [name])


def test_what_needs_batch_statistics_is_told_where_there_are_none_and_where_there_are():
    with pytest.raises(ConfigError, match=r"'mala' takes moves back.* take group normalisation"):
        made("joint", "logits", sampler__name="mala")
    made("joint", "logits", sampler__name="mala", model__norm_policy="running")


def test_nothing_is_written_for_a_module_that_cannot_be_imported(tmp_path):
    config = configuration("energy", {"model.factory": "missing_module:energy"})
    with pytest.raises(ConfigError, match=r"'missing_module' cannot be imported: ModuleNotFound"):
        launch(config, "configs/igebm_digits.py:smoke", str(tmp_path / "run"))
    assert not contents(tmp_path)


def test_a_module_may_lie_in_the_current_folder_and_take_a_seed_or_not(tmp_path, monkeypatch):
    (tmp_path / "in_this_folder.py").write_text("from own_networks import energy as mine")
    monkeypatch.chdir(tmp_path)
    config = configuration("energy", {"model.factory": "in_this_folder:mine"})
    config.model.is_conditional = True
    first, second = (make_energy(config, SHAPE)[1](jax.random.key(seed))[0] for seed in (0, 1))
    assert np.abs(first["table"] - second["table"]).max() > 0.01
    assert made("energy", "from_own_functions")[1](jax.random.key(0))[0].shape == SHAPE


@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    ["energy", *(pytest.param(name, marks=pytest.mark.slow) for name in ("joint", "latent"))],
)
def test_a_run_trains_evaluates_and_resumes_bitwise(family, tmp_path):
    """The state of an NNX network, the labels of an Equinox one, and a pair of Linen ones."""
    name, run = FACTORY_RUNS[family][0], tmp_path / "run"
    assert launch(configuration(family), name, str(run), mode="all") is None
    assert strict_json((run / "evaluation.json").read_text())
    summary = summary_of(run)
    if family == "latent":
        start = {"train.start_from": str(run), "train.num_epochs": 1}
        assert launch(configuration(family, start), name, str(tmp_path / "next")) is None
    if family == "joint":  # one family tells for all: the engine knows no network
        steps = sorted((run / "checkpoints").iterdir(), key=lambda path: int(path.name))
        assert len(steps) > 1
        shutil.rmtree(steps[-1])
        assert launch(configuration(family), name, str(run)) is None
        assert summary_of(run)["params_sha256"] == summary["params_sha256"]
    assert rows_of(run)[-1]["step"] == summary["steps"]
