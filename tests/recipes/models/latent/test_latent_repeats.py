"""Repeats of a latent EBM run: one program, each repeat the run of its own seed."""

import json

import jax
import numpy as np
import pytest
from experiment_runs import build_experiment, digits, launch, rows_of, summary_of

from ebmjax.recipes.folder import per_image
from ebmjax.recipes.study.table import descend
from ebmjax.training import Checkpoints, select_repeat
from experiments.studies.thermo_digits import COLUMNS

TINY = {
    "data.max_train": 72,
    "train.num_epochs": 3,
    "train.steps_per_dispatch": 3,
    "sampler.prior.num_steps": 2,
    "sampler.posterior.num_steps": 2,
    "eval.every_epochs": 3,
    "eval.evidence.methods": (),
}

# Three runs with their evaluations. The same property of any run is tested in training, fast.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two repeats in one run, and the single runs of their seeds."""
    folder = tmp_path_factory.mktemp("repeats")
    launch(digits(**TINY, **{"train.num_repeats": 2, "seed": 4}), "d", str(folder / "both"), "all")
    for seed, mode in ((4, "all"), (5, "train")):
        launch(digits(**TINY, seed=seed), "d", str(folder / str(seed)), mode)
    return folder


def state_of(folder, **overrides):
    config = digits(**TINY, **overrides)
    experiment = build_experiment(config, folder)
    with Checkpoints(folder / "checkpoints") as checkpoints:
        return checkpoints.restore_latest(experiment.state)[0]


def test_every_repeat_is_the_run_of_its_own_seed(runs):
    """Vmapped products round otherwise, and where a gradient is tiny a first step of Adam is the
    rate times a sign: each of three may turn by twice the rate of 1e-3, but few coordinates do. So
    the median agrees to rounding and none is off by more than 6e-3."""
    both = state_of(runs / "both", **{"train.num_repeats": 2, "seed": 4})
    for repeat, seed in enumerate((4, 5)):
        alone = state_of(runs / str(seed), seed=seed)
        pairs = zip(
            jax.tree.leaves(select_repeat(both, repeat).params),
            jax.tree.leaves(alone.params),
            strict=True,
        )
        apart = np.concatenate([np.abs(np.asarray(a) - np.asarray(b)).ravel() for a, b in pairs])
        assert np.median(apart) < 1e-6
        assert apart.max() <= 6e-3


def test_rows_and_reports_hold_a_number_for_every_repeat(runs):
    both, first, second = (rows_of(runs / name)[-1] for name in ("both", "4", "5"))
    assert both.keys() == first.keys()
    # Averages over 72 images after chains of two steps: of order one, equal to rounding.
    for name in ("reconstruction_error", "test_reconstruction_error"):
        np.testing.assert_allclose(both[name], [first[name], second[name]], rtol=1e-3)
    assert np.shape(both["test_mean_log_likelihoods"]) == (2, 4)
    # As of the full evaluation, below.
    for name in ("sample_fid", "sample_kid"):
        np.testing.assert_allclose(both[name], [first[name], second[name]], rtol=0.02)
    assert len(summary_of(runs / "both")["test_log_evidence"]) == 2


def test_the_full_evaluation_holds_them_too(runs):
    report, alone = (
        json.loads((runs / name / "evaluation.json").read_text()) for name in ("both", "4")
    )
    assert report.keys() == alone.keys()
    assert report["diverged_repeats"] == 0
    both, one = (found["generation"] for found in (report, alone))
    assert both.keys() == one.keys()
    for metric in ("fid", "kid_rbf", "kid_polynomial"):
        theirs, its = (found["fresh"]["at_sizes"][metric] for found in (both, one))
        assert np.shape(theirs["values"]) == (2, 10)
        assert np.shape(theirs["infinity"]) == (2,)
        assert np.shape(its["values"]) == (10,)
        # Beside what the chains' starts get, and as many real images, who have no repeats.
        assert np.shape(both["fresh"]["starts"]["at_sizes"][metric]["infinity"]) == (2,)
        assert np.shape(both["test_images"]["at_sizes"][metric]["values"]) == (10,)
        # The same samples up to rounding to whole grey levels; features of them to a per cent.
        np.testing.assert_allclose(theirs["values"][0], its["values"], rtol=0.02)
    for number in ("fid", "fid_error", "recall", "rms_displacement"):
        assert np.shape(both["fresh"][number]) == (2,)
        assert np.shape(one["fresh"][number]) == ()
    assert np.shape(both["fresh"]["minus_starts"]["low"]) == (2,)
    assert np.shape(both["test_images"]["fid"]) == np.shape(both["gaussian"]["fid"]) == ()
    ways = both["fresh"]["rms_displacement"]
    assert 0 < one["fresh"]["rms_displacement"] == pytest.approx(ways[0], rel=1e-3)
    absent = {name for name, _, _ in COLUMNS.values() if descend(report, name) is None}
    assert absent == {"evidence.ais.mean"}  # not asked for here
    errors = per_image.read(runs / "both", "test_reconstruction_error", 2)
    np.testing.assert_allclose(
        [found["test"].mean() for found in errors], report["test_reconstruction_error"], rtol=1e-5
    )
    assert report["cost"]["steps"] == 3
    assert report["cost"]["flops_per_step"] == alone["cost"]["flops_per_step"] > 1e6
    samples = np.load(runs / "both" / "monitor" / "000003.npz")["samples"]
    assert samples.shape == (2, 20, 8, 8, 1)
