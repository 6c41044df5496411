"""The bench calls wrong samplers wrong: mistakes of tests/mutants.toml, and others planted here."""

import sys
import tomllib
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ebmjax import samplers
from ebmjax.recipes.bench import exam
from ebmjax.recipes.bench.libraries.ours import drive
from ebmjax.recipes.bench.targets import find

TARGETS = ("gaussian2", "banana", "wells")
SAMPLERS = Path(samplers.__file__).parent
# Mistakes in the law of a sampler, and the sampler that they spoil. The other mutants of these
# files are checks, reports, and temperatures, which are 1 in the bench. "coin-key-used-twice"
# breaks a rule and no law: the noise splits its key once more.
MUTANTS = {
    "noise-without-its-2": "sgld",
    "noise-without-its-root": "sgld",
    "proposal-ratio-of-the-other-sign": "mala",
    "proposal-ratio-without-its-half": "mala",
    "way-back-of-the-other-sign": "mala",
    "accepts-what-it-should-reject": "mala",
    "keeps-what-it-rejects": "mala",
    "half-a-kick-of-a-whole-step": "underdamped_langevin",
    "last-half-kick-left-out": "underdamped_langevin",
    "noise-of-half-the-friction": "underdamped_langevin",
}
RIGHT = {
    "noise": 1.0, "drift": 1.0, "there": 1.0, "back": 1.0, "tilt": 1.0, "power": 1.0, "coin": 1.0,
    "stale": 0.0, "always": 0.0,
}  # fmt: skip
PLANTED = {
    "wide noise": {"noise": 1.2},
    "narrow noise": {"noise": 0.8},
    "no proposal ratio": {"there": 0.0, "back": 0.0},
    "proposal ratio without the way back": {"back": 0.0},
    "proposal ratio of the other sign": {"there": -1.0, "back": -1.0},
    "temperature 1.25": {"tilt": 0.8},
    "temperature 0.8": {"tilt": 1.25},
    "log density of the start": {"stale": 1.0},
    "double drift": {"drift": 2.0},
    "drift of the other sign": {"drift": -1.0},
    "root of the acceptance": {"power": 0.5},
    "coin up to a half": {"coin": 0.5},
    "accepts always": {"always": 1.0},
}
STEPPED = {
    "noise of one step": {"noise": 0.5**0.5},
    "noise 1.1": {"noise": 1.1},
    "half a drift": {"drift": 0.5},
    "drift 0.8": {"drift": 0.8},
    "no noise": {"noise": 0.0},
    "drift of the other sign": {"drift": -1.0},
}


class State(NamedTuple):
    position: jax.Array
    first: jax.Array  # log density at the start


def langevin(density: Callable[[Any], Any], step_size: Any, mistake: dict[str, float]) -> Any:
    """A MALA written anew, whose factors are 1 where it is right."""
    at = {name: jnp.float32(value) for name, value in (RIGHT | mistake).items()}

    def step(key: Any, state: State) -> tuple[State, Any]:
        noise_key, coin_key = jax.random.split(key)
        x = state.position
        value, score = jax.value_and_grad(density)(x)
        noise = jnp.sqrt(2.0 * step_size) * jax.random.normal(noise_key, x.shape)
        y = x + step_size * at["drift"] * score + at["noise"] * noise
        other, reverse = jax.value_and_grad(density)(y)
        there = jnp.sum((y - x - step_size * score) ** 2) / (4.0 * step_size)
        back = jnp.sum((x - y - step_size * reverse) ** 2) / (4.0 * step_size)
        value = jnp.where(at["stale"] > 0, state.first, value)
        ratio = at["tilt"] * (other - value) + at["there"] * there - at["back"] * back
        coin = jnp.log(at["coin"] * jax.random.uniform(coin_key))
        is_accepted = (coin < at["power"] * ratio) | (at["always"] > 0)
        return State(jnp.where(is_accepted, y, x), state.first), None

    return samplers.Sampler(lambda x: State(x, density(x)), step)


def judge(make: Callable[[Any, Any], Any], kind: str, name: str) -> float:
    """Returns the bias that the bench finds in a sampler."""

    def run(task: str, name: str, method: str, starts: Any, step: float, *numbers: int) -> Any:
        density = partial(find(name).log_density, jnp)
        factor = 0.1 if kind == "step" else 1.0
        return drive(make(density, jnp.float32(factor * step)), starts, *numbers)

    bias = exam.find_bias(run, name, "", kind)
    assert bias is not None
    return bias


def catch(make: Callable[[Any, Any], Any], kind: str) -> str:
    """Returns the first target at which the verdict is "wrong"; empty if there is none."""
    found = (name for name in TARGETS if judge(make, kind, name) > exam.WRONG)
    return next(found, "")


def mutated(name: str, file: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns the samplers of modules made anew, one of them with the mistake."""
    found: dict[str, Any] = {}
    for module in ("_langevin", "_mala", "_sgld", "_underdamped_langevin"):
        text = (SAMPLERS / f"{module}.py").read_text()
        if file.endswith(f"/{module}.py"):
            assert text.count(old) == 1, name
            text = text.replace(old, new)
        made = types.ModuleType(f"ebmjax.samplers.{module}")
        monkeypatch.setitem(sys.modules, made.__name__, made)
        exec(compile(text, f"{module} with {name}", "exec"), made.__dict__)
        found |= vars(made)
    return found[MUTANTS[name]]


@pytest.mark.slow
def test_mistakes_of_the_table_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    table = tomllib.loads((Path(__file__).parents[2] / "mutants.toml").read_text())
    caught = {}
    for file, mutants in table.items():
        for name, (old, new, _) in mutants.items():
            if name in MUTANTS and file.startswith("ebmjax/samplers/"):
                with monkeypatch.context() as patch:
                    maker = mutated(name, file, old, new, patch)
                kind = "exact" if MUTANTS[name] == "mala" else "step"
                caught[name] = catch(lambda f, step, m=maker: m(f, step_size=step), kind)
                print(name, caught[name])
    assert caught.keys() == MUTANTS.keys()
    assert np.mean([bool(one) for one in caught.values()]) >= 0.95, caught


@pytest.mark.slow
def test_planted_mistakes_are_caught_and_right_samplers_pass() -> None:
    wrong = [("exact", one) for one in PLANTED.items()] + [("step", one) for one in STEPPED.items()]
    caught = {}
    for kind, (name, mistake) in wrong:
        mistake = mistake | {"always": 1.0} if kind == "step" else mistake
        caught[f"{kind}: {name}"] = catch(partial(langevin, mistake=mistake), kind)
        print(kind, name, caught[f"{kind}: {name}"])
    assert np.mean([bool(one) for one in caught.values()]) >= 0.95, caught
    for kind, always in (("exact", 0.0), ("step", 1.0)):
        for name in TARGETS:
            bias = judge(partial(langevin, mistake={"always": always}), kind, name)
            print(kind, name, bias)
            assert bias < exam.WRONG, (kind, name)
