"""The estimators of the log evidence on a model trained here, whose evidence nobody knows."""

import itertools
import json

import numpy as np
import pytest
from experiment_runs import digits, launch

from ebmjax.evaluate._evidence import METHODS

pytestmark = pytest.mark.slow

# Steps enough to mix at every power, and eight chains a latent dimension for the divergences.
SETTINGS = {
    "model.latent_dim": 4,
    "train.num_epochs": 10,
    "train.checkpoint_every_epochs": 10,
    "evals.every_epochs": 10,
    "evals.generation.every": "never",
    "evals.evidence.num_images": 4,
    "evals.evidence.num_chains": 128,
    "evals.evidence.num_intervals": 30,
    "evals.evidence.num_steps": 60,
    "evals.evidence.step_size": 0.05,
    "evals.evidence.methods": tuple(METHODS),
}


def test_all_methods_agree_on_every_image(tmp_path):
    """Pair by pair within 5 of their standard errors, which are small against the images'."""
    launch(digits("vanilla", **SETTINGS), "digits", str(tmp_path / "run"), "all")
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text())["evidence"]
    assert found.keys() == set(METHODS)
    for one, other in itertools.combinations(found.values(), 2):
        values = [np.array(method["log_evidence"]) for method in (one, other)]
        errors = [np.array(method["standard_error"]) for method in (one, other)]
        assert np.all(np.abs(values[0] - values[1]) < 5 * np.hypot(*errors))
        assert np.all(np.hypot(*errors) < 0.1 * np.ptp(values[0]))
