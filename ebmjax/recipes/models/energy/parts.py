"""The parts of a density that its configuration names: the tables and what they make."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ebmjax import data, learning, networks, optim
from ebmjax._stored import rows_of
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.families import POINTS
from ebmjax.recipes.config.user_parts import is_users
from ebmjax.recipes.models.build import ACTIVATIONS, DTYPES, SHARD_AXES, user_optimizer
from ebmjax.recipes.models.energy.checks import (
    check_independence,
    count_blocks,
    find_samplers,
    learns_density,
)
from ebmjax.recipes.parts.objectives import chains_beta, make_loss
from ebmjax.recipes.parts.samplers import BASE, chain_kind, temperature
from ebmjax.recipes.parts.start_distributions import (
    fit_gaussians,
    log_base,
    make_start,
    split_images,
)
from ebmjax.recipes.parts.user_networks import user_networks
from ebmjax.types import PyTree

MOMENTUM = 0.9
"""Momentum of SGD."""
NORM_POLICIES = {
    "default": networks.NormPolicy(),
    "running": networks.NormPolicy(
        positives="running", negatives="running", chains="running", updated_by=("classified",)
    ),
    "running_chains": networks.NormPolicy(chains="running"),
    "sada_jem": networks.SADA_JEM_POLICY,
}


def make_density(
    config: Config, image_shape: tuple[int, ...], levels: learning.NoiseLevels | None = None
) -> tuple[Any, Callable[..., Any], Callable[..., jax.Array]]:
    """Returns the density of ``config.model``, by our network or the user's, in three parts.

    They are the network as training takes it; the function from a key to parameters and
    statistics; and that from these and x (N, *shape) to log densities (N, classes). With noise
    levels the network sees one channel, or coordinate, more.

    Raises:
      ConfigError: for whatever a network of the user does wrong.
    """
    shape = image_shape if levels is None else (*image_shape[:-1], image_shape[-1] + 1)
    if config.family == "joint":
        classifier = _classifier(config, shape)
        if levels is not None:
            classifier = learning.condition_classifier_on_noise(classifier, levels=levels)
        policy = NORM_POLICIES[config.model.get("norm_policy", "default")]
        network = learning.JointNetwork(classifier, None, policy, config.model.is_conditional)
        # Statistics are begun by a batch, whatever its images.
        init = lambda key: classifier.init(key, jnp.zeros((2, *image_shape)))  # noqa: E731
        return network, init, lambda *given: classifier.apply(*given)[0]
    label = (jnp.int32(0),) if config.model.is_conditional else ()
    example = (jnp.zeros(shape), *label)
    own = _energy(config, example)

    def energy_of(params: PyTree) -> Callable[..., jax.Array]:
        # Norms of kernels are computed once for all chains.
        folded, kept = own.fold(params) if hasattr(own, "fold") else (own, params)
        return lambda *inputs: folded.apply(kept, *inputs[: len(example)])

    num_classes, of_noise = count_blocks(config), energy_of
    if levels is not None:
        of_noise = learning.condition_on_noise(energy_of, levels, len(image_shape))

    def logits(params: PyTree, statistics: PyTree, x: jax.Array) -> jax.Array:
        energy = of_noise(params)
        of_label = lambda label: -energy(x, jnp.full(len(x), label))  # noqa: E731
        return jnp.stack([of_label(label) for label in range(num_classes)], axis=-1)

    network = learning.EnergyNetwork(of_noise, num_classes)
    return network, lambda key: (own.init(key, *example), ()), logits


def _classifier(config: Config, image_shape: tuple[int, ...]) -> networks.Network:
    model, num_classes = config.model, config.data.num_classes
    if not model.factory:
        return networks.from_linen(
            networks.WideResNet(
                depth=model.depth,
                widen_factor=model.widen_factor,
                num_classes=num_classes,
                norm=None if model.norm == "none" else model.norm,
                dtype=DTYPES[model.dtype],
            )
        )
    image = jax.ShapeDtypeStruct(image_shape, jnp.float32)
    given = {"num_classes": num_classes, "image_shape": tuple(image_shape)}
    (network,) = user_networks(config, given, ("logits", (image,), (num_classes,)), has_state=True)
    _, state = jax.eval_shape(network.init, jax.random.key(0), image)
    if jax.tree.leaves(state) and learns_density(config):
        for chosen in find_samplers(config).values():
            check_independence(config, chosen)
    return network


def _energy(config: Config, example: tuple[jax.Array, ...]) -> Any:
    """Returns the network of E(x), or of E(x, y), with functions ``init`` and ``apply``."""
    model, image_shape = config.model, example[0].shape
    num_classes = config.data.num_classes if model.is_conditional else None
    if model.factory:
        shapes = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in example)
        given = {"num_classes": num_classes, "image_shape": image_shape}
        return user_networks(config, given, ("energies", shapes, ()))[0]
    ours = {"activation": ACTIVATIONS[model.activation], "dtype": DTYPES[model.dtype]}
    if config.data.name in POINTS:
        return networks.MLPEnergy(hidden=model.hidden, **ours)
    return networks.ResidualEnergy(
        features=model.features,
        depth=model.depth,
        num_classes=num_classes,
        num_scales=model.num_scales,
        spectral_norm=model.spectral_norm,
        **ours,
    )


def take_images(config: Config, train: data.ImageData, about: str = "") -> data.ImageData:
    """Returns the training images that batches are drawn from.

    All of them, or with ``config.data.num_per_class`` the first ones of each class, by class.

    Raises:
      ConfigError: if a class has fewer, or none where chains start in every class.
    """
    labels, number = np.asarray(train.labels), config.data.get("num_per_class")
    counts = [int(np.sum(labels == label)) for label in range(config.data.num_classes)]
    is_informative = config.sampler.buffer.start == "informative" and learns_density(config)
    if config.family == "joint" and is_informative and 0 in counts:
        raise ConfigError(
            "config.sampler.buffer.start=informative needs training images of every class, and of "
            f"class {counts.index(0)} none are left ({about}): set it to uniform, or change "
            "config.data.holdout or config.data.max_train."
        )
    if number is None:
        return train
    if number > min(counts):
        raise ConfigError(
            f"config.data.num_per_class must be at most {min(counts)}, the training images of the "
            f"smallest class, got {number}. Take fewer, or read more images."
        )
    first = [np.flatnonzero(labels == label)[:number] for label in range(len(counts))]
    return data.ImageData(*(rows_of(array, np.concatenate(first)) for array in train))


def make_view(config: Config, is_augmented: bool = True) -> learning.View:
    """Returns images of the data to what the network sees; points are seen as they are."""
    is_joint, section = config.family == "joint", config.data
    if not is_joint and section.name in POINTS:
        return lambda key, points: points
    names = ("crop", "flip", "", "noise") if is_joint else ("flip", "level", "noise")

    def view(key: jax.Array, images: jax.Array) -> jax.Array:
        keys = dict(zip(names, jax.random.split(key, len(names)), strict=True))
        is_rough = section.get("dequantise")
        x = data.dequantise(keys["level"], images) if is_rough else data.to_signed_unit(images)
        if section.get("crop_padding") and is_augmented:
            x = data.reflect_pad_crop(keys["crop"], x, padding=section.crop_padding)
        if section.get("flip") and is_augmented:
            x = data.random_flip(keys["flip"], x)
        if section.noise_scale:
            x = data.add_gaussian_noise(keys["noise"], x, scale=section.noise_scale)
        return x

    return view


def make_objective(config: Config, train: data.ImageData, total_steps: int) -> learning.Objective:
    """Returns the objective of ``config.loss``, with SAM as ``config.optimizer`` says.

    Args:
      config: of the run.
      train: the training data, to which an objective with a function ``fit`` fits what it needs.
      total_steps: of the run.

    Raises:
      ConfigError: for whatever a function of the user does wrong, or data that do not fit.
    """
    section, chains, live = config.loss, config.sampler, None
    if section.name == "improved":  # its last steps go on where the chain has annealed to
        step_size = chains.sgld.step_size * chains.final_step_fraction
        box = {"low": chains.low, "high": chains.high} if chains.box != "none" else {}
        live = learning.LiveSteps(
            step_size=step_size,
            noise_scale=(2.0 * step_size * temperature(find_samplers(config)["sgld"])) ** 0.5,
            num_steps=section.live_steps,
            num_references=section.num_references // config.mesh.num_shards,
            **box,
        )
    weight = section.get("generative_weight", 1.0)
    loss, numbers = make_loss(config, train, total_steps) if weight else (None, {})
    return learning.Objective(
        loss=loss,
        numbers=numbers,
        generative_weight=weight,
        density_scale=lambda numbers: 1.0 - chains_beta(numbers, total_steps),
        live=live,
        rho=config.optimizer.get("rho"),
        is_adaptive=config.optimizer.get("adaptive", False),
        smoothing_ratio=section.get("smoothing_ratio"),
        batch_axis=SHARD_AXES,
    )


def chain_plan(config: Config, train: data.ImageData) -> learning.ChainPlan:
    """Returns the plan of negatives.

    Images without classes are split in clusters, for a start or a sampler that has a Gaussian for
    each class.
    """
    section, buffer = config.sampler, config.sampler.buffer
    num_shards, num_kept = config.mesh.num_shards, buffer.get("num_kept")
    num_classes, augment = count_blocks(config), None
    chosen = find_samplers(config)
    options = dict(section.get("augmentation", {"name": "none"}))
    if options.pop("name") == "image":
        augment = partial(data.augment_starts, low=section.low, high=section.high, **options)
    needs_base = any(one.entry.needs == BASE for one in chosen.values())
    has_classes = config.family == "joint" or config.model.is_conditional
    grouped, base, log_q = train, None, None
    if not has_classes and (needs_base or buffer.start == "informative"):
        grouped = split_images(train)
    if needs_base:
        base = fit_gaussians(grouped)
        # The first sampler's temperature counts.
        log_q = partial(log_base, base, next(iter(chosen.values())).options["temperature"])
    return learning.ChainPlan(
        kinds={name: chain_kind(one, section, base, SHARD_AXES) for name, one in chosen.items()},
        num_samples=section.num_samples // num_shards,
        start_fn=make_start(buffer, train, grouped, by_label=has_classes),
        reinit_prob=buffer.reinit_prob,
        num_classes=num_classes,
        augment=augment,
        replacement=buffer.get("replacement", "in_place"),
        num_kept=num_kept and num_kept // num_shards,
        log_base=log_q,
    )


def make_optimizer(
    config: Config, total_steps: int, steps_per_epoch: int, numbers: Mapping[str, Any]
) -> optax.GradientTransformation:
    """Returns the optimiser: clipping, coupled weight decay, Adam or SGD, averaged parameters.

    With labels the rate warms up, and falls in steps or by a cosine; without, geometrically.
    """
    section = config.optimizer
    name, first = section.get("schedule", "geometric"), numbers["learning_rate"]

    def rate(count: Any) -> Any:
        if name == "geometric":
            if section.final_fraction == 1.0:
                return first
            return optax.exponential_decay(first, total_steps, section.final_fraction)(count)
        if name == "steps":
            scales: dict[int, float] = {}
            for step in (int(epoch * steps_per_epoch) for epoch in section.decay_epochs):
                scales[step] = scales.get(step, 1.0) * section.decay_factor
            decaying = optax.piecewise_constant_schedule(first, scales)(count)
        else:
            decaying = optax.cosine_decay_schedule(first, total_steps)(count)
        return decaying * jnp.minimum(1.0, (count + 1) / max(section.warmup_steps, 1))

    made = []
    if section.get("max_norm") is not None:
        made.append(optax.clip_by_global_norm(section.max_norm))
    if section.get("weight_decay"):
        made.append(optax.add_decayed_weights(section.weight_decay))
    if is_users(section.name):
        made.append(user_optimizer(config, rate))
    elif section.name == "sgd":
        made.append(optax.sgd(rate, MOMENTUM))
    else:
        made.append(optax.adam(rate, b1=section.get("b1", 0.9), b2=section.get("b2", 0.999)))
    if section.average_decay:
        made.append(optim.average_parameters(section.average_decay))
    return optax.chain(*made)
