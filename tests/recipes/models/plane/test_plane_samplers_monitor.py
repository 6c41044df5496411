"""The comparison of samplers in the plane on a known energy: its numbers, its report, its table."""

import dataclasses
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import build_experiment

from ebmjax.recipes.models.plane import samplers_plots
from ebmjax.recipes.models.plane.checks import SETTINGS
from ebmjax.recipes.models.plane.numbers import draws_numbers
from experiments.configs.toy_samplers import get_config
from experiments.figures import plane_samplers

MEANS = np.array([[10.0, 0.0], [0.0, 10.0], [-10.0, 0.0], [0.0, -10.0]])


@pytest.fixture
def monitor(tmp_path):
    """Returns a function: the monitor of a smoke run whose energy is params x^2 / 2."""

    def make(**fields):
        config = get_config("smoke")
        config.eval.update(fields)
        built = build_experiment(config, tmp_path)
        energy_fn = lambda params, x: 0.5 * params * jnp.sum(x**2, axis=-1)  # noqa: E731
        state = built.state._replace(params=jnp.float32(0.04))
        return dataclasses.replace(built.monitor, energy_fn=energy_fn), state

    return make


def test_a_row_is_of_the_learned_density_which_is_kept(monitor, tmp_path):
    one, state = monitor()
    centres = one.grid.centres.reshape(one.grid.num, one.grid.num, 2)
    expected = -0.02 * np.sum(centres**2, axis=-1)  # of deviation 5, 6 deviations to the border
    row = one(state, 8)
    with np.load(tmp_path / "monitor" / "000008.npz") as arrays:
        np.testing.assert_allclose(arrays["log_density"], expected, rtol=1e-5, atol=1e-6)
    assert row["density_tv"] == pytest.approx(one.density_numbers(expected)["density_tv"], rel=1e-5)
    assert 0.3 < row["density_tv"] < 1


def test_the_model_is_used(monitor):
    one, state = monitor()
    use = one.use(state)
    points = np.array([[3.0, 4.0], [0.0, 1.0]])
    np.testing.assert_allclose(use.apply(use.params, points), [0.5, 0.02], rtol=1e-6)
    np.testing.assert_allclose(use.score(points)["log_density"], [-0.5, -0.02], rtol=1e-6)
    draws = use.sample(jax.random.key(0), 2000)["points"]
    assert draws.shape == (2000, 2)
    assert np.std(draws) == pytest.approx(5.0, rel=5 / math.sqrt(2 * 4000))


def test_references_are_of_the_data_and_of_the_density(monitor):
    one, _ = monitor(num_chain_steps=220, num_samples=100)
    density = one.density_numbers(one.truth + 3.0)
    judge, references = one.references(jax.random.key(0), one.truth, density, 1.5 * MEANS)
    assert list(references) == ["data", "model", "locked"]
    for name in ("data", "model"):
        assert references[name]["modes"] == 4
        assert references[name]["inside"] == pytest.approx(0.989, abs=0.02)  # within 3 deviations
        assert references[name]["crossings"] > 100  # 3 of 4 draws of 200 are of another mode
        # 100 draws against 100, of a mean distance of 12: E D^2 = 2 / 100 * 12; four times that.
        assert references[name]["distance_to_data"] < math.sqrt(4 * 2 / 100 * 12)
        assert references[name]["distance_to_model"] < math.sqrt(4 * 2 / 100 * 12)
    locked = references["locked"]
    assert (locked["crossings"], locked["modes"]) == (0, 4)
    assert locked["rhat_classic"] > 5
    assert judge(np.full((4, 200, 2), 10.0))["inside"] == 0


def test_an_evaluation_runs_every_sampler_in_every_setting(monitor, tmp_path, monkeypatch):
    one, state = monitor(samplers=("gradient_descent", "mala"), num_chain_steps=30, burn_in=10)
    drawn = []
    monkeypatch.setattr(samplers_plots, "evaluation", lambda *given: drawn.append(given))
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 4, "density_tv": 0.5}) + "\n")
    report = one.evaluate(state)
    assert drawn == [(tmp_path, one.config, report)]
    assert list(report) == ["density", "references", *SETTINGS, "over_training", "notes"]
    assert report["density"]["density_tv"] > 0.3
    with np.load(tmp_path / "evaluation.npz") as arrays:
        starts = arrays["starts"]
        for setting in SETTINGS:
            assert list(report[setting]) == ["gradient_descent", "mala"]
            for name, numbers in report[setting].items():
                positions = arrays[f"{setting}.{name}"]
                assert positions.shape == (4, 30, 2)
                draws = positions[:, 10:]
                alone = draws_numbers(draws, data=draws[0], model=None, means=MEANS, num=40)
                for shared in ("rhat_classic", "ess", "modes", "inside", "crossings"):
                    np.testing.assert_equal(numbers[shared], alone[shared])
                assert numbers["ess_per_second"] == numbers["ess"] / numbers["seconds"]
            step = SETTINGS[setting]["gradient_descent"]["step_size"]
            way = arrays[f"{setting}.gradient_descent"]
            np.testing.assert_allclose(way[:, 0], (1 - 0.04 * step) * starts, rtol=1e-5)
            assert 0 <= report[setting]["mala"]["acceptance_prob"] <= 1
    assert np.ptp(starts, axis=0).min() > 1  # every chain from a start of its own


def test_notes_say_which_numbers_to_doubt(monitor):
    one, _ = monitor()
    sound = {"rhat_rank": 1.0, "temperature": math.nan}
    thesis = {"mala": {"rhat_rank": math.nan, "temperature": 1.0}, "sgld": sound}
    tuned = {"tempered_mala": {"rhat_rank": 1.0, "temperature": 12.5}}
    report = {"density": {"density_tv": 0.5}, "thesis": thesis, "tuned": tuned}
    first, second = one._notes(report)
    assert first.startswith("mala (thesis): not all draws are finite")
    assert "tempered_mala (tuned) ended at a mean temperature of 12.5" in second


def fake_report(rhat):
    """A finished run of two samplers, as evaluation.json has it."""
    numbers = {name: 1.0 for name, _ in plane_samplers.COLUMNS.values()}
    return {
        "eval": {"samplers": ["mala", "sgld"]},
        "thesis": {"sgld": numbers | {"rhat_classic": rhat}, "mala": numbers},
        "tuned": {"sgld": numbers | {"distance_to_model": None}, "mala": numbers},
        "references": {"data": numbers, "model": numbers | {"rhat_rank": 1.5}},
    }


@pytest.fixture
def study(tmp_path):
    for seed, rhat in enumerate((19.0, 21.0, None)):
        folder = tmp_path / "four_Gaussians" / f"seed{seed}"
        folder.mkdir(parents=True)
        (folder / "evaluation.json").write_text(json.dumps(fake_report(rhat)))
    plane_samplers.study(tmp_path)
    return tmp_path


def test_the_table_of_a_study(study):
    thesis, tuned = (study / "samplers.md").read_text().split("## ")[1:]
    assert thesis.startswith("four_Gaussians, thesis\n")
    assert tuned.startswith("four_Gaussians, tuned\n")
    assert "| SGLD | 19.21 | 20.00 ± 1.41 (2 of 3) | 1.00 ± 0.00 | 1.0 ± 0.0 |" in thesis
    assert "| SGLD | - | 1.00 ± 0.00 |" in tuned
    lines = [line.split(" | ")[0] for line in thesis.splitlines()[2:] if line.startswith("|")]
    assert lines[2:] == [
        "| SGLD",
        "| MALA",
        *[f"| {x}" for x in plane_samplers.REFERENCES.values()],
    ]
    assert "| *independent draws, model* | - | 1.00 ± 0.00 | 1.50 ± 0.00 |" in thesis


def test_the_figure_of_a_study_has_a_dot_a_run(study, figures):
    plane_samplers.study(study)
    panels = figures["samplers_four_Gaussians.png"].axes
    classic, rank, _, distance = panels
    titles = [text.get_text() for text in classic.get_yticklabels()]
    assert titles == ["SGLD", "MALA"]
    thesis, tuned, *references, published = classic.lines
    assert (thesis.get_label(), tuned.get_label()) == ("thesis", "tuned")
    at = {tuple(point) for point in thesis.get_xydata().tolist()}
    assert at == {(19.0, 0.0), (21.0, 0.0), (1.0, 1.0)}
    assert set(tuned.get_ydata()) == {0.25, 1.25}
    np.testing.assert_allclose(published.get_xydata(), [[19.21, 0], [6.46, 1]])
    assert [line.get_label() for line in references] == ["model"]
    assert set(rank.lines[2].get_xdata()) == {1.5}
    assert set(distance.lines[1].get_ydata()) == {1.25}  # SGLD has no number there
    assert classic.get_xscale() == "log"
