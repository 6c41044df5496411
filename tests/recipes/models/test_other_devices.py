"""Training steps of every family are translated for GPUs and TPUs, which needs neither.

An operation that a kind of device lacks (a factorisation, a callback, a type) shows here.
"""

import importlib

import jax
import jax.numpy as jnp
import pytest
from experiment_runs import build_experiment
from jax.sharding import PartitionSpec

from ebmjax import training
from ebmjax.recipes.models import build
from ebmjax.training._sharding import STATE_SPECS

# The telescoped gradient has no smoke run of its own and the stochastic kernel's noise no other.
STEPS = [
    "igebm_digits:smoke", "jem_digits:smoke", "svgdjem_digits:stochastic",
    "thermo_digits:telescoped", "toy_beta:smoke", "toy_samplers:smoke",
]  # fmt: skip


def traced_step(config, folder):
    """One step, sharded as ``training.fit`` does it."""
    experiment = build_experiment(config, folder)
    plan = experiment.plan

    def picked(size):
        rows = jnp.zeros((plan.num_shards, size // plan.num_shards), int)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[rows], experiment.data)

    batches = tuple(map(picked, plan.streams))
    shards = PartitionSpec("data")
    specs = STATE_SPECS
    step = jax.shard_map(
        experiment.train_step,
        mesh=training.make_mesh(plan.num_shards),
        in_specs=(PartitionSpec(), specs, shards, PartitionSpec()),
        out_specs=(specs, PartitionSpec()),
        check_vma=False,
    )
    batch = batches if isinstance(plan.batch_size, tuple) else batches[0]
    key, numbers = build.root_keys(config.seed)[1], experiment.numbers
    return jax.jit(step).trace(key, experiment.state, batch, numbers)


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_a_training_step_is_translated_for_gpus_and_tpus(name, shallow, tmp_path, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    file, _, variant = name.partition(":")
    config = importlib.import_module(f"experiments.configs.{file}").get_config(variant)
    traced = traced_step(config, tmp_path)
    for platform in ("cuda", "tpu"):
        text = traced.lower(lowering_platforms=(platform,)).as_text()
        # Images go through XLA's own convolutions there; a CPU's are matrix products.
        assert ("stablehlo.convolution" in text) == ("toy" not in file)
