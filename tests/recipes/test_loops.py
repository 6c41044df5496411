"""The programs of docs/loops run as they stand, and show what their pages say."""

import re

import pytest
from pages import TEXTS, files

LOOPS = {
    name: text
    for page, whole in TEXTS.items()
    for name, text in files().items()
    if page.startswith(("docs/loops/", "README")) and text in whole
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
def test_jem_with_nnx_classifies_and_detects(capsys):
    numbers, _ = shown("jem.py", capsys)
    assert numbers["accuracy"] > 0.95
    # A guess has 0.5 with an error of ((357 + 357 + 1) / (12 * 357 * 357)) ** 0.5 = 0.022.
    assert numbers["AUROC of log p(x)"] > 0.5 + 5 * 0.022


@pytest.mark.slow
def test_jem_with_equinox_classifies_under_attack(capsys):
    numbers, lines = shown("jem_equinox.py", capsys)
    assert numbers["accuracy"] > 0.95
    by_radius = [float(x) for x in re.findall(r": ([\d.]+)", lines[-1])]
    assert len(by_radius) == 4
    assert by_radius[0] > by_radius[1] > by_radius[2] > by_radius[3]


# Features are those of the conftest, which need no training: other distances than the page's.
@pytest.mark.slow
def test_particles_leave_noise_for_images(capsys):
    numbers, _ = shown("image_svgd.py", capsys)
    assert numbers["diverged"] == 0
    assert numbers["FID of samples"] < 0.5 * numbers["FID of starts"]


@pytest.mark.slow
def test_points_are_learnt_with_mala(capsys):
    numbers, _ = shown("points_mala.py", capsys)
    assert 0.6 < numbers["acceptance"] < 0.98
    near, far = (numbers[f"energy distance of {name}"] for name in ("draws", "starts"))
    assert near < 0.5 * far
    assert numbers["energy distance of other points"] < near
