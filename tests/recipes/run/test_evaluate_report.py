"""Tests the report of --mode=eval on what it wrote."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from experiment_runs import digits, strict_json

from ebmjax.evaluate import Extractor
from ebmjax.recipes.evaluators import extractors
from ebmjax.recipes.run.reports import evaluate
from ebmjax.recipes.run.run import Run


@pytest.mark.parametrize("is_drawn", [False, True])
def test_plots_are_named_only_where_there_are_any(is_drawn, tmp_path, capsys):
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "training.png").touch()  # drawn by the training

    def report(state):
        if is_drawn:
            (tmp_path / "plots" / "eval_energies.png").touch()
        return {"number": 1.5}

    state = SimpleNamespace(step=np.array(7), params=np.zeros(3))
    run = Run(digits(), tmp_path)
    run.experiment = SimpleNamespace(config=None, evaluate=report)
    evaluate(run, state)
    assert strict_json((tmp_path / "evaluation.json").read_text())["number"] == 1.5
    said = capsys.readouterr().out
    assert f"Numbers in {tmp_path}/evaluation.json" in said
    assert (f"plots in {tmp_path}/plots/eval_*" in said) == is_drawn
    assert ("plots" in said.replace(str(tmp_path), "")) == is_drawn


def test_what_could_not_be_measured_is_printed_and_kept(tmp_path, capsys):
    def report(state):
        for _ in range(2):
            warnings.warn("3 of 4 attacked images had no usable gradient", stacklevel=1)
        return {}

    state = SimpleNamespace(step=np.array(7), params=np.zeros(3))
    run = Run(digits(), tmp_path)
    run.experiment = SimpleNamespace(config=None, evaluate=report)
    evaluate(run, state)
    text = "3 of 4 attacked images had no usable gradient"
    assert strict_json((tmp_path / "evaluation.json").read_text())["warnings"] == [text, text]
    assert capsys.readouterr().out.splitlines().count(f"warning: {text}") == 2


@pytest.mark.parametrize("sha256", ["", "abc"])
def test_weights_that_nothing_checks_are_named_with_what_would(sha256, monkeypatch, capsys):
    judge = Extractor("inception_v3", lambda images: images, {"sha256": "abc"})
    monkeypatch.setattr(extractors, "inception", lambda config: judge)
    config = digits(**{"eval.inception_weights": "inception.npz", "eval.inception_sha256": sha256})
    extractors.check_weights(config)
    said = "unchecked. To have them checked: --config.eval.inception_sha256=abc"
    assert (said in capsys.readouterr().out) == (not sha256)
