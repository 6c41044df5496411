"""A run that diverges goes on by itself: where from, with what change, and what it leaves."""

import os
import signal

import pytest
from experiment_runs import contents, launch, rows_of, strict_json, summary_of
from linear_family import NAME, accuracy, linear

from ebmjax import training
from ebmjax.recipes.config import declare, families
from ebmjax.recipes.config.errors import WorkdirError
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.run import states
from ebmjax.recipes.run.run import Run, evaluate_saved
from ebmjax.recipes.run.trained import load

# The weight rises to 1. It may rise to 0.4, and twice as far with twice the steps of a chain.
BREAKING = {
    "train.checkpoint_every_epochs": 2,
    "evals.every_epochs": 4,
    "optimizer.learning_rate": 0.01,
    "train.on_divergence": "recover",
    "train.max_consecutive_skips": 4,
    "train.keep_best": "test_accuracy",
    "loss.breaks_at": 0.4,
}


@pytest.fixture(scope="module")
def config():
    return linear("long", **BREAKING)


@pytest.fixture(scope="module")
def recovered(tmp_path_factory, config):
    """The folder of a run that recovered twice, and nothing else happened to it."""
    path = tmp_path_factory.mktemp("recovered") / "run"
    assert launch(config, NAME, str(path)) is None
    return path


def events_of(path):
    return strict_json((path / "recoveries.json").read_text())["recoveries"]


def weight_of(path, step):
    return float((path / f"plots/weight_{step:06d}.txt").read_text())


def test_a_run_recovers_with_ever_smaller_steps(recovered, config):
    events = events_of(recovered)
    assert [one["changes"] for one in events] == [
        {"optimizer.learning_rate": [0.01, 0.005]},
        {"optimizer.learning_rate": [0.005, 0.0025]},
    ]
    for one in events:
        assert one["reason"] == "the loss was not finite"
        assert one["diverged_at"] == one["first_skipped"] + 3
        assert one["from_step"] == 4 * ((one["first_skipped"] - 1) // 4)  # checkpoints every 4
    assert run_folder.as_json(config) == strict_json((recovered / "config.json").read_text())
    assert summary_of(recovered)["recoveries"] == events
    rows = rows_of(recovered)
    assert [row["step"] for row in rows] == list(range(121))
    assert all(row["skip_cause"] == 0 for row in rows if "loss" in row)
    # The best state of the run is of this run: its number is that of its own row.
    (best,) = (recovered / "best").iterdir()
    row = next(row for row in rows if row["step"] == int(best.name))
    assert row["test_accuracy"] == accuracy(weight_of(recovered, row["step"]))


class Killed(BaseException):
    """A process that ends at a certain moment."""


def kill_at(patch, place, name, when=lambda *args: True):
    """The first call of ``place.name`` with arguments for which ``when`` holds ends the process."""
    original = getattr(place, name)
    armed = [True]

    def dies(*args, **kwargs):
        if armed[0] and when(*args):
            armed[0] = False
            raise Killed
        return original(*args, **kwargs)

    patch.setattr(place, name, dies)


def assert_same_run(ours, theirs):
    assert rows_of(ours) == rows_of(theirs)
    for name in ("params_sha256", "loss", "test_accuracy", "steps"):
        assert summary_of(ours)[name] == summary_of(theirs)[name]


MADE = []
"""Experiments that were built."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    {
        "before its checkpoints go": (training.Checkpoints, "remove_after"),
        "before it is written": (
            run_folder,
            "write_json",
            lambda path, _: path.name == states.RECOVERIES,
        ),
        "before it trains": (training, "fit", lambda key, state, *_: len(MADE) == 2),
        "later": (training.JsonlWriter, "write", lambda self, step, row: step == 35),
    }.items(),
    ids=lambda moment: moment[0],
)
def test_an_interrupted_run_goes_on_in_the_same_way(
    moment, recovered, config, tmp_path, monkeypatch
):
    path = tmp_path / "run"
    MADE.clear()
    build = Run.build
    monkeypatch.setattr(Run, "build", lambda run, **given: MADE.append(run) or build(run, **given))
    kill_at(monkeypatch, *moment[1])
    with pytest.raises(Killed):
        launch(config, NAME, str(path))
    assert launch(config, NAME, str(path)) is None
    assert_same_run(path, recovered)
    ours, theirs = contents(path), contents(recovered)
    for name in theirs:
        if name.startswith("plots/"):
            assert ours[name] == theirs[name], name


def test_an_evaluation_is_of_the_model_as_it_was_trained(recovered, config, monkeypatch, capsys):
    build, seen = Run.build, []
    monkeypatch.setattr(Run, "build", lambda run, **given: seen.append(run.now) or build(run))
    evaluate_saved(config, str(recovered), NAME)
    assert "train points on a line" in capsys.readouterr().out.splitlines()
    assert (recovered / "evaluation.json").exists()
    with pytest.raises(WorkdirError, match="no model to use"):  # the linear family has none
        load(recovered)
    assert [now.optimizer.learning_rate for now in seen] == [0.0025] * 2


@pytest.mark.parametrize(
    ("changes", "most"), [({"train.on_divergence": "stop"}, 5), ({}, 1)], ids=["stop", "once"]
)
def test_a_run_that_may_not_recover_ends_as_ever(changes, most, tmp_path, monkeypatch):
    monkeypatch.setattr(states, "MOST_RECOVERIES", most)
    config = linear("long", **BREAKING | changes)
    for _ in range(2):  # and stays as it is
        with pytest.raises(training.DivergenceError, match=r"Training diverged: the last \d+ st"):
            launch(config, NAME, str(tmp_path / "run"))
    assert (tmp_path / "run/recoveries.json").exists() == (most == 1)


def test_a_run_that_begins_again_starts_from_the_other_run_again(finished, tmp_path, capsys):
    changes = {"loss.breaks_at": 0.5, "train.start_from": str(finished)}
    path = tmp_path / "run"
    assert launch(linear(**BREAKING | changes), NAME, str(path)) is None
    assert weight_of(path, 0) == weight_of(finished, 10) > 0.5
    assert (
        "Diverged at step 4: the loss was not finite, from step 1 on. Goes on from step 0 with a "
        "new key and smaller steps: config.optimizer.learning_rate 0.01 -> 0.005."
    ) in capsys.readouterr().out


def test_a_recovery_goes_back_to_a_healthy_checkpoint(tmp_path):
    """The one of 8 is of an interruption, the one of 10 of skipped steps."""
    config = linear(**BREAKING)
    run_folder.prepare(tmp_path, config)
    run = Run(config, tmp_path)
    state = run.build().state
    with training.Checkpoints(tmp_path / "checkpoints", max_to_keep=9) as kept:
        for step in (4, 6, 8, 10):
            kept.save(step, state, {}, is_passing=step == 8)
    error = training.DivergenceError("Training diverged.", 13, 10, "because")
    (found,) = states.go_back(tmp_path, run.now, [], error)
    assert (found["diverged_at"], found["from_step"]) == (13, 6)
    assert states.read_recoveries(tmp_path, config) == [found]
    assert sorted(map(int, os.listdir(tmp_path / "checkpoints"))) == [4, 6]


# The row after which a signal comes is written while the next block runs, so these save between
# the regular checkpoints: before each recovery, and within the run after it.
INTERRUPTIONS = [
    {7: signal.SIGTERM, 12: signal.SIGINT, 56: signal.SIGTERM},
    {4: signal.SIGTERM, 8: signal.SIGINT, 13: signal.SIGTERM, 55: signal.SIGINT},
]


@pytest.mark.slow
@pytest.mark.parametrize(("recovery", "at"), [(0, INTERRUPTIONS[0]), (1, INTERRUPTIONS[1])])
def test_signals_change_nothing_of_a_run_that_recovers(
    recovery, at, recovered, config, tmp_path, monkeypatch
):
    path, pending, write = tmp_path / "run", dict(at), training.JsonlWriter.write

    def write_and_stop(self, step, row):
        write(self, step, row)
        num = len(states.read_recoveries(path, config))
        if "loss" in row and num >= recovery and step in pending:
            os.kill(os.getpid(), pending.pop(step))

    monkeypatch.setattr(training.JsonlWriter, "write", write_and_stop)
    num_sittings = 0
    while launch(config, NAME, str(path)) is not None:
        num_sittings += 1
    assert num_sittings >= 2
    assert_same_run(path, recovered)
    assert events_of(path) == events_of(recovered)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"noise_scale": 0.02}, {"step_size": 0.5, "noise_scale": 0.5**0.5}),
        ({"noise_scale": None, "temperature": 0.1}, {"step_size": 0.5}),
        ({"target_acceptance": 0.6}, {}),
    ],
)
def test_smaller_steps_keep_the_temperature_and_leave_steps_that_adapt(changes, expected):
    """T = noise^2 / (2 step); noise that is not given comes of step and temperature."""
    config = declare.defaults(families.all_fields("joint"))
    adaptive = changes.pop("target_acceptance", None)
    config.sampler.target_acceptance = adaptive
    config.sampler.sgld.update(changes)
    factors = {name: new / old for name, (old, new) in states.smaller_steps(config).items()}
    assert factors.pop("optimizer.learning_rate") == 0.5
    assert factors == {f"sampler.sgld.{name}": one for name, one in expected.items()}
