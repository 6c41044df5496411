"""A family that compiles in milliseconds: one weight learns a slope. It is its own configuration.

For tests of what every family shares: folders, checkpoints, the best state, starts, signals. The
weight rises from 0 to about 1, with noise from the step's key. ``test_accuracy`` is that of a slope
of 0.6, so the best state lies between the first and the last. As a file:

  python experiments/run.py --config=tests/recipes/linear_family.py
"""

import math
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ebmjax import training
from ebmjax._ranges import COUNT, POSITIVE, optional
from ebmjax.recipes.config import declare, families
from ebmjax.recipes.config.common_fields import family, pick_fields
from ebmjax.recipes.config.declare import field
from ebmjax.recipes.evaluators.result_tables import over_training
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.models import build as common

NAME = "linear_family.py"
LINEAR = Path(__file__).resolve()
families.add("linear", str(LINEAR))

NUM_POINTS = 24
BEST_SLOPE = {"validation": 0.6, "test": 0.5}
STEPS = 10
FIELDS = {
    **family("linear"),
    **pick_fields(
        data={
            "name": "points",
            "path": "",
            "placement": "memory",
            "max_train": NUM_POINTS,
            "holdout": 4.0,
        },
        train={
            "start_from": "",
            "keep_best": "",
            "num_epochs": 5,
            "batch_size": 10,
            "steps_per_dispatch": 2,
            "log_every": 1,
            "checkpoint_every_epochs": 1,
            "max_consecutive_skips": 20,
            "on_divergence": "stop",
        },
        sampler={"num_steps": 1},
        optimizer={"learning_rate": 0.04},
        mesh={"num_shards": 2},
        evals={"every_epochs": 2.0, "checkpoint": "newest", "use_test_split": False},
    ),
    "model.hidden": field((1,), COUNT, "parameters beside the weight"),
    "loss.exponent": field(2.0, POSITIVE, "unused"),
    "evals.classification.every": field(1, COUNT, "evaluations between two accuracies"),
    "loss.breaks_at": field(
        None,
        optional(POSITIVE),
        "weight at which the loss is NaN, times 0.01 / learning rate; None: never",
    ),
}


class Shard(NamedTuple):
    """Carry of a shard: the number of points that it has seen."""

    seen: jax.Array


def get_config(variant=""):
    """10 steps, a checkpoint every 2, of which 3 stay, an evaluation every 4.

    "long" has 120 steps, a checkpoint every 10 and an evaluation every 2.
    """
    assert variant in ("", "long"), f"unknown variant {variant!r}"
    found = declare.defaults(FIELDS)
    if variant:
        found.train.num_epochs = 60
        found.train.checkpoint_every_epochs = 5
        found.evals.every_epochs = 1
    return found


def linear(variant="", **overrides):
    """The configuration with fields, named by their dotted path, changed."""
    config = get_config(variant)
    config.update_from_flattened_dict(overrides)
    return config


def points(config):
    """Features in (1, 2) and labels of slope 1; the last ``holdout`` are held out."""
    x = 1.0 + np.random.default_rng(0).uniform(size=NUM_POINTS).astype(np.float32)
    kept = config.data.max_train - int(config.data.holdout)
    return {"x": x[:kept], "y": x[:kept]}


def accuracy(weight, split="validation"):
    """In (0, 1], highest at the split's slope."""
    return float(np.exp(-abs(float(weight) - BEST_SLOPE[split])))


def hold(folder, step):
    """Makes runs whose ``data.path`` is ``folder`` wait in their evaluation after ``step``."""
    (folder / "hold").write_text(str(step))


def is_held(folder, step):
    try:
        return int((folder / "hold").read_text() or STEPS**9) <= step
    except FileNotFoundError:
        return False


def learn(breaks_at, key, params, carry, batch):
    def loss(params):
        error = params["weight"] * batch["x"] - batch["y"] * params["scale"].mean()
        return jnp.mean(jnp.square(error))

    value, gradients = jax.value_and_grad(loss)(params)
    value = jnp.where(params["weight"] < breaks_at, value, jnp.nan)
    gradients = {
        "weight": gradients["weight"] + 0.01 * jax.random.normal(key),
        "scale": jnp.zeros_like(params["scale"]),
    }
    return gradients, Shard(carry.seen + batch["x"].size), {"loss": value}


def check(config):
    del config


def build(config, folder):
    """The experiment of ``config``."""
    data = points(config)
    optimizer = optax.sgd(config.optimizer.learning_rate)
    breaks_at = (config.loss.breaks_at or math.inf) * 0.01 / config.optimizer.learning_rate
    params = {"weight": jnp.zeros(()), "scale": jnp.ones(config.model.hidden)}
    shards = Shard(jnp.zeros(config.mesh.num_shards, jnp.int32))
    state = training.init_state(params, optimizer, shards)

    def monitor(state, step):
        weight = float(state.params["weight"])
        (folder / "plots").mkdir(exist_ok=True)
        (folder / "plots" / f"weight_{step:06d}.txt").write_text(repr(weight))
        while config.data.get("path") and is_held(Path(config.data.path), step):
            time.sleep(0.01)
        return {"test_accuracy": accuracy(weight)}

    def draw():
        losses = [row["loss"] for row in run_folder.read_rows(folder) if "loss" in row]
        (folder / "plots" / "training.txt").write_text(repr(losses))

    def evaluate(state):
        split = "test" if config.evals.get("use_test_split") else "validation"
        weight = state.params["weight"]
        rows = run_folder.read_rows(folder)
        return {
            "accuracy": accuracy(weight, split),
            "over_training": over_training(rows),
        }

    return common.Experiment(
        state=state,
        train_step=training.make_train_step(partial(learn, breaks_at), optimizer),
        data=data,
        plan=common.plan(config, len(data["x"])),
        monitor=monitor,
        draw=draw,
        evaluate=evaluate,
        warm_start=lambda other: training.warm_start(state, optimizer, other, ("seen",)),
        about_data=("train points on a line",),
    )
