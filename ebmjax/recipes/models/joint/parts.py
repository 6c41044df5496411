"""The parts of a joint energy model that its configuration names: the tables and what they make."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ebmjax import data, learning, networks, optim, samplers
from ebmjax._stored import rows_of
from ebmjax.recipes.config.by_images import total_steps
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import is_users
from ebmjax.recipes.models.build import DTYPES, SHARD_AXES, user_optimizer
from ebmjax.recipes.models.joint.checks import check_independence, count_blocks, sampler
from ebmjax.recipes.parts import start_distributions
from ebmjax.recipes.parts.samplers.bind import chain_kind
from ebmjax.recipes.parts.samplers.table import BASE
from ebmjax.recipes.parts.user_networks import NetworkSpec, user_networks

NORMS = {"none": None, "batch": "batch", "group": "group"}
NORM_POLICIES = {
    "default": networks.NormPolicy(),
    "running": networks.NormPolicy(
        positives="running", negatives="running", chains="running", updated_by=("classified",)
    ),
    "running_chains": networks.NormPolicy(chains="running"),
    "sada_jem": networks.SADA_JEM_POLICY,
}


def classifiers(
    config: Config, image_shape: tuple[int, ...], levels: learning.NoiseLevels | None = None
) -> tuple[networks.Network, networks.Network]:
    """Returns the networks that train and that chains follow; both take the same parameters.

    With noise levels the network sees one channel more.

    Raises:
      ConfigError: for whatever a network of the user does wrong.
    """
    if levels is not None:
        network, of_chains = classifiers(config, learning.widen(image_shape))
        condition = partial(learning.condition_classifier_on_noise, levels=levels)
        return condition(network), condition(of_chains)
    if not config.model.factory:
        return (network := _wide_resnet(config)), network
    num_classes = config.data.num_classes
    image = jax.ShapeDtypeStruct(image_shape, jnp.float32)
    (network,) = user_networks(
        config,
        {"num_classes": num_classes, "image_shape": tuple(image_shape)},
        (NetworkSpec("logits", (image,), (num_classes,)),),
        has_state=True,
    )
    _, state = jax.eval_shape(network.init, jax.random.key(0), image)
    if jax.tree.leaves(state) and config.loss.generative_weight:
        check_independence(config, sampler(config))
    return network, network


def _wide_resnet(config: Config) -> networks.Network:
    model = config.model
    return networks.from_linen(
        networks.WideResNet(
            depth=model.depth,
            widen_factor=model.widen_factor,
            num_classes=config.data.num_classes,
            norm=NORMS[model.norm],
            dtype=DTYPES[model.dtype],
        )
    )


def take_images(config: Config, train: data.ImageData) -> data.ImageData:
    """Returns the training images that batches are drawn from.

    All of them, or with ``config.data.num_per_class`` the first ones of each class, by class.

    Raises:
      ConfigError: if a class has fewer.
    """
    number = config.data.num_per_class
    if number is None:
        return train
    labels = np.asarray(train.labels)
    first = [np.flatnonzero(labels == label)[:number] for label in range(config.data.num_classes)]
    smallest = min(len(places) for places in first)
    if smallest < number:
        raise ConfigError(
            f"config.data.num_per_class must be at most the number of training images of every "
            f"class, got {number} where one class has {smallest} of the {len(labels)} images "
            "(config.data.max_train). Take fewer, or read more images."
        )
    places = np.concatenate(first)
    return data.ImageData(*(rows_of(array, places) for array in train))


def make_classifier_view(config: Config) -> learning.View:
    """Labelled images to what the network sees: augmented, with noise."""
    section = config.data
    return partial(_view, section.noise_scale, section.crop_padding, section.flip)


def positive_view(config: Config) -> learning.View:
    """Returns the view of images for p(x), augmented if ``config.data.augment_positives``.

    The augmentation is that of labelled images.
    """
    section = config.data
    if not section.augment_positives:
        return partial(_view, section.noise_scale, 0, False)
    return make_classifier_view(config)


def _view(
    noise_scale: float, padding: int, is_flipped: bool, key: jax.Array, images: jax.Array
) -> jax.Array:
    crop_key, flip_key, _, noise_key = jax.random.split(key, 4)
    x = data.to_signed_unit(images)
    if padding:
        x = data.reflect_pad_crop(crop_key, x, padding=padding)
    if is_flipped:
        x = data.random_flip(flip_key, x)
    if noise_scale:
        x = data.add_gaussian_noise(noise_key, x, scale=noise_scale)
    return x


def chain_plan(config: Config, train: data.ImageData) -> learning.ChainPlan:
    """The plan of negatives."""
    num_blocks, chosen = count_blocks(config), sampler(config)
    base = start_distributions.fit_gaussians(train) if chosen.entry.needs == BASE else None
    section, num_shards = config.sampler, config.mesh.num_shards
    num_kept = section.buffer.num_kept
    kind = chain_kind(chosen, section, base, SHARD_AXES)
    return learning.ChainPlan(
        kinds={chosen.name: kind},
        num_samples=section.num_samples // num_shards,
        start_fn=start_fn(config, train),
        reinit_prob=section.buffer.reinit_prob,
        num_classes=num_blocks,
        replacement=section.buffer.get("replacement", "in_place"),
        num_kept=num_kept and num_kept // num_shards,
        log_base=start_distributions.log_base(base, [chosen]),
    )


def start_fn(config: Config, train: data.ImageData) -> samplers.StartFn:
    """The start distribution that chains start from, ``config.sampler.buffer.start``."""
    buffer = config.sampler.buffer
    makers = start_distributions.start_makers(train.images.shape[1:], buffer.start_scale)
    makers["informative"] = partial(start_distributions.informative_start, train)
    return makers[buffer.start]()


def optimizer(
    config: Config, steps_per_epoch: int, numbers: Mapping[str, Any]
) -> optax.GradientTransformation:
    """Adam or SGD with warm-up, a rate that decays, and coupled weight decay."""
    section = config.optimizer
    decay_steps = total_steps(config, steps_per_epoch)
    scales: dict[int, float] = {}
    for step in (int(epoch * steps_per_epoch) for epoch in section.get("decay_epochs", ())):
        scales[step] = scales.get(step, 1.0) * section.decay_factor
    schedules = {
        "steps": partial(optax.piecewise_constant_schedule, boundaries_and_scales=scales),
        "cosine": partial(optax.cosine_decay_schedule, decay_steps=decay_steps),
    }
    make_schedule = schedules[section.schedule]

    def schedule(count: Any) -> Any:
        decaying = make_schedule(numbers["learning_rate"])
        return decaying(count) * jnp.minimum(1.0, (count + 1) / max(section.warmup_steps, 1))

    decay = optax.add_decayed_weights(section.weight_decay)
    average = [optim.average_parameters(section.average_decay)] if section.average_decay else []
    if is_users(section.name):
        return optax.chain(decay, user_optimizer(config, schedule), *average)
    transforms = {"adam": optax.scale_by_adam, "sgd": lambda: optax.trace(decay=section.momentum)}
    return optax.chain(
        decay, transforms[section.name](), optax.scale_by_learning_rate(schedule), *average
    )
