"""Samplers, losses, optimisers and evaluations of the user: FILE.py:FUNCTION in every family."""

import json
import textwrap
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from experiment_runs import change, rows_of, summary_of

from ebmjax import data, recipes
from ebmjax.learning import Samples
from ebmjax.recipes.config import declare, families
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.evaluators.evaluations import Evaluations, make_evaluators
from ebmjax.recipes.models.build import user_optimizer
from ebmjax.recipes.models.latent.checks import sampler
from ebmjax.recipes.parts.objectives import draws, make_loss
from ebmjax.recipes.parts.samplers import SAMPLERS, SINGLE, of_section
from ebmjax.recipes.study import make_flags
from ebmjax.training import init_state

OWN = """
from typing import Annotated, Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from ebmjax._ranges import FRACTION
from ebmjax.types import Sampler

class State(NamedTuple):
    position: Any
    score: Any

def drift(log_density_fn, *, step_size=0.5, noise=0.0):
    def init(x, key=None):
        return State(x, jax.grad(log_density_fn)(x))

    def step(key, state):
        x = state.position + step_size * state.score
        return init(x + noise * jax.random.normal(key, x.shape)), ()

    return Sampler(init, step)

def together(log_density_fn, *, step_size=0.5):
    return drift(log_density_fn, step_size=step_size)

together.interacts = True
together.memory = ("score",)

def nothing(log_density_fn):
    return 3

def blind_sampler():
    return 3

def needs(log_density_fn, *, width):
    return drift(log_density_fn)

def kept(log_density_fn, *, keep: Annotated[float, FRACTION] = 0.5):
    return drift(log_density_fn, step_size=keep)

def gap(key, model, batch, negatives, weight=1.0):
    return weight * (jnp.mean(negatives.log_density) - jnp.mean(batch.log_density))

def slope(key, model, batch, weight=1.0):
    return weight * jnp.mean(model(batch.x))

def each(key, model, batch, negatives):
    return batch.f.mean() - negatives.f.mean(), {"all": batch.f}

def two(key, model, batch, negatives):
    return batch.f - negatives.f[: len(batch.f)]

def single(energy):
    return energy

def fails(key, model, batch, negatives):
    raise RuntimeError("no luck")

def sgd(learning_rate, scale=1.0):
    return optax.sgd(lambda step: scale * learning_rate(step))

def rateless(scale=1.0):
    return optax.sgd(scale)

def none(learning_rate):
    return None

def network():
    return nn.Sequential([lambda x: x.reshape(len(x), -1), nn.Dense(1), lambda x: x[..., 0]])

def images(split):
    return np.random.default_rng(len(split)).integers(0, 256, (64, 8, 8, 1), np.uint8), None

def pixels(key, model, data, *, scale=1.0):
    return {"mean_pixel": scale * data.images.mean()}

def listed(key, model, data):
    return [1.0]

def vector(key, model, data):
    return {"mean": data.images[0]}

def taken(key, model, data):
    return {"test_energy": 1.0}

def blind(model):
    return {}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder, with the user's file."""
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configured(family, **fields):
    fields = {name.replace("__", "."): value for name, value in fields.items()}
    return change(declare.defaults(families.all_fields(family)), fields)


def sampler_of(family, name, **fields):
    config = configured(family, **fields)
    if family == "latent":
        config.sampler.name = name
        return sampler(config, "prior")
    return of_section(config, "sampler.name", name, SAMPLERS if family == "joint" else SINGLE)


@pytest.mark.parametrize(
    ("family", "step_size"), [("joint", 0.5), ("energy", 0.5), ("latent", 0.16)]
)
def test_a_sampler_has_its_own_defaults_and_the_options(family, step_size, here):
    """A latent model's section gives the step; the others leave the function its own."""
    chosen = sampler_of(family, "own.py:drift", sampler__options__noise=0.25)
    assert chosen.options == {"step_size": step_size, "noise": 0.25}
    assert not chosen.entry.rejects
    assert not chosen.entry.interacts


def test_declared_fields_give_defaults_and_ranges(here):
    assert sampler_of("joint", "own.py:kept").options["keep"] == 0.5
    with pytest.raises(ConfigError, match=r"options\.keep must be in \[0, 1\).*got 1\.5"):
        sampler_of("joint", "own.py:kept", sampler__options__keep=1.5)


REFUSED = [
    ("own.py:nowhere", {}, r"config\.sampler\.name='own\.py:nowhere' must name a function of"),
    ("gone.py:drift", {}, r"config\.sampler\.name='gone\.py:drift'.*No such file"),
    ("own.py:needs", {}, r"arguments \['width'\] without a value.*sampler\.options\.width=VALUE"),
    ("own.py:blind_sampler", {}, r"must take \(log_density_fn\)"),
    ("own.py:drift", {"stepsize": 1}, r"options\.stepsize is no option.*mean 'step_size'"),
    ("own.py:drift", {"step_size": -1}, r"options\.step_size must be positive and finite, got"),
]


@pytest.mark.parametrize(("name", "options", "message"), REFUSED)
def test_what_names_no_sampler_is_refused_in_one_line(name, options, message, here):
    with pytest.raises(ConfigError, match=message) as caught:
        sampler_of(
            "joint", name, **{f"sampler.options.{key}": value for key, value in options.items()}
        )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("init", "step", "message"),
    [
        ("3", "3", r"must return a sampler.*got a Sampler"),
        (
            "lambda x: x",
            "lambda key, state: (state, ())",
            "init.* a field position.*got a state that is a ndarray",
        ),
        ("State", "lambda key, state: state", r"-> \(state, info\).*got a State of step"),
        (
            "State",
            "lambda key, state, x: (state, ())",
            r"argument: 'x'. It is called as step\(key, state\)",
        ),
        (
            "State",
            "lambda key, state: (State(state.position[None]), ())",
            r"keeps shape and dtype .*got float\d+\[1, 2\] from float\d+\[2\]",
        ),
        (
            "lambda x: State(1 / 0)",
            "lambda key, state: (state, ())",
            r"line \d+: ZeroDivisionError",
        ),
    ],
)
def test_a_sampler_of_the_user_is_held_to_its_contract(init, step, message, here):
    text = f"""
        import collections
        State = collections.namedtuple("State", "position")
        def wrong(log_density_fn):
            Sampler = collections.namedtuple("Sampler", "init step")
            return Sampler({init}, {step})
        """
    (here / "wrong.py").write_text(textwrap.dedent(text))
    chosen = sampler_of("joint", f"{here}/wrong.py:wrong")

    def move():
        made = chosen.entry.make(lambda x: x)
        made.step(None, made.init(np.zeros(2)))

    with pytest.raises(ConfigError, match=message):
        move()


def test_particles_that_interact_are_refused_where_chains_move_alone(here):
    entry = sampler_of("joint", "own.py:together").entry
    assert entry.interacts
    assert entry.memory == ("score",)
    with pytest.raises(ConfigError, match="moves all chains together"):
        sampler_of("energy", "own.py:together")


def test_a_loss_alone_gets_the_energies_means(here):
    config = configured(
        "energy", loss__name="own.py:gap", loss__options__weight=2.0, loss__energy_l2=0.5
    )
    data, samples = (Samples(f, f, f) for f in (-np.float32([1.0, 3.0]), -np.float32([5.0])))
    loss, numbers = make_loss(config, None)
    value, metrics = loss(None, None, data, samples, numbers)
    assert float(value) == -6.0 + 0.5 * (5.0 + 25.0)
    assert float(metrics["energy_gap"]) == 3.0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own.py:two", r"must return a loss, a floating-point scalar.*got 'loss' of shape \(2,\)"),
        ("own.py:each", r"a dict of scalars beside it; got 'all' of shape \(2,\)"),
        ("own.py:fails", r"config\.loss\.name='own\.py:fails', line \d+: RuntimeError: no luck"),
    ],
)
def test_what_is_no_loss_is_refused(name, message, here):
    def call():
        loss, numbers = make_loss(configured("energy", loss__name=name), None)
        data, samples = (Samples(f, f, f) for f in (jnp.ones(2), jnp.ones(3)))
        loss(None, None, data, samples, numbers)

    with pytest.raises(ConfigError, match=message):
        call()


def test_a_loss_without_negatives_has_no_chains(here):
    config = configured("energy", loss__name="own.py:slope", loss__options__weight=2.0)
    assert not draws(config.loss.name)
    config.loss.energy_l2 = 0.5
    families.check(config)
    x = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    train = data.ImageData(x, np.zeros(2, np.int32))
    loss, numbers = make_loss(config, train)
    value, metrics = loss(jax.random.key(0), lambda x: (x**2).sum(1), Samples(x), None, numbers)
    assert float(value) == 2.0 * 15.0
    assert metrics == {}


def test_an_optimiser_gets_the_rate_of_the_run(here):
    config = configured("joint", optimizer__name="own.py:sgd", optimizer__options__scale=2.0)
    optimizer = user_optimizer(config, lambda step: 0.25)
    updates, _ = optimizer.update(np.float32(1.0), optimizer.init(np.float32(0.0)))
    assert float(updates) == -0.5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own.py:rateless", r"must take \(learning_rate\)"),
        ("own.py:none", r"must return an optax transformation.*got a NoneType"),
    ],
)
def test_what_is_no_optimiser_is_refused(name, message, here):
    config = configured("joint", optimizer__name=name)
    with pytest.raises(ConfigError, match=message):
        user_optimizer(config, optax.constant_schedule(0.1))


def evaluations(config, folder):
    """Evaluates two numbers of ours, and those of a user's evaluation."""
    tests = [data.ImageData(np.full((1, 2), grey), np.zeros(1, np.int32)) for grey in (3.0, 5.0)]
    users = {k: v for k, v in make_evaluators(config).items() if ":" in k}
    models = (lambda state: SimpleNamespace(about=dict),) * 2
    ours = lambda key, model, data: Found({"accuracy": 1}, {"test_energy": 0.5})  # noqa: E731
    evaluators = {"classification": (ours, 1), **users}
    key = jax.random.key(0)
    return Evaluations(folder, key, evaluators, config, 1, models, (tests[0], tests[1]))


STATE = init_state(np.zeros(1), optax.sgd(0.1))


def test_numbers_stand_in_the_rows_and_in_the_evaluation_each_of_its_images(here):
    config = configured("joint", evals__functions=("own.py:pixels",), evals__options__scale=2)
    made = evaluations(config, here)
    assert made.monitor(STATE, 1) == {"test_energy": 0.5, "mean_pixel": 6.0}
    (here / "metrics.jsonl").write_text('{"step": 1}\n')
    report = made.evaluate(STATE)
    assert (report["accuracy"], report["mean_pixel"]) == (1, 10.0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own.py:listed", r"It must return numbers by name"),
        ("own.py:vector", r"It must return numbers by name"),
        ("own.py:taken", r"returns 'test_energy', which is taken"),
    ],
)
def test_what_is_no_number_is_refused(name, message, here):
    made = evaluations(configured("joint", evals__functions=(name,)), here)
    with pytest.raises(ConfigError, match=message):
        made.monitor(STATE, 1)


@pytest.mark.slow
def test_a_model_trains_by_parts_of_ones_own(here):
    """The pages on adding parts run the other families."""
    fields = {
        "data.name": "own.py:images",
        "model.factory": "own.py:network",
        "sampler.name": "own.py:drift",
        "sampler.options.noise": 0.02,
        "loss.name": "own.py:gap",
        "optimizer.name": "own.py:sgd",
        "evals.functions": ("own.py:pixels",),
    }
    name = "configs/image.py:smoke"
    trained = recipes.train(name, folder="out", fields=fields, mode="all")
    # A file that names them names them, too: the run is finished.
    text = f"from ebmjax.recipes.config.command_line import read\nflags = {make_flags(fields)}\n"
    (here / "mine.py").write_text(f"{text}def get_config():\n    return read({name!r}, flags)\n")
    again = recipes.train("mine.py", folder="out")
    jax.tree.map(np.testing.assert_array_equal, again.params, trained.params)
    assert summary_of(here / "out")["steps"] > 0
    assert rows_of(here / "out")[-1]["mean_pixel"] > 1
    assert json.loads((here / "out" / "evaluation.json").read_text())["mean_pixel"] > 1
    saved = json.loads((here / "out" / "config.json").read_text())
    assert saved["sampler"]["options"] == {"noise": 0.02}
