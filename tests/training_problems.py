"""Two tiny problems that the tests of training share: a regression and persistent chains."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ebmjax.samplers import batch_step, run_chain, sgld
from ebmjax.training import init_state, make_train_step
from ebmjax.training._state import apply_writes

NUM_EXAMPLES = 96


def regression_data(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(NUM_EXAMPLES, 3)).astype(np.float32)
    noise = rng.normal(scale=0.1, size=NUM_EXAMPLES)
    y = (x @ np.array([1.0, -2.0, 0.5]) + 0.3 + noise).astype(np.float32)
    return {"x": x, "y": y}


def regression_loss(params, batch):
    prediction = batch["x"] @ params["weight"] + params["bias"]
    return jnp.mean((prediction - batch["y"]) ** 2)


def regression_gradient(key, params, carry, batch):
    del key
    loss, gradients = jax.value_and_grad(regression_loss)(params, batch)
    return gradients, carry, {"loss": loss}


def regression_state(optimizer):
    return init_state({"weight": jnp.zeros(3), "bias": jnp.zeros(())}, optimizer)


def regression(learning_rate=0.1, gradient_fn=regression_gradient, **options):
    """(state, train_step, data)."""
    optimizer = optax.adam(learning_rate)
    train_step = make_train_step(gradient_fn, optimizer, **options)
    return regression_state(optimizer), train_step, regression_data()


def gaussian_energy(params, x):
    return 0.5 * jnp.sum(jnp.exp(params["log_precision"]) * (x - params["mean"]) ** 2)


def chains_gradient(key, params, chains, batch):
    """Maximum likelihood of a Gaussian energy by persistent noisy chains of this shard."""
    sampler = sgld(lambda x: -gaussian_energy(params, x), step_size=0.05)
    states = jax.vmap(sampler.init)(chains)
    states, _, infos = run_chain(key, states, batch_step(sampler.step), 3)

    def loss_fn(params):
        energy = jax.vmap(functools.partial(gaussian_energy, params))
        return jnp.mean(energy(batch)) - jnp.mean(energy(states.position))

    loss, gradients = jax.value_and_grad(loss_fn)(params)
    acceptance = jnp.mean(infos.acceptance_prob[:, 0])
    metrics = {"loss": loss, "acceptance": acceptance, "chain_mean": jnp.mean(states.position, 0)}
    return gradients, states.position, metrics


def chains_data():
    rng = np.random.default_rng(1)
    return (rng.normal(size=(NUM_EXAMPLES, 2)) * [0.5, 1.5] + [1.0, -2.0]).astype(np.float32)


def chains(num_shards=8, chains_per_shard=4, **options):
    """(state, train_step, data)."""
    optimizer = optax.adam(0.02)
    params = {"mean": jnp.zeros(2), "log_precision": jnp.zeros(2)}
    shards = jax.random.normal(jax.random.key(99), (num_shards, chains_per_shard, 2))
    train_step = make_train_step(chains_gradient, optimizer, **options)
    return init_state(params, optimizer, shards), train_step, chains_data()


def settled(gradient_fn):
    """``gradient_fn`` with the shard as a training step that counts leaves it."""

    def settled_fn(key, params, carry, batch):
        gradients, changed, metrics = gradient_fn(key, params, carry, batch)
        return gradients, apply_writes(carry, changed), metrics

    return settled_fn


def split_batch(batch, num_shards):
    return jax.tree.map(lambda a: a.reshape(num_shards, -1, *a.shape[1:]), batch)


def read_rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class ListWriter:
    """Keeps what it is told."""

    def __init__(self):
        self.starts, self.rows = [], []

    def start(self, first_step):
        self.starts.append(first_step)

    def write(self, step, row):
        self.rows.append((step, row))

    def close(self):
        """Nothing to close."""


def contents(folder):
    """The files below a folder, with their bytes."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
