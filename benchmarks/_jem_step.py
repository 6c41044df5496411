"""Train steps of joint models under ``training.fit``, alone or in turn with plain PyTorch."""

import json
import tempfile
import time
from collections.abc import Callable, Sequence
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
SGLD = partial(samplers.sgld, **{name: SETTINGS[name] for name in ("step_size", "noise_scale")})


def make_classifier() -> networks.Network:
    """Returns the network of the comparisons with PyTorch."""
    sizes = {name: SETTINGS[name] for name in ("depth", "widen_factor", "num_classes")}
    return networks.from_linen(networks.WideResNet(**sizes))


def make_plan(
    shape: tuple[int, ...], batch_size: int, num_steps: int, sampler: Any = SGLD
) -> learning.ChainPlan:
    """Returns JEM's chains: ``batch_size`` of them, on images of ``shape``."""
    return learning.ChainPlan(
        kinds={"sgld": learning.ChainKind(sampler=sampler, num_steps=num_steps)},
        num_samples=batch_size,
        law=samplers.uniform_law(shape, -1.0, 1.0),
        reinit_prob=SETTINGS["reinit_prob"],
    )


def make_joint_step(
    network: networks.Network,
    shape: tuple[int, ...],
    plan: learning.ChainPlan,
    optimizer: optax.GradientTransformation,
    *,
    views: Sequence[Callable[..., Any]],
    buffer_size: int,
    num_shards: int = 1,
    rho: float | None = None,
    **options: Any,
) -> tuple[Any, training.TrainState]:
    """Returns a joint model's train step, and the state to begin with.

    ``views`` are what the network sees of labelled images, and of images for p(x); ``rho`` is the
    radius of SAM; ``options`` are those of ``training.make_train_step``.
    """
    params, statistics = jax.jit(network.init)(jax.random.key(0), jnp.zeros((2, *shape)))
    carry = learning.init_carry(
        jax.random.key(1),
        plan,
        num_shards=num_shards,
        buffer_size=buffer_size,
        statistics=statistics,
        smoothing=1.0,
    )
    gradient_fn = learning.make_joint_gradient_fn(
        network,
        learning.JointObjective(generative_loss=generative_loss, rho=rho),
        classified_view=views[0],
        positive_view=views[1],
        plan=plan,
    )
    step = training.make_train_step(gradient_fn, optimizer, **options)
    return step, training.init_state(params, optimizer, carry)


def make_jem_step(
    batch_size: int, num_steps: int, num_shards: int = 1
) -> tuple[Any, training.TrainState]:
    """Returns JEM's step on the digits: ``batch_size`` images and chains on each shard."""
    shape = data.load_digits("train").images.shape[1:]
    return make_joint_step(
        make_classifier(),
        shape,
        make_plan(shape, batch_size, num_steps),
        optax.adam(SETTINGS["learning_rate"]),
        views=(view, view),
        buffer_size=SETTINGS["buffer_size"],
        num_shards=num_shards,
    )


def generative_loss(positive: jax.Array, negative: jax.Array, smoothing: jax.Array) -> Any:
    """Returns contrastive divergence of log densities."""
    return losses.contrastive_divergence_loss(-positive / smoothing, -negative / smoothing)


def view(key: Key, images: jax.Array) -> jax.Array:
    """Returns images moved by at most a pixel, with noise."""
    crop_key, noise_key = jax.random.split(key)
    images = data.reflect_pad_crop(crop_key, data.to_signed_unit(images), padding=1)
    return data.add_gaussian_noise(noise_key, images, scale=SETTINGS["image_noise"])


def time_blocks(
    step: Any,
    state: training.TrainState,
    examples: Any,
    batch_size: int | tuple[int, ...],
    block: int,
    repeats: int,
    beside: Callable[[], float] = lambda: np.nan,
) -> tuple[tuple[Sequence[float], Sequence[float]], training.FitResult]:
    """Times blocks of training steps, in turn with ``beside``.

    Args:
      step: from ``training.make_train_step``.
      state: to begin with.
      examples: the data set.
      batch_size: as ``training.Plan`` has it.
      block: steps in one compiled call, and in one timing.
      repeats: timings, after one block that compiles.
      beside: does something else after each block, and returns its seconds.

    Returns:
      The seconds of each block, and of what stood beside it; and what ``training.fit`` returns.
    """
    times: list[tuple[float, float]] = []
    started = 0.0

    def take_time(state: training.TrainState, step: int) -> dict[str, Any]:
        nonlocal started
        jax.block_until_ready(state)
        ours = time.perf_counter() - started
        times.append((ours, beside()))
        started = time.perf_counter()
        return {}

    plan = training.Plan(
        total_steps=block * (repeats + 1),
        batch_size=batch_size,
        steps_per_dispatch=block,
        monitor_every=block,
        max_consecutive_skips=block * (repeats + 2),
    )
    device, key = jax.devices()[:1], jax.random.key(2)
    result = training.fit(key, state, step, examples, plan, monitor=take_time, devices=device)
    ours, theirs = zip(*times[2:], strict=True)  # first before any step, then the one that compiles
    return (ours, theirs), result


def start_torch(python: Path, params: PyTree, **settings: int) -> TorchProcess:
    """Returns PyTorch with the same parameters, once it is known to compute the same logits."""
    train = data.load_digits("train")
    probe = data.to_signed_unit(jnp.asarray(train.images[:4]))
    flat = flatten_dict(params, sep="/")
    arrays: dict[str, Any] = {f"params/{name}": np.asarray(leaf) for name, leaf in flat.items()}
    arrays |= {"settings": json.dumps(SETTINGS | settings), "probe": probe, **train._asdict()}
    torch = TorchProcess(python)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "joint_training.npz"
        np.savez(file, **arrays)
        found = torch.ask("load", file=str(file))
    check_agreement(found, params, make_classifier().apply(params, {}, probe)[0])
    return torch


def check_agreement(found: dict[str, Any], params: PyTree, logits: jax.Array) -> None:
    """Ends the program unless PyTorch's network is ours."""
    num_params = sum(leaf.size for leaf in jax.tree.leaves(params))
    if found["num_params"] != num_params:
        raise SystemExit(f"PyTorch has {found['num_params']} parameters, ebmjax {num_params}.")
    # Sums of up to 576 products, in another order: at most 576 eps, 7e-5, of their magnitude.
    difference, scale = np.abs(found["logits"] - np.asarray(logits)), np.abs(logits).max()
    if not difference.max() <= 1e-4 * scale:
        raise SystemExit(f"Logits of PyTorch and ebmjax differ by up to {difference.max():.1e}.")
