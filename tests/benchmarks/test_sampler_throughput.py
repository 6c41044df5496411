import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
from PIL import Image

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "sampler_throughput.py"
TINY = "--energies mlp --resolutions 8 --chains 4 --steps 2 --repeats 1"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("sampler_throughput", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def main(benchmark, monkeypatch):
    def main(*arguments):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
        benchmark.main()

    return main


def test_every_sampler_gets_a_row_in_the_table_the_json_and_the_plot(
    benchmark, main, tmp_path, capsys
):
    samplers = list(benchmark.SAMPLERS)
    assert {"gradient_descent", "mala", "adaptive_svgd"} < set(samplers)
    folder = tmp_path / "new" / "results"
    main(*TINY.split(), "--out", folder)
    printed = capsys.readouterr().out
    assert {path.name for path in folder.iterdir()} == {
        f"sampler_throughput.{ending}" for ending in ("txt", "json", "png")
    }
    assert (folder / "sampler_throughput.txt").read_text() == printed

    head, _, rule, *lines = printed.splitlines()
    assert re.match(r"\d{4}-\d\d-\d\d  .* jax .* 2 steps, median of 1 repeats$", head)
    assert set(rule) == {"-"}
    assert [line.split()[:4] for line in lines] == [["mlp", "8", "4", name] for name in samplers]

    saved = json.loads((folder / "sampler_throughput.json").read_text())
    assert saved["machine"] == head
    assert [row["sampler"] for row in saved["rows"]] == list(samplers)
    for row in saved["rows"]:
        assert row["steps_per_second"] > 0
        assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
        # Time of the chain over time of its gradients, both as the row tells them.
        chain_ms = 1e3 / row["steps_per_second"]
        assert row["ratio"] == pytest.approx(chain_ms / row["gradient_ms"], rel=1e-6)
        # At least the chains' own positions: 4 of 64 pixels in single precision.
        assert row["peak_mib"] * 2**20 >= 4 * 64 * 4

    with Image.open(folder / "sampler_throughput.png") as image:
        colours = image.convert("RGB").getcolors(maxcolors=2**24)
    assert len(colours) > len(samplers)


def test_convolutions_are_measured_too_and_nothing_is_written_without_out(
    main, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    main(*TINY.replace("mlp", "conv").split(), "--samplers", "sgld")
    assert capsys.readouterr().out.splitlines()[-1].split()[:4] == ["conv", "8", "4", "sgld"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--steps", "0"], "--steps: must be an integer of at least 1, got '0'"),
        (["--repeats", "0"], "--repeats: must be an integer of at least 1, got '0'"),
        (["--chains", "64", "-4"], "--chains: must be an integer of at least 1, got '-4'"),
        (["--resolutions", "8.5"], "--resolutions: must be an integer of at least 1, got '8.5'"),
        (["--samplers", "hmc"], "--samplers: invalid choice: 'hmc'"),
        (["--energies", "unet"], "--energies: invalid choice: 'unet'"),
        (["--fast"], "unrecognized arguments: --fast"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_arguments_end_the_program(arguments, expected, main, capsys):
    with pytest.raises(SystemExit) as ended:
        main(*arguments)
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err
