"""A run of image energies: its numbers, plots and the figures of a study."""

import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import check_use, launch, rows_of, strict_json, summary_of
from experiment_runs import image as smoke

from ebmjax import data
from ebmjax.data._source import of_array
from ebmjax.recipes.evaluators.result_tables import as_lines, over_training, results
from experiments.configs import igebm_cifar10, shortrun_cifar10


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("igebm") / "run"
    profile = {"evals.every_epochs": 1, "evals.profile.every": 1, "evals.profile.num_chains": 4}
    config = smoke("mixed", **{"sampler.names": ("sgld", "mala")}, **profile)
    config.model.features = (4, 8)  # with a smaller one these few steps of MALA accept nothing
    assert launch(config, "configs/igebm_digits.py:smoke", str(workdir), "all") is None
    return workdir


def test_a_run_leaves_its_numbers_and_plots(finished):
    summary = summary_of(finished)
    for name in ("sample_fid", "chain_mala_step_size", "sample_energy"):
        assert np.isfinite(summary[name]), name
    report = strict_json((finished / "evaluation.json").read_text())
    shown = as_lines(results(report)).splitlines()
    assert len(shown) == 8
    assert sum(" ± " in line for line in shown) == 4  # buffer, chains, starts and Gaussians
    scores = report["generation"]
    for name in ("short", "fresh", "buffer", "test_images"):
        assert scores[name]["fid"] > 0
    for name in ("short", "fresh", "buffer"):
        assert (scores[name]["num_images"], scores[name]["num_diverged"]) == (16, 0)
        # As many of what the chains began from, by the same numbers.
        starts = scores[name]["starts"]
        assert starts["num_images"] == 16
        assert starts.keys() == scores["test_images"].keys()
        assert starts["fid"] > 0
        # Where a slot's chain began is not known.
        assert ("rms_displacement" in scores[name]) == (name != "buffer")
    assert 0 < scores["short"]["rms_displacement"] < scores["fresh"]["rms_displacement"]
    with np.load(finished / "evaluation.npz") as arrays:
        shapes = {name: arrays[name].shape for name in arrays.files}
    for name in ("short", "fresh", "buffer"):
        for of, shape in (("images", (8, 8, 1)), ("start_images", (8, 8, 1)), ("log_density", ())):
            assert shapes[f"{name}_{of}"] == (16, *shape)
    assert shapes["test_energies"] == (32,)
    # Draws of one law for one and the same monitor, whatever the step.
    assert len({row["start_fid"] for row in rows_of(finished) if "start_fid" in row}) == 1
    assert report["over_training"]["best_sample_fid"]["start_fid"] == summary["start_fid"] > 0
    assert scores["test_images"]["num_images"] <= 16  # as many of each class
    assert report["temperature"] == report["samplers"]["mala"]["temperature"] == 5e-5
    # The averaged step size, no longer the one it began with.
    assert report["samplers"]["mala"]["step_size"] != 1.0
    fids = [row["sample_fid"] for row in rows_of(finished) if "sample_fid" in row]
    assert report["over_training"]["best_sample_fid"]["sample_fid"] == min(fids[1:])
    for name in ("training", "chains", "eval_samples"):
        assert (finished / "plots" / f"{name}.png").stat().st_size > 5_000


def test_the_first_and_the_best_of_a_run():
    rows = [
        {"step": 0, "sample_fid": 1.0},
        {"step": 2, "sample_fid": 7.0, "chain_acceptance_prob": 0.5, "loss": -3.0},
        {"step": 3, "chain_acceptance_prob": 0.0, "density_tv": 0.5, "loss": 2.0},
        {"step": 4, "sample_fid": 3.0, "sample_is": 1.25, "test_accuracy": 0.75},
        {"step": 6, "sample_fid": None, "sample_is": 2.0, "test_accuracy": 0.875},
        {"step": 8, "test_accuracy": 0.5, "density_tv": 0.25},
    ]
    # Those of the starts are not chosen among: they are of the step that was.
    for row in rows:
        row |= {"start_fid": 10.0 + row["step"], "start_is": 20.0 + row["step"]}
        row |= {"sample_fid_error": 0.25, "fid_minus_starts": -7.0 - row["step"]}
    lost = {name: value for name, value in rows[4].items() if name != "sample_fid"}
    assert over_training(rows) == {
        "first_sample_fid": rows[1],
        "best_sample_fid": rows[3],
        "first_sample_is": rows[3],
        "best_sample_is": lost,
        "first_test_accuracy": rows[3],
        "best_test_accuracy": lost,
        "first_density_tv": rows[2],
        "best_density_tv": rows[5],
        "largest_loss": 3.0,
        # Means over the rows with a loss, of what they share: steps 2 and 3.
        "last": {
            "loss": -0.5,
            "chain_acceptance_prob": 0.25,
            "start_fid": 12.5,
            "start_is": 22.5,
            "sample_fid_error": 0.25,
            "fid_minus_starts": -9.5,
        },
    }
    assert over_training(rows[:1]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("module", [igebm_cifar10, shortrun_cifar10])
def test_cifar_runs_on_mock_data(module, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (96, 32, 32, 3)).astype(np.uint8)

    def load(name, split, folder, most):
        assert name == "cifar10"
        del folder, most
        num = 64 if split == "train" else 32
        return of_array(images[:num], np.arange(num, dtype=np.int32) % 10, name), num

    monkeypatch.setattr("ebmjax.data._load.tfds_source", load)
    workdir = tmp_path / "run"
    assert launch(module.get_config("smoke"), "configs/x.py:smoke", str(workdir), "all") is None
    report = strict_json((workdir / "evaluation.json").read_text())
    assert report["generation"]["fresh"]["num_images"] == 16


@pytest.mark.slow
def test_a_trained_energy_is_used(finished, monkeypatch, tmp_path):
    images = data.load_digits("test").images[:8]
    used = check_use(finished, monkeypatch, tmp_path, images, ["log_density"])
    energies = used.model.apply(used.params, data.to_signed_unit(jnp.asarray(images)))
    # Sums of some hundred float32 terms of order one.
    np.testing.assert_allclose(used.score(images)["log_density"], -energies, atol=1e-4)
