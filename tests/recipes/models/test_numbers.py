"""Runs that differ in a number share their compiled training step, in every family."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import build_experiment, digits, image

from ebmjax._numbers import numbers_of, with_numbers
from ebmjax.learning import ChainKind, ChainPlan, LiveSteps
from ebmjax.recipes.models import build
from ebmjax.recipes.parts.samplers import SAMPLERS, Chosen, bind_sampler, defaults
from ebmjax.samplers import start_chain
from ebmjax.training._sharding import describe_batches
from ebmjax.training._step import make_block
from experiments.configs import jem_digits, toy_beta

JOINT = {
    "sampler.max_score": (1.0, 2.0),
    "sampler.low": (-1.2, -1.5),
    "sampler.buffer.reinit_prob": (0.05, 0.5),
    "loss.energy_l2": (0.01, 0.02),
    "loss.generative_weight": (1.0, 0.5),
    "optimizer.learning_rate": (5e-3, 1e-3),
}
IMAGE = {
    "sampler.max_score": (1.0, 2.0),
    "sampler.high": (1.2, 1.5),
    "sampler.buffer.reinit_prob": (0.05, 0.5),
    "loss.energy_l2": (0.01, 0.02),
    "optimizer.learning_rate": (1e-3, 1e-4),
}
LATENT = {
    "sampler.prior.step_size": (0.1, 0.2),
    "sampler.posterior.step_size": (0.1, 0.2),
    "loss.energy_l2": (0.01, 0.02),
    "model.likelihood_scale": (0.3, 0.4),
    "optimizer.prior.learning_rate": (2e-4, 4e-4),
}


def joint(**overrides):
    config = jem_digits.get_config("smoke")
    config.update_from_flattened_dict(overrides)
    return config


def points(**overrides):
    config = toy_beta.get_config("smoke")
    config.update_from_flattened_dict(overrides)
    return config


def step_of(config, workdir):
    """The text of a run's training step before it is compiled."""
    experiment = build_experiment(config, workdir)
    plan, mesh = experiment.plan, jax.sharding.Mesh(jax.devices()[:1], "data")
    indices = jax.tree.map(
        lambda size: jnp.zeros((1, plan.num_shards, size // plan.num_shards), jnp.int32),
        plan.batch_size,
    )
    block = make_block.__wrapped__(experiment.train_step, mesh)
    key = build.root_keys(config.seed)[1]
    batches = describe_batches(experiment.data, indices, mesh)
    return block.lower(key, experiment.state, batches, experiment.numbers).as_text()


def test_numbers_come_back_as_they_were():
    kind = ChainKind(sampler=partial(max, key=0.5), num_steps=3, step_size=0.5)
    plan = ChainPlan(kinds={"a": kind}, num_samples=2, start_fn=max, reinit_prob=0.25)
    given = {"plan": plan, "live": LiveSteps(step_size=0.1, noise_scale=0.2), "none": None, "n": 3}
    numbers = numbers_of(given)
    assert numbers["plan"]["kinds"]["a"]["sampler"] == {"key": 0.5}
    assert "n" not in numbers
    halved = with_numbers(given, jax.tree.map(lambda number: number / 2, numbers))
    assert halved["plan"].reinit_prob == 0.125
    assert halved["plan"].kinds["a"].sampler.keywords == {"key": 0.25}
    assert numbers_of(with_numbers(halved, numbers)) == numbers
    assert with_numbers(given, {}) is given


def test_a_step_is_mapped_over_numbers(tmp_path):
    """Two step sizes at once, each as a run of its own has it, by one program."""
    experiment = build_experiment(points(), tmp_path)
    images = jnp.asarray(experiment.data.images[None, None, :16])
    batch = type(experiment.data)(images, jnp.zeros((1, 1, 16), jnp.int32))
    sampler = lambda size: {"sampler": {"options": {"step_size": size}}}  # noqa: E731
    pair = [
        with_numbers(experiment.numbers, {"plan": {"kinds": {"sgld": sampler(size)}}})
        for size in (0.1, 0.3)
    ]

    @jax.jit
    def step(numbers):
        take = lambda batch: experiment.train_step(  # noqa: E731
            jax.random.key(0), experiment.state, batch, numbers
        )
        state, metrics = jax.vmap(take, axis_name="data")(batch)
        return state.params, metrics["chain_displacement"]

    both = jax.vmap(step)(jax.tree.map(lambda *leaves: jnp.stack(leaves), *pair))
    first, second = map(step, pair)
    assert step._cache_size() == 1
    for place, alone in enumerate((first, second)):
        of_one = jax.tree.map(lambda leaf, i=place: leaf[i], both)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), of_one, alone)
    assert float(second[1].squeeze()) > 2 * float(first[1].squeeze())


def changed(changes, place):
    return {name: values[place] for name, values in changes.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "fixed", "changes"),
    [
        (
            joint,
            {},
            JOINT | {"sampler.sgld.step_size": (1.0, 2.0), "sampler.sgld.noise_scale": (0.01, 0.1)},
        ),
        (
            joint,
            {"sampler.name": "svgd", "loss.name": "beta"},
            {
                "sampler.svgd.step_size": (1.0, 2.0),
                "loss.beta": (0.1, 0.2),
                "optimizer.rho": (0.1, 0.2),
            },
        ),
        (
            image,
            {
                "sampler.names": ("sgld", "mala"),
                "sampler.mala.temperature": 5e-5,
            },
            IMAGE
            | {
                "sampler.sgld.step_size": (1.0, 2.0),
                "sampler.sgld.noise_scale": (0.01, 0.1),
                "sampler.mala.step_size": (1.0, 2.0),
                "sampler.target_acceptance": (0.6, 0.7),
            },
        ),
        (
            image,
            {"loss.name": "improved"},
            {
                "sampler.sgld.step_size": (1.0, 2.0),
                "sampler.final_step_fraction": (0.5, 0.6),
                "loss.kl_weight": (1.0, 0.5),
            },
        ),
        (digits, {}, LATENT),
        (
            digits,
            {"loss.name": "through_chain", "loss.chains_per_observation": 20},
            LATENT,
        ),
        (
            points,
            {},
            {"sampler.sgld.step_size": (0.1, 0.2), "optimizer.learning_rate": (1e-3, 1e-4)},
        ),
    ],
)
def test_a_number_is_no_part_of_the_step(config, fixed, changes, tmp_path, shallow):
    first, second = (
        step_of(config(**fixed, **changed(changes, place)), tmp_path) for place in (0, 1)
    )
    assert first == second


class Bowl:
    """The density of a bowl, with the first layer that PYLD wants."""

    head = staticmethod(lambda z: -0.5 * jnp.sum(z**2))
    first_layer = staticmethod(lambda x: 2.0 * x)

    def __call__(self, x):
        return self.head(self.first_layer(x))


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_no_number_of_a_sampler_is_part_of_its_move(name):
    section = {"box": "clamp", "low": -1.0, "high": 1.0, "max_score": 2.0}
    start = jnp.zeros((3, 2) if SAMPLERS[name].interacts else 2)
    bind = bind_sampler(Chosen(name, defaults(name), SAMPLERS[name]), section)

    def move(key, numbers):
        sampler = with_numbers(bind, numbers)(Bowl())
        return sampler.step(key, start_chain(key, sampler, start))[0]

    numbers = numbers_of(bind)
    assert numbers.keys() == {"habits", "options"}
    assert {"low", "high", "max_score"} <= numbers["habits"].keys()
    run = jax.jit(move)
    run(jax.random.key(0), numbers)
    run(jax.random.key(0), jax.tree.map(lambda number: number / 2, numbers))
    assert run._cache_size() == 1
