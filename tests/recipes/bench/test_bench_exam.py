"""Scores and verdicts of the bench, by adapters that draw as they please."""

from typing import Any

import numpy as np
import pytest

from ebmjax.recipes.bench import exam
from ebmjax.recipes.bench.libraries import load, ours
from ebmjax.recipes.bench.targets import find

NAME = "mixture2"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exam, "NUM_EXACT", 512)
    monkeypatch.setattr(exam, "NUM_REFERENCE", 20_000)
    exam.reference.cache_clear()


def score(task: str, *cell: Any) -> Any:
    return exam.summarise(exam.TASKS[task](*cell))


def adapter(library: str) -> exam.Run:
    return lambda task, name, *given: getattr(load(library), task)(find(name), *given)


def sampler(spoil: Any) -> exam.Run:
    """An adapter whose draws are exact, and then spoilt; draws of the start come first."""

    def run(task: str, name: str, method: str, starts: Any, *numbers: Any) -> Any:
        step, num_gradients, num_kept, seed = numbers
        rng = np.random.default_rng(seed)
        draws = find(name).draw(rng, starts[..., 0].size * num_kept)
        draws = draws.reshape(*starts.shape[:2], num_kept, -1)
        return spoil(draws, starts, step), num_gradients

    return run


def test_exact_draws_are_right_and_have_the_error_of_exact_draws() -> None:
    row = score("sample", sampler(lambda x, *_: x), NAME, "", "exact", 4)
    assert row["verdict"] == "right"
    assert row["gradients"] == exam.NUM_CHAINS * exam.NUM_GRADIENTS
    # n draws have an error of 1 / sqrt(n), which is the mean over four numbers and four seeds.
    expected = (exam.NUM_CHAINS * exam.NUM_KEPT / 2) ** -0.5
    for key in ("error", "exact_error"):
        assert 0.4 * expected < row[key]["mean"] < 2 * expected
    assert row["draws_per_1000_gradients"] == pytest.approx(25, rel=1.0)  # 24 draws of 960
    assert row["start_error"]["mean"] > 20 * expected
    assert row["mass_error"]["mean"] < 0.03
    assert len(row["curve"]) == 4


@pytest.mark.parametrize("method", ["shift", "width", "mass"])
def test_a_bias_at_exact_starts_is_wrong(method: str) -> None:
    spoil = {
        "shift": lambda x, *_: x + np.array([2.0, 0.0]),
        "width": lambda x, *_: x + 0.5 * np.random.default_rng(0).normal(size=x.shape),
        "mass": lambda x, *_: np.where(np.arange(x.shape[1])[:, None, None] % 2, x, abs(x)),
    }[method]
    assert exam.find_bias(sampler(spoil), NAME, "", "exact") > exam.WRONG


def test_a_sampler_that_stays_is_not_wrong_and_not_yet_there() -> None:
    stays = sampler(lambda x, starts, _: np.broadcast_to(starts[:, :, None], x.shape))
    row = score("sample", stays, NAME, "", "exact", 4)
    assert row["verdict"] == "not yet"
    assert row["exact_bias"] < exam.WRONG


def test_one_chain_at_infinity_has_diverged() -> None:
    def spoil(x: Any, starts: Any, _: Any) -> Any:
        x[0, 0] = np.inf if starts.shape[0] > 1 else x[0, 0]
        return x

    row = score("sample", sampler(spoil), NAME, "", "exact", 4)
    assert row["verdict"] == "diverged"


def test_a_step_that_is_too_large_is_no_wrong_sampler() -> None:
    size = find(NAME).step_size
    diverges = sampler(lambda x, _, step: np.where(step > 0.5 * size, np.nan, x * (1 + 0.1 * step)))
    assert exam.find_bias(diverges, NAME, "", "step") < exam.WRONG
    always = sampler(lambda x, *_: np.nan * x)
    assert exam.find_bias(always, NAME, "", "step") == np.inf


def test_a_bias_of_the_step_is_forgiven_to_samplers_of_small_steps_alone() -> None:
    biased = sampler(lambda x, _, step: x * (1.0 + 0.1 * step))
    assert exam.find_bias(biased, NAME, "", "exact") > exam.WRONG
    assert exam.find_bias(biased, NAME, "", "step") < exam.WRONG
    assert exam.find_bias(biased, NAME, "", "particles") is None


def test_log_z_inside_and_outside() -> None:
    truth = find(NAME).log_z

    def run(*_: Any) -> Any:
        return truth + np.array([0.1, -0.1, 0.3]), truth + np.array([[-1, 1]] * 2 + [[0.1, 1]]), 1e3

    row = score("logz", run, NAME, "", "", 3)
    assert row["inside"] == "2 of 3"
    assert row["width"]["mean"] == pytest.approx((2 + 2 + 0.9) / 3)
    assert row["error"]["mean"] == pytest.approx(0.5 / 3)
    assert row["bias"]["mean"] == pytest.approx(0.1)
    assert "inside" not in score("logz", lambda *_: (run()[0], None, 1e3), NAME, "", "", 3)


def test_weights_of_the_base_are_close_where_the_base_is() -> None:
    row = score("logz", lambda *_: (np.zeros(3), None, 1e5), "gaussian2", "", "", 3)
    assert row["start_error"]["mean"] < 0.05  # the weights' spread is about 1


def test_the_divergence_of_the_truth_is_0_and_of_a_wider_one_is_known() -> None:
    target = find("gaussian2")

    def learn(factor: float) -> exam.Run:
        def run(task: str, name: str, method: str, data: Any, points: Any) -> Any:
            f = target.log_density(np, 1.0 + (points - 1.0) / factor) + 7.0  # up to a constant
            return np.broadcast_to(f, (len(data), len(f)))

        return run

    row = score("learn", learn(1.0), "gaussian2", "", "", 3)
    assert row["error"]["mean"] == pytest.approx(0.0, abs=1e-3)
    assert 0.0 < row["start_error"]["mean"] < 0.01  # a Gaussian fits a Gaussian
    row = score("learn", learn(2.0), "gaussian2", "", "", 3)
    known = 2 * (np.log(2.0) + 0.5 / 4.0 - 0.5)  # of two coordinates
    assert row["error"]["mean"] == pytest.approx(known, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["ours", "blackjax", "blackjax_smc"])
def test_adapters_pass_the_exam(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(load(library).PACKAGE)
    run, tasks = adapter(library), load(library).TASKS
    for method, kind in tasks.get("sample", {}).items():
        row = score("sample", run, "gaussian2", method, kind, 2)
        assert row["verdict"] in ("right", "particles"), method
        assert row["error"]["mean"] < 0.1 * row["start_error"]["mean"], method
    for method in tasks.get("logz", {}):
        row = score("logz", run, "gaussian2", method, "", 2)
        assert row["error"]["mean"] < 0.2
        assert row.get("inside", "2 of 2") == "2 of 2"


@pytest.mark.slow
def test_our_objectives_learn_a_banana(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "NUM_STEPS", 500)
    for method in ours.TASKS["learn"]:
        row = score("learn", adapter("ours"), "banana", method, "", 2)
        assert row["error"]["mean"] < 0.5 * row["start_error"]["mean"], method
