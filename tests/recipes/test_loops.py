"""The programs of docs/loops run as they stand, and show what their pages say."""

import re

import pytest
from pages import TEXTS, files

LOOPS = {
    name: text
    for page, whole in TEXTS.items()
    for name, text in files().items()
    if page.startswith("docs/loops/") and text in whole
}


def shown(name, capsys):
    """Numbers that a program prints, by the words before them."""
    exec(compile(LOOPS[name], name, "exec"), {"__name__": "__main__"})
    lines = capsys.readouterr().out.splitlines()
    found = [re.match(r"(\D+?) \[?(-?[\d.]+)", line) for line in lines]
    return {match[1]: float(match[2]) for match in found if match}, lines


@pytest.mark.parametrize("name", LOOPS)
def test_a_program_is_short(name):
    assert LOOPS[name].count("\n") <= 60
    compile(LOOPS[name], name, "exec")


@pytest.mark.slow
def test_nuts_adapts_and_mixes(capsys):
    numbers, _ = shown("nuts.py", capsys)
    assert 0.7 < numbers["acceptance"] < 0.95  # the adaptation aims at 0.8
    assert numbers["R-hat"] < 1.05
    assert numbers["effective sample size"] > 100


@pytest.mark.slow
def test_arviz_reads_the_draws(capsys):
    _, lines = shown("arviz_draws.py", capsys)
    assert [line.split()[0] for line in lines[1:3]] == ["narrow", "wide"]


@pytest.mark.slow
def test_optuna_compiles_once(capsys):
    numbers, _ = shown("choose_step.py", capsys)
    assert numbers["compiled programs"] == 1
    # Neither a step that hardly moves nor one that is nearly always taken back.
    assert 0.1 < numbers["acceptance"] < 0.95
    assert numbers["effective draws"] > 300


@pytest.mark.slow
def test_sgld_on_batches_predicts_as_mala_does(capsys):
    numbers, _ = shown("bayesian_sgld.py", capsys)
    assert numbers["accuracy"] > 0.9
    assert numbers["largest difference of a prediction"] < 0.1
