"""Every row of every study is a run that the command line takes: its file, fields, ranges
and what may not go together."""

import pytest
from config_checks import check
from experiment_runs import EXPERIMENTS

from ebmjax.recipes.core.command_line import read as configuration
from ebmjax.recipes.study.command import read

ROWS = {
    f"{path.name}:{variant} {label}": (*([row] if isinstance(row, str) else row), *study.common)
    for path in sorted((EXPERIMENTS / "studies").glob("*.py"))
    for variant, study in read(path).items()
    for label, row in study.rows.items()
}


LABELS = {row: label for label, row in ROWS.items()}  # a row of several variants once


@pytest.mark.parametrize("row", LABELS, ids=LABELS.values())
def test_row(row):
    config, *arguments = row
    check(configuration(config, arguments))
