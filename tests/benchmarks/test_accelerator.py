"""The command for accelerators: it runs other benchmarks, goes on, and names what failed."""

import contextlib
import json

import pytest


@pytest.fixture
def module(load):
    return load("accelerator")


def test_a_second_call_measures_what_is_not_there(module, tmp_path, monkeypatch, capsys):
    asked = []

    def run(line, *, env, check):
        out = tmp_path / "out" / line[-1].rpartition("/")[-1]
        asked.append(out.name)
        assert line[-1] == f"--out={out}"
        if out.name != "svgd":
            out.mkdir(parents=True, exist_ok=True)
            is_complete = {"is_complete": out.name != "latent_30" or "latent_30" in asked[:-1]}
            (out / f"{line[2]}.json").write_text(json.dumps(is_complete))
        return module.subprocess.CompletedProcess(line, int(out.name == "svgd"))

    monkeypatch.setattr(module.subprocess, "run", run)
    for _ in range(2):
        with pytest.raises(SystemExit, match=r"Without a table: svgd\."):
            module.main([f"--out={tmp_path / 'out'}"])
    assert asked == [*module.list_commands(False), "latent_30", "svgd"]
    module.main([f"--out={tmp_path / 'other'}", "--minutes=1e-9"])
    assert "The time is over" in capsys.readouterr().out


@pytest.mark.slow
def test_everything_is_measured_in_tiny_sizes(module, tmp_path):
    module.main(["--rehearse", f"--out={tmp_path}", "--minutes=9"])
    for name, command in module.list_commands(True).items():
        rows = json.loads((tmp_path / name / f"{command.split()[0]}.json").read_text())["rows"]
        assert rows
        if name == "chains_bfloat16":
            assert all(row["of peak"] > 0 for row in rows)


@pytest.mark.parametrize("is_rehearsal", [False, True])
def test_every_command_is_read_by_its_benchmark(module, load, command, monkeypatch, is_rehearsal):
    def reach(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(load("_configured"), "offer_examples", contextlib.nullcontext)
    monkeypatch.setattr(load("_harness"), "product_rate", lambda *_: 1.0)
    for line in module.list_commands(is_rehearsal).values():
        benchmark, arguments = line.split(maxsplit=1)
        monkeypatch.setattr(load(load("run").BENCHMARKS[benchmark][0]), "measure", reach)
        with pytest.raises(KeyboardInterrupt):
            command(benchmark, arguments)
