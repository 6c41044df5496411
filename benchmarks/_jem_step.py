"""JEM's train step under ``training.fit``, timed in turn with the same step in plain PyTorch."""

import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _torch_process import TorchProcess
from flax.traverse_util import flatten_dict

from ebmjax import data, learning, losses, networks, samplers, training
from ebmjax.types import Key, PyTree

# Those of experiments/configs/jem_digits.py:unconfined. PyTorch is given the same.
SETTINGS: dict[str, Any] = {
    "depth": 10,
    "widen_factor": 1,
    "num_classes": 10,
    "buffer_size": 10_000,
    "reinit_prob": 0.05,
    "step_size": 1.0,
    "noise_scale": 0.01,
    "image_noise": 0.03,
    "learning_rate": 1e-3,
}


def make_classifier() -> networks.Network:
    """The network of all comparisons."""
    sizes = {name: SETTINGS[name] for name in ("depth", "widen_factor", "num_classes")}
    return networks.from_linen(networks.WideResNet(**sizes))


def make_plan(shape: tuple[int, ...], batch_size: int, num_steps: int) -> learning.ChainPlan:
    """JEM's chains."""
    scales = {name: SETTINGS[name] for name in ("step_size", "noise_scale")}
    kind = learning.ChainKind(sampler=partial(samplers.sgld, **scales), num_steps=num_steps)
    return learning.ChainPlan(
        kinds={"sgld": kind},
        num_samples=batch_size,
        law=samplers.uniform_law(shape, -1.0, 1.0),
        reinit_prob=SETTINGS["reinit_prob"],
    )


class Alternation:
    """A ``monitor`` for ``fit`` that times the block before it, then PyTorch.

    Attributes:
      pairs: milliseconds a step, ours and PyTorch's or NaN.
    """

    def __init__(self, torch: TorchProcess | None, block: int):
        self.pairs: list[tuple[float, float]] = []
        self._torch = torch
        self._block = block
        self._started = 0.0

    def __call__(self, state: training.TrainState, step: int) -> dict[str, Any]:
        jax.block_until_ready(state)
        ours = 1e3 * (time.perf_counter() - self._started)
        theirs = 1e3 * self._torch.ask(str(self._block)) if self._torch else np.nan
        self.pairs.append((ours / self._block, theirs / self._block))
        self._started = time.perf_counter()
        return {}


def time_train_step(
    batch_size: int, num_steps: int, block: int, repeats: int, torch_python: Path | None
) -> tuple[list[tuple[float, float]], str]:
    """Milliseconds a train step, ours and PyTorch's or NaN; and what PyTorch it was.

    Args:
      batch_size: of labelled images, of images for p(x) and of chains.
      num_steps: of the chains.
      block: train steps in one compiled call, and in one timing.
      repeats: timings.
      torch_python: the Python to run PyTorch with, or None.
    """
    network, train = make_classifier(), data.load_digits("train")
    train_step, state = make_train_step(network, batch_size, num_steps, num_shards=1)
    torch, note = None, "no PyTorch, for want of --torch_python"
    if torch_python:
        settings = SETTINGS | {"batch_size": batch_size, "num_steps": num_steps}
        torch = start_torch(torch_python, settings, network, state.params, train)
        note = f"PyTorch {torch.about['version']} with {torch.about['threads']} threads"
    alternation = Alternation(torch, block)
    training.fit(
        jax.random.key(2),
        state,
        train_step,
        train,
        training.Plan(
            total_steps=block * (repeats + 1),
            batch_size=(batch_size, batch_size),
            steps_per_dispatch=block,
            monitor_every=block,
            max_consecutive_skips=block * (repeats + 2),
        ),
        monitor=alternation,
        devices=jax.devices()[:1],
    )
    if torch:
        torch.close()
    return alternation.pairs[2:], note  # the first is before any step, the second compiles


def make_train_step(
    network: networks.Network, batch_size: int, num_steps: int, num_shards: int
) -> tuple[Any, training.TrainState]:
    """JEM's step on batches of so many images and chains a shard, and the state to begin with."""
    shape = data.load_digits("train").images.shape[1:]
    plan = make_plan(shape, batch_size, num_steps)
    params, statistics = jax.jit(network.init)(jax.random.key(0), jnp.zeros(shape))
    shards = learning.init_carry(
        jax.random.key(1),
        plan,
        num_shards=num_shards,
        buffer_size=SETTINGS["buffer_size"],
        statistics=statistics,
        smoothing=1.0,
    )
    gradient_fn = learning.make_joint_gradient_fn(
        network,
        learning.JointObjective(generative_loss=generative_loss),
        classified_view=view,
        positive_view=view,
        plan=plan,
    )
    optimizer = optax.adam(SETTINGS["learning_rate"])
    step = training.make_train_step(gradient_fn, optimizer)
    return step, training.init_state(params, optimizer, shards)


def generative_loss(positive: jax.Array, negative: jax.Array, smoothing: jax.Array) -> Any:
    """Contrastive divergence of log densities."""
    return losses.contrastive_divergence_loss(-positive / smoothing, -negative / smoothing)


def view(key: Key, images: jax.Array) -> jax.Array:
    """Moved by at most a pixel, with noise."""
    crop_key, noise_key = jax.random.split(key)
    images = data.reflect_pad_crop(crop_key, data.to_signed_unit(images), padding=1)
    return data.add_gaussian_noise(noise_key, images, scale=SETTINGS["image_noise"])


def start_torch(
    python: Path,
    settings: dict[str, Any],
    network: networks.Network,
    params: PyTree,
    train: data.ImageData,
) -> TorchProcess:
    """PyTorch with the same parameters, once it is known to compute the same logits."""
    probe = data.to_signed_unit(jnp.asarray(train.images[:4]))
    names = {f"params/{name}": leaf for name, leaf in flatten_dict(params, sep="/").items()}
    arrays = {"settings": json.dumps(settings), "probe": probe, **train._asdict(), **names}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "joint_training.npz"
        np.savez(file, **arrays)
        torch = TorchProcess(python, "_torch_jem.py", file)
    check_agreement(torch.about, params, network.apply(params, {}, probe)[0])
    return torch


def check_agreement(about: dict[str, Any], params: PyTree, logits: jax.Array) -> None:
    """Ends the program unless PyTorch's network is ours."""
    num_params = sum(leaf.size for leaf in jax.tree.leaves(params))
    if about["num_params"] != num_params:
        raise SystemExit(f"PyTorch has {about['num_params']} parameters, ebmjax {num_params}.")
    # Sums of up to 576 products, in another order: at most 576 eps, 7e-5, of their magnitude.
    difference, scale = np.abs(about["logits"] - np.asarray(logits)), np.abs(logits).max()
    if not difference.max() <= 1e-4 * scale:
        raise SystemExit(f"Logits of PyTorch and ebmjax differ by up to {difference.max():.1e}.")
