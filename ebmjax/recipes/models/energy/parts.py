"""The parts of an energy that its configuration names: the tables and what they make."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ebmjax import data, learning, networks, optim, samplers
from ebmjax._numbers import as_arguments
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.points import is_points
from ebmjax.recipes.config.user_parts import is_users
from ebmjax.recipes.models.build import ACTIVATIONS, DTYPES, batch_axis, user_optimizer
from ebmjax.recipes.models.energy.checks import find_samplers, references_a_shard
from ebmjax.recipes.parts.samplers import larger, noise_scale
from ebmjax.recipes.parts.samplers.bind import bind_sampler
from ebmjax.recipes.parts.samplers.table import BASE
from ebmjax.recipes.parts.start_distributions import (
    fit_gaussians,
    informative_start,
    log_base,
    split_images,
    start_makers,
)
from ebmjax.recipes.parts.user_networks import NetworkSpec, check_sees_noise, user_networks
from ebmjax.types import PyTree


class Model(NamedTuple):
    """An energy and how its parameters begin.

    Attributes:
      energy_of: parameters to the energy, as training takes it.
      init: key to parameters.
    """

    energy_of: learning.EnergyOf
    init: Callable[[jax.Array], PyTree]


def model_of(
    config: Config, image_shape: tuple[int, ...], levels: learning.NoiseLevels | None = None
) -> Model:
    """Returns the energy of ``config.model``, ours or the user's.

    With noise levels the network sees one channel, or coordinate, more.

    Raises:
      ConfigError: for whatever a network of the user does wrong, such as to ignore the noise.
    """
    if levels is not None:
        energy_of, init = model_of(config, learning.widen(image_shape))
        if config.model.factory:
            check_sees_noise(
                config,
                lambda params, x: energy_of(params)(x, jnp.zeros(len(x), jnp.int32)),
                init(jax.random.key(0)),
                image_shape,
            )
        return Model(learning.condition_on_noise(energy_of, levels, len(image_shape)), init)
    num_classes = config.data.num_classes if config.model.is_conditional else None
    example = (jnp.zeros(image_shape), *(() if num_classes is None else (jnp.int32(0),)))
    if config.model.factory:
        shapes = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in example)
        given = {"num_classes": num_classes, "image_shape": tuple(image_shape)}
        (users,) = user_networks(config, given, (NetworkSpec("energies", shapes, ()),))
        return Model(
            _users_energy_of(users, len(example)), lambda key: users.init(key, *example)[0]
        )
    if is_points(config):
        return _mlp_energy(config, example)
    network = _residual_energy(config, num_classes)
    return Model(_energy_of(network), lambda key: network.init(key, *example))


def _users_energy_of(network: networks.Network, num_inputs: int) -> learning.EnergyOf:
    def energy_of(params: PyTree) -> learning.Energy:
        return lambda *inputs: network.apply(params, {}, *inputs[:num_inputs])[0]

    return energy_of


def _mlp_energy(config: Config, example: tuple[jax.Array, ...]) -> Model:
    model = config.model
    network = networks.MLPEnergy(
        hidden=model.hidden, activation=ACTIVATIONS[model.activation], dtype=DTYPES[model.dtype]
    )

    def energy_of(params: PyTree) -> learning.Energy:
        return lambda points, labels: network.apply(params, points)  # pyright: ignore

    return Model(energy_of, lambda key: network.init(key, *example))


def _residual_energy(config: Config, num_classes: int | None) -> networks.ResidualEnergy:
    model = config.model
    return networks.ResidualEnergy(
        features=model.features,
        depth=model.depth,
        num_classes=num_classes,
        num_scales=model.num_scales,
        spectral_norm=model.spectral_norm,
        activation=ACTIVATIONS[model.activation],
        dtype=DTYPES[model.dtype],
    )


def _energy_of(network: networks.ResidualEnergy) -> learning.EnergyOf:
    """Returns the energy, with norms that are computed once for all chains."""

    def energy_of(params: PyTree) -> learning.Energy:
        folded, kept = network.fold(params)
        if network.num_classes is None:
            return lambda images, labels: folded.apply(kept, images)  # pyright: ignore
        return lambda images, labels: folded.apply(kept, images, labels)  # pyright: ignore

    return energy_of


def view(config: Config) -> learning.View:
    """Images of the data to what the energy sees; points are seen as they are."""
    section = config.data
    if is_points(config):
        return lambda key, points: points

    def view(key: jax.Array, images: jax.Array) -> jax.Array:
        flip_key, level_key, noise_key = jax.random.split(key, 3)
        if section.dequantise:
            x = data.dequantise(level_key, images)
        else:
            x = data.to_signed_unit(images)
        if section.flip:
            x = data.random_flip(flip_key, x)
        if section.noise_scale:
            x = data.add_gaussian_noise(noise_key, x, scale=section.noise_scale)
        return x

    return view


def live_steps(config: Config) -> learning.LiveSteps | None:
    """The differentiated last steps of the loss "improved"."""
    if config.loss.name != "improved":
        return None
    section = config.sampler
    fraction = section.final_step_fraction  # they go on where the chain has annealed to
    box = {"low": section.low, "high": section.high} if section.box != "none" else {}
    return learning.LiveSteps(
        step_size=section.sgld.step_size * fraction,
        noise_scale=noise_scale(find_samplers(config)["sgld"]) * fraction**0.5,
        num_steps=config.loss.live_steps,
        num_references=references_a_shard(config),
        **box,
    )


def kinds(
    config: Config,
    image_shape: tuple[int, ...],
    step_factor: float,
    base: samplers.FactorGaussian | None,
) -> dict[str, learning.ChainKind]:
    """Returns the kind of each sampler, by name, with ``step_factor`` times its steps."""
    section, made = config.sampler, {}
    for name, one in find_samplers(config).items():
        one = larger(one, step_factor)
        adapts = section.target_acceptance is not None and one.entry.adaptable
        made[name] = learning.ChainKind(
            sampler=bind_sampler(one, section, image_shape, base),
            num_steps=section.num_steps,
            target_acceptance=section.target_acceptance if adapts else None,
            is_interacting=one.entry.interacting,
            axis_name=batch_axis(config) if one.entry.interacting else None,
            step_size=one.options.get("step_size", 1.0),
            min_step_size=section.min_step_size,
            memory=one.entry.memory,
        )
    return made


def chain_plan(
    config: Config, train: data.ImageData, step_factor: float = 1.0
) -> learning.ChainPlan:
    """Returns the plan of negatives, with ``step_factor`` times the steps of ``config.sampler``.

    Args:
      config: of the run.
      train: the training data. Images without classes are split in clusters, for a start or a
        sampler that has a Gaussian for each class.
      step_factor: see ``larger``.
    """
    image_shape, section = train.images.shape[1:], config.sampler
    points = train.images if is_points(config) else None
    makers = start_makers(
        image_shape, section.buffer.start_scale, section.buffer.start_mean, points
    )
    num_classes, base = config.data.num_classes if config.model.is_conditional else 1, None
    needs_base = any(one.entry.needs == BASE for one in find_samplers(config).values())
    if points is None and (needs_base or section.buffer.start == "informative"):
        grouped = train if config.model.is_conditional else split_images(train)
        base = fit_gaussians(grouped) if needs_base else None
        makers["informative"] = partial(
            informative_start, grouped, by_label=config.model.is_conditional
        )
    return learning.ChainPlan(
        kinds=kinds(config, image_shape, step_factor, base),
        num_samples=section.num_samples // config.mesh.num_shards,
        start_fn=makers[section.buffer.start](),
        reinit_prob=section.buffer.reinit_prob,
        num_classes=num_classes,
        augment=augmentation(config, image_shape),
        log_base=log_base(base, find_samplers(config).values()),
    )


def augmentation(
    config: Config, image_shape: tuple[int, ...]
) -> Callable[[jax.Array, jax.Array], jax.Array] | None:
    """The augmentation of starts that come from the buffer; None for nothing.

    Raises:
      ConfigError: where the data are no images.
    """
    section = config.sampler.augmentation.to_dict()
    name = AUGMENTATIONS[section.pop("name")]
    if name is None:
        return None
    if len(image_shape) != 3 or image_shape[-1] not in (1, 3):
        raise ConfigError(
            "config.sampler.augmentation.name='image' crops and recolours images of shape "
            f"(height, width, 1 or 3 channels); those of config.data.name={config.data.name!r} "
            f"have shape {tuple(image_shape)}. Set --config.sampler.augmentation.name=none."
        )
    return partial(name, low=config.sampler.low, high=config.sampler.high, **section)


AUGMENTATIONS = {"none": None, "image": data.augment_starts}


def optimizer(config: Config, total_steps: int) -> optax.GradientTransformation:
    """The optimiser after a clipped norm where one is set, and the average of the parameters.

    The rate decays geometrically over the run, to ``optimizer.final_fraction`` of the first.
    """
    section = config.optimizer
    numbers = as_arguments({"learning_rate": section.learning_rate})

    def rate(count: Any) -> Any:
        first = numbers()["learning_rate"]
        if section.final_fraction == 1.0:
            return first
        return optax.exponential_decay(first, total_steps, section.final_fraction)(count)

    return optax.chain(
        optax.identity()
        if section.max_norm is None
        else optax.clip_by_global_norm(section.max_norm),
        user_optimizer(config, rate)
        if is_users(section.name)
        else optax.adam(rate, b1=section.b1, b2=section.b2),
        optim.average_parameters(section.average_decay),
    )
