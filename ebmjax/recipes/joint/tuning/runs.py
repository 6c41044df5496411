"""One run of the SVGD thesis's tuning study: ten images, and a program that many runs share."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data, losses, networks, samplers, training
from ebmjax.recipes.core import build
from ebmjax.recipes.core.fields import Config
from ebmjax.recipes.joint import parts as jem_parts


def one_of_each_class(images: data.ImageData) -> data.ImageData:
    """The first image of every class, in the order of the classes."""
    _, first = np.unique(np.asarray(images.labels), return_index=True)
    return data.ImageData(*(np.asarray(array)[first] for array in images))


class Dials(NamedTuple):
    """Numbers that differ between runs of one program; the smoothing is in ``JointShard``."""

    step_size: jax.Array
    is_literal: jax.Array


def prepare(config: Config) -> tuple[Any, ...]:
    """Arguments of ``training.fit`` for ``config`` on ten images: key, state, step, data and plan.

    Step size and objective are data of the program, so that runs that differ in them share it.

    The particles start from the Gaussians of all training images: one image has no covariance.
    """
    train = build.images(config).train
    ten = one_of_each_class(train)
    params_key, train_key, _ = build.root_keys(config)
    network_key, buffer_key = jax.random.split(params_key)
    classifier = jem_parts.classifier(config, "model")
    params, statistics = jax.jit(classifier.init)(
        network_key, data.to_signed_unit(jnp.asarray(ten.images))
    )
    negatives = jem_parts.negatives(config, train)
    assert negatives is not None, "the generative weight is 1"
    shards = training.init_joint_shards(
        buffer_key,
        statistics,
        negatives,
        num_shards=1,
        buffer_size=config.sampler.buffer.size,
        smoothing=config.loss.smoothing,
    )
    dials = Dials(
        jnp.full((1,), config.sampler.svgd.step_size),
        jnp.full((1,), config.loss.svgd_variant == "literal"),
    )
    optimizer = jem_parts.optimizer(config, 1)
    return (
        train_key,
        training.init_state(params, optimizer, (shards, dials)),
        training.make_train_step(
            gradient_fn(config, classifier, negatives),
            optimizer,
            max_abs_loss=config.train.max_abs_loss,
        ),
        ten,
        build.plan(config, len(ten.images), (config.train.positive_batch_size,)),
    )


def gradient_fn(
    config: Config, classifier: networks.Classifier, negatives: training.Negatives
) -> Callable[..., Any]:
    """A ``training.GradientFn`` whose shard state is a ``JointShard`` with ``Dials``."""

    def learn(key: Any, params: Any, shard: Any, batch: Any) -> tuple[Any, Any, Any]:
        joint, dials = shard
        turned = training.make_joint_gradient_fn(
            classifier,
            training.JointObjective(generative_loss=partial(generative_loss, dials.is_literal)),
            classified_view=jem_parts.classified_view(config),
            positive_view=jem_parts.positive_view(config),
            negatives=dataclasses.replace(
                negatives,
                sampler=partial(sampler, config.sampler, dials.step_size),
                axis_name=None,  # one shard holds all
            ),
        )
        gradients, joint, metrics = turned(key, params, joint, batch)
        return gradients, (joint, dials), metrics

    return learn


def generative_loss(
    is_literal: jax.Array, positive: jax.Array, negative: jax.Array, smoothing: jax.Array
) -> tuple[jax.Array, Any]:
    """Either objective, by a flag that may be traced."""
    corrected, metrics = losses.svgd_generative_loss(positive, negative, smoothing=smoothing)
    literal, _ = losses.svgd_generative_loss(
        positive, negative, smoothing=smoothing, variant="literal"
    )
    return jnp.where(is_literal, literal, corrected), metrics


def sampler(section: Config, step_size: jax.Array, density: Any) -> Any:
    """SVGD with clipped scores in a box, at a step size that may be traced."""
    boxed = samplers.clamp(samplers.svgd, section.low, section.high)
    clipped = samplers.clip_score(density, section.max_score)
    return boxed(clipped, step_size=step_size, bandwidth=section.svgd.bandwidth)
