"""The thesis's image experiments, at their smoke size."""

import math

import numpy as np
import pytest
import tensorflow_datasets as tfds
from experiment_runs import launch, rows_of, summary_of

from experiments.configs import lebm_svhn, thermo_celeba, thermo_cifar10


def assert_trained(workdir, side, num_powers=3):
    rows = rows_of(workdir)
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4]
    for row in rows[1:]:
        assert row["skipped"] == 0
        assert math.isfinite(row["loss"])
        assert len(row["mean_log_likelihoods"]) == num_powers
    assert math.isfinite(rows[-1]["test_log_evidence"])
    assert summary_of(workdir)["steps"] == 4
    last = np.load(workdir / "monitor" / "000004.npz")
    assert last["samples"].shape == (10, side, side, 3)
    assert (workdir / "plots" / "reconstructions.png").exists()


# They take the path of the smoke run on the digits, and compile for up to a minute each.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "side"),
    [
        pytest.param(thermo_cifar10, 32, id="cifar10"),
        pytest.param(thermo_celeba, 64, id="celeba"),
        pytest.param(lebm_svhn, 32, id="svhn"),
    ],
)
def test_mock_data_of_the_right_schema_trains(module, side, tmp_path):
    name = module.__name__.rsplit(".", 1)[-1]
    with tfds.testing.mock_data(num_examples=60):
        outcome = launch(module.get_config("smoke"), f"configs/{name}.py:smoke", str(tmp_path))
    assert outcome is None
    # Vanilla training has no power but 1.
    assert_trained(tmp_path, side, num_powers=1 if module is lebm_svhn else 3)
