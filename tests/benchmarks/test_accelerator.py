"""The command for accelerators runs other benchmarks, goes on, and names what failed."""

import json

import pytest


@pytest.fixture
def module(load):
    return load("accelerator")


def test_a_second_call_measures_what_is_not_there(module, tmp_path, monkeypatch, capsys):
    asked = []

    def run(line, *, check):
        out = tmp_path / line[-1].rpartition("/")[-1]
        asked.append(out.name)
        if out.name != "svgd":
            out.mkdir(exist_ok=True)
            (out / f"{line[2]}.json").write_text(json.dumps({"is_complete": True}))
        return module.subprocess.CompletedProcess(line, int(out.name == "svgd"))

    monkeypatch.setattr(module.subprocess, "run", run)
    for _ in range(2):
        with pytest.raises(SystemExit, match=r"Without a table: svgd\."):
            module.main([f"--out={tmp_path}"])
    assert asked == [*module.COMMANDS, "svgd"]
    module.main([f"--out={tmp_path / 'other'}", "--minutes=0"])
    assert "The time is over" in capsys.readouterr().out


@pytest.mark.slow
def test_everything_is_measured_in_tiny_sizes(module, tmp_path):
    module.main(["--rehearse", f"--out={tmp_path}", "--minutes=9"])
    for name, command in module.COMMANDS.items():
        rows = json.loads((tmp_path / name / f"{command.split()[0]}.json").read_text())["rows"]
        assert rows
