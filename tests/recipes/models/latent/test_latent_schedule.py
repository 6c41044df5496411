"""The adaptive schedule: placed by a pilot run, kept in the run's folder, counted in its time."""

import json
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import build_experiment, digits, launch, strict_json, summary_of

from ebmjax import latent
from ebmjax.recipes.config.errors import ConfigError, WorkdirError
from ebmjax.recipes.folder import workdir
from ebmjax.recipes.models.build import Seconds
from ebmjax.recipes.models.latent import schedule as latent_schedule
from ebmjax.recipes.models.latent.schedule import FILE, Pilot, schedule

ADAPTIVE = {"loss.schedule": "adaptive", "loss.num_intervals": 4}
LOOKED = latent.power_schedule(20, 6.0)


def concave(law):
    """E_t = sqrt(t): all that changes changes near the prior."""
    assert law.shape == (5,)
    return Pilot(LOOKED, jnp.sqrt(LOOKED), Seconds(3.0, 2.0))


def refuse(law):
    raise AssertionError("the pilot runs again")


def test_a_power_law_needs_no_pilot_and_no_folder(tmp_path):
    found = schedule(digits(), tmp_path / "run", refuse)
    np.testing.assert_array_equal(found.powers, latent.power_schedule(3, 6.0))
    assert found.pilot is None
    assert not (tmp_path / "run").exists()


def test_what_the_pilot_found_is_kept_and_read_back_to_the_bit(tmp_path):
    config = digits(**ADAPTIVE)
    first = schedule(config, tmp_path / "run", concave)
    expected = latent.adaptive_schedule(LOOKED, jnp.sqrt(LOOKED), 4)
    np.testing.assert_array_equal(first.powers, expected)
    again = schedule(config, tmp_path / "run", refuse)
    np.testing.assert_array_equal(again.powers, first.powers)
    assert again.powers.dtype == first.powers.dtype
    assert again.pilot == first.pilot == Seconds(3.0, 2.0)
    workdir.check(tmp_path / "run", config)  # the folder is the run's from then on


@pytest.mark.parametrize(
    "change",
    [
        lambda kept: kept.update(powers=[0.0, 0.5, 1.0]),
        lambda kept: kept.update(powers=[0.0, 0.5, 0.25, 0.75, 1.0]),
        lambda kept: kept.update(powers=[0.1, 0.2, 0.3, 0.4, 1.0]),
        lambda kept: kept.update(powers=[0.0, 0.2, None, 0.4, 1.0]),
        lambda kept: kept.update(powers="none"),
        lambda kept: kept.pop("powers"),
        lambda kept: kept.update(pilot_seconds={"wall": 1.0}),
    ],
)
def test_another_schedule_is_refused(change, tmp_path):
    config = digits(**ADAPTIVE)
    schedule(config, tmp_path / "run", concave)
    path = tmp_path / "run" / FILE
    kept = strict_json(path.read_text())
    change(kept)
    path.write_text(json.dumps(kept))
    with pytest.raises(WorkdirError, match=r"must hold the 5 powers of this run, .* Put it back"):
        schedule(config, tmp_path / "run", refuse)
    path.write_text("no json")
    with pytest.raises(WorkdirError, match="JSONDecodeError"):
        schedule(config, tmp_path / "run", refuse)


def test_no_pilot_runs_in_the_folder_of_a_run_that_has_saved(tmp_path):
    (tmp_path / "checkpoints" / "4").mkdir(parents=True)
    with pytest.raises(WorkdirError, match=r"schedule\.json must hold .*\(it is missing\)"):
        schedule(digits(**ADAPTIVE), tmp_path, refuse)


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        (jnp.full(21, jnp.nan), "places no powers: mean_log_likelihoods must be finite"),
        (-LOOKED, "places no powers: mean_log_likelihoods must increase somewhere"),
        # All of the length within the last 1e-7 of the way.
        (jnp.where(jnp.arange(3) == 2, 1.0, 0.0), "places powers that coincide"),
    ],
)
def test_a_pilot_that_tells_nothing_is_refused_before_anything_is_written(
    means, expected, tmp_path
):
    looked = LOOKED if len(means) == 21 else jnp.array([0.0, 1.0 - 1e-7, 1.0])
    with pytest.raises(ConfigError, match=expected):
        schedule(
            digits(**ADAPTIVE), tmp_path / "run", lambda _: Pilot(looked, means, Seconds(1, 0))
        )
    assert not (tmp_path / "run").exists()


def test_the_pilots_folder_belongs_to_the_configuration_as_it_was_given(tmp_path, monkeypatch):
    """Not to the one whose open fields, such as the held-out images, the images have chosen."""
    config = digits(**ADAPTIVE)
    found = Pilot(LOOKED, jnp.sqrt(LOOKED), Seconds(1, 0))
    monkeypatch.setattr(latent_schedule, "run_pilot", lambda *_: found)
    assert config.data.holdout is None
    build_experiment(config, tmp_path / "run")
    assert (tmp_path / "run" / FILE).exists()
    workdir.check(tmp_path / "run", config)


@pytest.mark.slow
def test_a_run_has_one_pilot_however_often_it_goes_on(tmp_path, monkeypatch):
    """A run of the smoke size to its end, then from an earlier checkpoint, and evaluated."""
    config = digits(
        **ADAPTIVE,
        **{
            "train.num_epochs": 2,
            "sampler.prior.num_steps": 2,
            "sampler.posterior.num_steps": 2,
            "evals.at_start": False,
            "evals.generation.every": "never",
            "evals.evidence.methods": (),
        },
    )
    path = tmp_path / "run"
    assert launch(config, "thermo_digits.py:smoke", str(path)) is None
    kept, summary = strict_json((path / FILE).read_text()), summary_of(path)
    assert len(kept["pilot_powers"]) == len(kept["pilot_mean_log_likelihoods"]) == 21
    assert kept["powers"] != latent.power_schedule(4, 6.0).tolist()
    seconds = Seconds(**kept["pilot_seconds"])
    assert 0 < seconds.run < seconds.wall
    assert summary["pilot_seconds"] == round(seconds.wall, 3)
    assert summary["wall_seconds"] > seconds.wall
    assert summary["compile_seconds"] > seconds.compile

    shutil.rmtree(max((path / "checkpoints").iterdir(), key=lambda one: int(one.name)))
    monkeypatch.setattr(latent_schedule, "run_pilot", lambda *_: refuse(None))
    assert launch(config, "thermo_digits.py:smoke", str(path), "all") is None
    assert summary_of(path)["params_sha256"] == summary["params_sha256"]
    evaluation = strict_json((path / "evaluation.json").read_text())
    assert evaluation["powers"] == kept["powers"]
    assert evaluation["cost"]["pilot_seconds"] == seconds.run
