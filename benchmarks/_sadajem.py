"""SADA-JEM's train step at any size, and a training of it. Needs JAX, Flax and Optax only."""

import contextlib
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _jem_step import make_joint_step, make_plan

from ebmjax import data, networks, samplers, training


def view(key: jax.Array, images: jax.Array) -> jax.Array:
    """Returns images as the network sees them, cropped and flipped."""
    crop_key, flip_key = jax.random.split(key)
    images = data.reflect_pad_crop(crop_key, data.to_signed_unit(images), padding=4)
    return data.random_flip(flip_key, images)


def make_sadajem(
    depth: int, widen_factor: int, side: int, batch_size: int, num_steps: int, dtype: Any
) -> tuple[Any, training.TrainState, networks.Network]:
    """Returns SADA-JEM's step on one shard, its first state and its network.

    WRN with batch normalisation, SGLD steps within the box of the images, SAM with rho 0.2, plain
    images for p(x). ``side`` is that of CIFAR's images, in pixels.
    """
    network = networks.from_linen(
        networks.WideResNet(depth, widen_factor, 10, norm="batch", dtype=dtype)
    )
    sgld = partial(samplers.clamp(samplers.sgld, -1.0, 1.0), step_size=1.0, noise_scale=0.01)
    shape = (side, side, 3)
    step, state = make_joint_step(
        network,
        shape,
        make_plan(shape, batch_size, num_steps, sgld),
        optax.chain(optax.add_decayed_weights(5e-4), optax.sgd(0.1, 0.9)),
        views=(view, lambda key, images: data.to_signed_unit(images)),
        buffer_size=max(10_000 // (32 // side) ** 4, batch_size),
        rho=0.2,
        max_abs_loss=1e8,
    )
    return step, state, network


def train(
    depth: int,
    widen_factor: int,
    batch_size: int,
    num_steps: int,
    file: Path,
    total_steps: int,
    deadline: float,
) -> dict[str, Any]:
    """Trains in bfloat16 on ``file`` until ``deadline``, and measures the test accuracy."""
    with np.load(file) as arrays:
        labels, test_labels = (arrays[name].astype(np.int32) for name in ("labels", "test_labels"))
        examples, test_images = data.ImageData(arrays["images"], labels), arrays["test_images"]
    side = examples.images.shape[1]
    step, state, network = make_sadajem(
        depth, widen_factor, side, batch_size, num_steps, jnp.bfloat16
    )
    block, kept = 20, [state]

    def keep_or_end(state: training.TrainState, step: int) -> dict[str, Any]:
        jax.block_until_ready(state)
        if time.monotonic() > deadline:
            raise TimeoutError
        kept[:] = [jax.tree.map(jnp.copy, state)]
        return {}

    plan = training.Plan(
        total_steps=total_steps,
        batch_size=(batch_size, batch_size),
        steps_per_dispatch=block,
        monitor_every=block,
    )
    with contextlib.suppress(TimeoutError):
        training.fit(jax.random.key(4), state, step, examples, plan, monitor=keep_or_end)
    state = kept[0]
    statistics = jax.tree.map(lambda leaf: leaf[0], state.shards.statistics)
    logits = jax.jit(
        lambda images: network.apply(state.params, statistics, data.to_signed_unit(images))[0]
    )
    batches = np.array_split(test_images, max(len(test_images) // 500, 1))
    predicted = np.concatenate([np.argmax(logits(batch), -1) for batch in batches])
    return {
        "steps": int(state.step),
        "epochs": int(state.step) * batch_size / len(examples.labels),
        "test_accuracy": float(np.mean(predicted == test_labels)),
        "chance": float(np.max(np.bincount(test_labels)) / len(test_labels)),
        "skipped_steps": int(state.skipped),
    }
