"""``--help`` of every benchmark says what it does, and one command lists all."""

import sys

import pytest

COMMANDS = ["accelerator", "compile_for", "house", "image_sets"]


def test_help_is_the_docstring(load, command, refused, capsys):
    runner = load("run")
    files = {name: file for name, (file, _) in runner.BENCHMARKS.items()}
    for name, file in {**files, **{name: name for name in COMMANDS if name != "house"}}.items():
        with pytest.raises(SystemExit) as ended:
            command(name, "--help")
        assert ended.value.code == 0
        assert load(file).__doc__.strip() in capsys.readouterr().out
        assert refused(name, "--no_such_option")


def test_one_command_lists_all_and_refuses_other_names(load, monkeypatch, capsys):
    runner = load("run")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
        runner.main()

    run()
    printed = capsys.readouterr().out
    assert all(f"  {name}" in printed for name in (*runner.BENCHMARKS, *runner.FILES))
    with pytest.raises(SystemExit) as ended:
        run("nope")
    assert ended.value.code == 2
    assert "there is no benchmark nope" in capsys.readouterr().err
