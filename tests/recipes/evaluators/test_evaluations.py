"""Evaluators run at their times, and from Python as in a run."""

import json

import jax
import numpy as np
import pytest
from experiment_runs import launch, rows_of

from ebmjax import data, recipes
from ebmjax.recipes.config import command_line, families, show_fields
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators import Found, table
from ebmjax.recipes.evaluators.evaluations import is_due, make_evaluators
from ebmjax.recipes.evaluators.landscape import landscape
from ebmjax.recipes.evaluators.robustness import robustness
from ebmjax.recipes.folder import run_folder
from experiments.configs import igebm_digits, jem_digits, thermo_digits

pytestmark = pytest.mark.usefixtures("shallow")

TIMES = {
    "evals.every_epochs": 1,
    "evals.robustness.every": 2,
    "evals.landscape.every": 2,
    "evals.landscape.num_points": 2,
    "evals.samples.every": "never",
    "evals.ood.every": "never",
    "evals.generation.every": "never",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory, shallow):
    """Three evaluations of training, at steps 0, 4 and 8, and the one after it."""
    config = jem_digits.get_config("smoke")
    config.update_from_flattened_dict(TIMES)
    folder = tmp_path_factory.mktemp("times") / "run"
    assert launch(config, "configs/jem_digits.py:smoke", str(folder), "all") is None
    return folder


def test_an_evaluator_runs_at_every_nth_evaluation_and_at_the_end(run):
    rows = {row["step"]: row for row in rows_of(run) if "test_accuracy" in row}
    assert sorted(rows) == [0, 4, 8]
    report = json.loads((run / "evaluation.json").read_text())
    for name in ("robustness.l2.64", "landscape.landscape_range"):
        assert [name in rows[step] for step in (0, 4, 8)] == [True, False, True]
    # Of the same state, images and key as the evaluation afterwards.
    assert rows[8]["robustness.l2.64"] == report["robustness"]["l2"]["64"]
    assert rows[8]["landscape.landscape_range"] == report["landscape"]["landscape_range"]
    assert rows[8]["test_ece"] == report["classification"]["ece"]
    assert not any("sample_fid" in row for row in rows.values())
    assert not report.keys() & {"ood", "generation"}


@pytest.mark.slow
def test_evaluators_serve_from_python_as_in_a_run(run):
    report = json.loads((run / "evaluation.json").read_text())
    loaded = recipes.load(run)
    key = jax.random.split(jax.random.key(loaded.config.seed), 3)[2]  # build.root_keys
    test = data.load_digits("test")
    test = data.ImageData(test.images[:32], test.labels[:32])
    found = landscape(key, loaded.model, test, num_points=2)
    assert found.report["landscape"] == report["landscape"]
    found = robustness(key, loaded.model, test, num_images=16, num_steps=2)
    assert found.report["robustness"]["l2"] == report["robustness"]["l2"]


@pytest.mark.parametrize(
    ("every", "steps"), [(1, [0, 4, 8, 12]), (2, [0, 8]), (3, [0, 12]), ("end", []), ("never", [])]
)
def test_times_count_evaluations(every, steps):
    assert [step for step in (0, 4, 8, 12) if is_due(every, step, 4)] == steps


@pytest.mark.parametrize(
    ("name", "evaluator", "every"),
    [("sample_fid", "samples", 2), ("test_ece", "classification", "end")],
)
def test_a_number_that_chooses_is_there_at_every_evaluation(name, evaluator, every):
    config = jem_digits.get_config("smoke")
    config.update_from_flattened_dict({"train.keep_best": name, "data.holdout": 0.2})
    families.check(config)
    config.evals[evaluator].every = every
    with pytest.raises(ConfigError, match=rf"evals\.{evaluator}\.every={every!r} .* set it to 1"):
        families.check(config)


@pytest.mark.parametrize("module", [igebm_digits, jem_digits, thermo_digits])
def test_every_field_of_an_evaluator_is_an_argument_of_its_function(module):
    """All evaluators of a configuration, also those that do not run by default."""
    config = module.get_config("smoke")
    for name in table.EVALUATORS:
        if name in config.evals:
            config.evals[name].every = 1
    made = make_evaluators(config)
    assert made
    for name, (evaluator, _) in made.items():
        for field, value in config.evals[name].items():
            if field != "every":
                assert evaluator.keywords[field] == value, (name, field)


@pytest.mark.parametrize(
    ("module", "field"),
    [
        (jem_digits, "evals.classification.every"),
        (igebm_digits, "evals.energies.every"),
        (thermo_digits, "evals.evidence.every"),
        (thermo_digits, "evals.gradient_variance.every"),
        (thermo_digits, "evals.reconstruction.every"),
    ],
)
def test_an_evaluator_that_never_runs_is_not_made(module, field):
    config, name = module.get_config("smoke"), field.split(".")[1]
    config.update_from_flattened_dict({field: "end"})
    assert name in make_evaluators(config)
    config.update_from_flattened_dict({field: "never"})
    assert name not in make_evaluators(config)


def test_only_the_evaluators_that_run_have_sections(tmp_path, capsys, monkeypatch):
    """One is switched on and another off from the command line, and a saved run says the same."""
    times = ["--config.evals.profile.every=1", "--config.evals.ood.every=never"]
    config = command_line.read("configs/jem_digits.py", times)
    assert config.evals.profile.every == 1
    assert not {"ood", "nats"} & set(config.evals)
    (tmp_path / "config.json").write_text(json.dumps(run_folder.as_json(config)))
    assert run_folder.config_of(tmp_path) == config
    assert list(make_evaluators(config)) == list(make_evaluators(run_folder.config_of(tmp_path)))
    monkeypatch.setattr("sys.argv", ["fields", "jem_digits", *times])
    show_fields.main()
    fields, off = capsys.readouterr().out.split("# Not in the configuration")
    for name in ("ood", "nats"):
        assert f"evals.{name}" not in fields
        assert f"evals.{name}.every = 'never'" in off


def test_rows_have_the_scalars_of_a_report_by_dotted_names():
    report = {"a": {"b": np.float32(0.5), "text": "no number", "list": [1, 2]}, "c": 3}
    assert Found(report).numbers() == {"a.b": 0.5, "c": 3}
