"""Every row of every study is a run that the command line takes: its file, fields and ranges."""

import pytest
from absl import flags
from experiment_runs import EXPERIMENTS
from ml_collections import config_flags

from experiments.study import read
from experiments.validate import check_ranges

ROWS = {
    f"{path.name}:{variant} {label}": (*([row] if isinstance(row, str) else row), *study.common)
    for path in sorted((EXPERIMENTS / "studies").glob("*.py"))
    for variant, study in read(path).items()
    for label, row in study.rows.items()
}


# ml_collections imports configurations so.
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_row(monkeypatch, row):
    config, *arguments = row
    command = ["run.py", f"--config={EXPERIMENTS / config}", *arguments]
    monkeypatch.setattr("sys.argv", command)  # where ml_collections finds the fields to set
    values = flags.FlagValues()
    config_flags.DEFINE_config_file("config", flag_values=values)
    values(command)
    check_ranges(values.config)
