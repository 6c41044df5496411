"""report.html stands alone, says how a run is, and takes whatever a folder holds as data."""

import json
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from experiment_runs import launch
from linear_family import LINEAR, NAME, linear

from ebmjax import training
from ebmjax.recipes.config.errors import WorkdirError
from ebmjax.recipes.report import of_run

VOID = {"meta", "img", "br"}
HOSTILE = "<script src='http://evil'>alert(1)</script>"


class Page(HTMLParser):
    """Text, tags and places of a page; every tag that it opens is closed."""

    def __init__(self, path):
        super().__init__()
        self.text, self.tags, self.places, self.open = "", set(), [], []
        self.feed(path.read_text())
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        self.open += [] if tag in VOID else [tag]

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.places += [value for name, value in attrs if name in ("src", "href", "xlink:href")]
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + "\n"


def look(path):
    """The page, after what holds for every one: it fetches and runs nothing, and is small."""
    found = Page(path)
    assert path.stat().st_size < 1_000_000
    assert not found.tags & {"iframe", "link", "object", "embed", "base", "form", "script"}
    assert not [p for p in found.places if ":" in p and not p.startswith("data:image/png;base64,")]
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert f'"{policy}"' in path.read_text()
    return found


def make(folder, rows=(), **files):
    """A run's folder by hand; ``summary={...}`` is summary.json."""
    (folder / "plots").mkdir(parents=True)
    for name, content in ({"config": {"family": "joint", "seed": 0}} | files).items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "metrics.jsonl").write_text(lines)
    return folder


def test_a_finished_run_leaves_a_report(tmp_path):
    changed = linear(**{"optimizer.learning_rate": 0.02})
    assert launch(changed, str(LINEAR), str(tmp_path / "run")) is None
    found = look(tmp_path / "run" / "report.html")
    for text in ("Done: 10 steps", "optimizer.learning_rate", "0.02", "versions.jax"):
        assert text in found.text
    about = json.loads((tmp_path / "run" / "command.json").read_text())
    assert about["config"] == str(LINEAR)
    assert about["command"] in found.text
    launch(changed, NAME, str(tmp_path / "run"), "eval")
    assert (tmp_path / "run" / "report.html").stat().st_mtime_ns >= (
        tmp_path / "run" / "evaluation.json"
    ).stat().st_mtime_ns


def test_a_diverged_run_leaves_a_report(tmp_path):
    breaking = linear("long", **{"loss.breaks_at": 0.1, "train.max_consecutive_skips": 4})
    with pytest.raises(training.DivergenceError):
        launch(breaking, NAME, str(tmp_path))
    text = look(tmp_path / "report.html").text
    assert "Diverged at step" in text
    assert "steps without a finite update" in text


def test_a_report_says_how_far_the_run_is(finished, tmp_path):
    folder = make(tmp_path / "run", [{"step": 4, "loss": 1.0}])
    assert "Unfinished: step 4." in look(of_run.write(folder)).text
    shutil.copytree(finished / "checkpoints", folder / "checkpoints")
    assert "Unfinished: step 10 of 10." in look(of_run.write(folder)).text
    recovery = {"recoveries": [{"reason": "the loss was not finite"}] * 2}
    (folder / "recoveries.json").write_text(json.dumps(recovery))
    found = look(of_run.write(folder))
    assert "recovered 2 times." in found.text
    assert found.text.count("the loss was not finite") == 2


def test_numbers_have_errors_and_references(tmp_path):
    row = {"sample_fid": 9.86, "sample_fid_error": 1.84, "start_fid": 14.87, "start_fid_error": 2.1}
    row |= {"gaussian_fid": 17.0, "test_images_fid": 2.0, "test_accuracy": 0.9, "loss": 0.25}
    row |= {f"fid_minus_starts{end}": x for end, x in (("", -5.0), ("_low", -10.6), ("_high", 0.5))}
    report = {"classification": {"accuracy": 0.986}, "step": 12_000, "warnings": ["none measured"]}
    report["test_set_error"] = {"classification.accuracy": 0.0062}
    folder = make(tmp_path / "run", [{"step": 7} | row], evaluation=report)
    text = look(of_run.write(folder)).text
    for expected in (
        "9.9 ± 1.8",
        "14.9 ± 2.1",
        "-5.0 (-10.6 to 0.5)",
        "± is one standard error.",
        "0.9860 ± 0.0062",
        "none measured",
    ):
        assert expected in text


def test_everything_in_a_folder_is_data(tmp_path):
    folder = make(
        tmp_path / HOSTILE.replace("/", "_"),
        [{"step": 1, HOSTILE: 1.0, "$\\frac$": 2.0, "loss": HOSTILE, "sample_fid": [1.0, 2.0]}],
        config={"family": HOSTILE, HOSTILE: {"a": HOSTILE}},
        summary={"versions": {HOSTILE: HOSTILE}, "extractor": HOSTILE, "data": [HOSTILE, 1]},
        evaluation={"warnings": [HOSTILE], "step": [], "test_set_error": HOSTILE},
        recoveries={"recoveries": [{"reason": HOSTILE}, HOSTILE]},
        command={"command": HOSTILE, "config": HOSTILE + "\ud800"},
    )
    (folder / "plots" / 'eval_"><script>.png').write_bytes(b"\x89PNG")
    found = look(of_run.write(folder))
    assert found.text.count(HOSTILE) >= 10


def test_rows_of_any_kind_are_read_as_far_as_they_can_be(tmp_path):
    rows = [
        {"step": 1, "loss": 1.0, "accuracy": [0.5, 0.6]},
        {"step": 3, "loss": 10**400, "accuracy": [0.5]},
        {"step": 4, "loss": {"a": 1}, "test_accuracy": True, "skipped": "many"},
        {"step": 5, "loss": None, "skipped": [1, 2]},
    ]
    text = look(of_run.write(make(tmp_path / "run", rows))).text
    assert "Unfinished: step 5; 3 steps without a finite update." in text
    assert "Unfinished: step 4." in look(of_run.write(make(tmp_path / "odd", rows[:3]))).text


def test_large_pictures_are_links(tmp_path):
    folder = make(tmp_path / "run")
    for name in ("eval_ood", "eval_reliability", "own 1", "own 2"):
        (folder / "plots" / f"{name}.png").write_bytes(bytes(of_run.MOST_BYTES // 2 - 4))
    for step in (0, 10):
        (folder / "plots" / f"samples_{step:06d}.png").write_bytes(b"\x89PNG")
    found = look(of_run.write(folder))
    assert len([p for p in found.places if p.startswith("data:")]) == 1 + 2
    assert [p for p in found.places if p.startswith("plots")] == [
        "plots/own%201.png",
        "plots/own%202.png",
    ]


def test_a_report_needs_no_jax(finished, tmp_path):
    folder = make(tmp_path / "run", [{"step": 1, "loss": 1.0}], summary={"loss": 1.0})
    code = "import sys; from ebmjax.recipes.report.of_run import main; main()"
    code += "; sys.exit('jax' in sys.modules)"
    arguments = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{folder / 'report.html'}\n")


def test_the_command_refuses_what_it_cannot_report_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ebmjax report", str(tmp_path)])
    with pytest.raises(SystemExit, match="is not the folder of a run"):
        of_run.main()
    folder = make(tmp_path / "run")
    (folder / "plots" / "eval_out.png").symlink_to("/etc/hostname")
    monkeypatch.setattr(sys, "argv", ["ebmjax report", str(folder)])
    with pytest.raises(SystemExit, match="is a link that leads out"):
        of_run.main()
    assert not (folder / "report.html").exists()
    (folder / "plots" / "eval_out.png").unlink()
    (folder / "summary.json").write_text("[]")
    with pytest.raises(WorkdirError, match=r"summary\.json is not a JSON object"):
        of_run.write(folder)
    (folder / "summary.json").unlink()
    before = {p.name for p in folder.iterdir()}
    of_run.main()
    assert {p.name for p in folder.iterdir()} - before == {"report.html"}
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n"
