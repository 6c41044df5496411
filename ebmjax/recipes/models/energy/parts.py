"""The parts of an energy that its configuration names: the tables and what they make."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ebmjax import data, learning, networks, optim
from ebmjax.recipes.config.checks import is_points
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.user_parts import is_users
from ebmjax.recipes.models.build import ACTIVATIONS, DTYPES, SHARD_AXES, user_optimizer
from ebmjax.recipes.models.energy.checks import find_samplers, references_a_shard
from ebmjax.recipes.parts.samplers import larger, noise_scale
from ebmjax.recipes.parts.samplers.bind import chain_kind
from ebmjax.recipes.parts.samplers.table import BASE
from ebmjax.recipes.parts.start_distributions import (
    fit_gaussians,
    informative_start,
    log_base,
    split_images,
    start_makers,
)
from ebmjax.recipes.parts.user_networks import (
    NetworkSpec,
    stateless,
    user_networks,
)
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
      ConfigError: for whatever a network of the user does wrong.
    """
    if levels is not None:
        of_wide, init = model_of(config, learning.widen(image_shape))
        return Model(learning.condition_on_noise(of_wide, levels, len(image_shape)), init)
    model = config.model
    num_classes = config.data.num_classes if model.is_conditional else None
    example = (jnp.zeros(image_shape), *(() if num_classes is None else (jnp.int32(0),)))
    if model.factory:
        shapes = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in example)
        given = {"num_classes": num_classes, "image_shape": tuple(image_shape)}
        network: Any = stateless(
            *user_networks(config, given, (NetworkSpec("energies", shapes, ()),))
        )
    else:
        ours = {"activation": ACTIVATIONS[model.activation], "dtype": DTYPES[model.dtype]}
        if is_points(config):
            network = networks.MLPEnergy(hidden=model.hidden, **ours)
        else:
            network = networks.ResidualEnergy(
                features=model.features,
                depth=model.depth,
                num_classes=num_classes,
                num_scales=model.num_scales,
                spectral_norm=model.spectral_norm,
                **ours,
            )

    def energy_of(params: PyTree) -> Callable[..., jax.Array]:
        # Norms of kernels are computed once for all chains.
        folded, kept = network.fold(params) if hasattr(network, "fold") else (network, params)
        return lambda *inputs: folded.apply(kept, *inputs[: len(example)])

    return Model(energy_of, lambda key: network.init(key, *example))


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
        image_shape, section.buffer.start_scale, section.buffer.get("start_mean", (0.0,)), points
    )
    chosen = {name: larger(one, step_factor) for name, one in find_samplers(config).items()}
    needs_base = any(one.entry.needs == BASE for one in chosen.values())
    has_classes, base = config.model.is_conditional, None
    if points is None and (needs_base or section.buffer.start == "informative"):
        grouped = train if has_classes else split_images(train)
        base = fit_gaussians(grouped) if needs_base else None
        makers["informative"] = partial(informative_start, grouped, by_label=has_classes)
    return learning.ChainPlan(
        kinds={name: chain_kind(one, section, base, SHARD_AXES) for name, one in chosen.items()},
        num_samples=section.num_samples // config.mesh.num_shards,
        start_fn=makers[section.buffer.start](),
        reinit_prob=section.buffer.reinit_prob,
        num_classes=config.data.num_classes if has_classes else 1,
        augment=augmentation(config, image_shape),
        log_base=log_base(base, chosen.values()),
    )


def augmentation(
    config: Config, image_shape: tuple[int, ...]
) -> Callable[[jax.Array, jax.Array], jax.Array] | None:
    """The augmentation of starts that come from the buffer; None for nothing.

    Raises:
      ConfigError: where the data are no images.
    """
    section = config.sampler.augmentation.to_dict()
    if section.pop("name") == "none":
        return None
    if len(image_shape) != 3 or image_shape[-1] not in (1, 3):
        raise ConfigError(
            "config.sampler.augmentation.name='image' crops and recolours images of shape "
            f"(height, width, 1 or 3 channels); those of config.data.name={config.data.name!r} "
            f"have shape {tuple(image_shape)}. Set --config.sampler.augmentation.name=none."
        )
    return partial(data.augment_starts, low=config.sampler.low, high=config.sampler.high, **section)


def optimizer(
    config: Config, total_steps: int, numbers: Mapping[str, Any]
) -> optax.GradientTransformation:
    """The optimiser after a clipped norm where one is set, and the average of the parameters.

    The rate decays geometrically over the run, to ``optimizer.final_fraction`` of the first.
    """
    section = config.optimizer

    def rate(count: Any) -> Any:
        first = numbers["learning_rate"]
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
