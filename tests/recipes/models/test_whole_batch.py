"""Configurations divide a batch among shards: one law for any number of them, or one a shard."""

import importlib

import jax
import numpy as np
import pytest
from experiment_runs import build_experiment
from small_networks import ShallowResNet

from ebmjax import networks, training
from ebmjax.training._block import make_block
from ebmjax.training._feed import describe_batches
from ebmjax.training._sharding import place_state

BETA = {
    "igebm_digits": {
        "model.features": (4,),
        "loss.name": "beta",
        "loss.beta": 0.5,
        "sampler.num_samples": 8,
    },
    "jem_digits": {"loss.name": "beta", "loss.beta": 0.5, "optimizer.rho": 0.1},
}


def experiment_of(name, folder, **overrides):
    config = importlib.import_module(f"experiments.configs.{name}").get_config("smoke")
    config.update_from_flattened_dict(overrides)
    return build_experiment(config, folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", BETA)
def test_shards_are_one_batch(name, tmp_path, monkeypatch):
    """Counts what two devices exchange: with a batch each, it would be only the mean gradient."""
    monkeypatch.setattr(networks, "WideResNet", ShallowResNet)

    def counts(**overrides):
        overrides = BETA[name] | {"mesh.num_shards": 2, "sampler.num_steps": 1} | overrides
        experiment = experiment_of(name, tmp_path, **overrides)
        mesh = training.make_mesh(2)
        streams = [np.zeros((1, 2, size // 2), np.int32) for size in experiment.plan.streams]
        indices = tuple(streams) if isinstance(experiment.plan.batch_size, tuple) else streams[0]
        block, state = make_block(experiment.train_step, mesh), place_state(experiment.state, mesh)
        batches = describe_batches(experiment.data, indices, mesh)
        arguments = jax.random.key(0), state, batches, experiment.numbers
        program = block.lower(*arguments).as_text()
        return [program.count(f"stablehlo.{kind}") for kind in ("all_reduce", "all_gather")]

    num_reduced, num_gathered = counts()
    # The log densities of data and samples. SAM's two passes are one loop.
    assert num_gathered == 2
    assert (num_reduced > 1) == (name == "jem_digits")  # the displacement of SAM
