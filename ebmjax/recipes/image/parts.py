"""The parts of an image energy that its configuration names: the tables and what they make."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ebmjax import data, learning, losses, networks, optim
from ebmjax._numbers import as_arguments
from ebmjax.recipes.core.build import ACTIVATIONS, DTYPES, batch_axis, user_optimizer
from ebmjax.recipes.core.fields import Config, ConfigError
from ebmjax.recipes.core.user_losses import EnergyLoss, energy_loss, energy_means, gradient_maker
from ebmjax.recipes.core.user_networks import Part, user_networks
from ebmjax.recipes.core.user_parts import is_users
from ebmjax.recipes.image.checks import chosen, references_a_shard
from ebmjax.recipes.images.initial_laws import laws
from ebmjax.recipes.samplers import larger, noise_scale
from ebmjax.recipes.samplers.bind import bound
from ebmjax.training import GradientFn
from ebmjax.types import Metrics, PyTree


class Model(NamedTuple):
    """An energy and how its parameters begin.

    Attributes:
      energy_of: parameters to the energy, as training takes it.
      init: key to parameters.
    """

    energy_of: learning.EnergyOf
    init: Callable[[jax.Array], PyTree]


def model_of(config: Config, image_shape: tuple[int, ...]) -> Model:
    """Returns the energy of ``config.model``, ours or the user's."""
    num_classes = config.data.num_classes if config.model.is_conditional else None
    example = (jnp.zeros(image_shape), *(() if num_classes is None else (jnp.int32(0),)))
    if config.model.factory:
        shapes = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in example)
        given = {"num_classes": num_classes, "image_shape": tuple(image_shape)}
        (users,) = user_networks(config, given, (Part("energies", shapes, ()),))
        return Model(
            _users_energy_of(users, len(example)), lambda key: users.init(key, *example)[0]
        )
    network = _residual_energy(config, num_classes)
    return Model(_energy_of(network), lambda key: network.init(key, *example))


def _users_energy_of(network: networks.Network, num_inputs: int) -> learning.EnergyOf:
    def energy_of(params: PyTree) -> learning.Energy:
        return lambda *inputs: network.apply(params, {}, *inputs[:num_inputs])[0]

    return energy_of


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
    """Images of the data to what the energy sees."""
    section = config.data

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


def _contrastive_divergence(
    section: Mapping[str, Any], positive: jax.Array, negative: jax.Array, beta: Any
) -> tuple[jax.Array, Metrics]:
    del beta
    return losses.contrastive_divergence_loss(positive, negative, energy_l2=section["energy_l2"])


def _improved(
    section: Mapping[str, Any],
    positive: jax.Array,
    negative: jax.Array,
    beta: Any,
    live: jax.Array,
    entropy: jax.Array,
) -> tuple[jax.Array, Metrics]:
    del beta
    weights = {name: section[name] for name in ("energy_l2", "kl_weight", "entropy_weight")}
    return losses.improved_contrastive_divergence_loss(positive, negative, live, entropy, **weights)


def _beta_objective(
    section: Mapping[str, Any], positive: jax.Array, negative: jax.Array, beta: Any
) -> tuple[jax.Array, Metrics]:
    value, metrics = losses.beta_objective_loss(
        -positive,
        -negative,
        beta=beta,
        variant=section["beta_variant"],
        output_scale=section["output_scale"],
        allow_negative=section["allow_negative"],
    )
    penalty = losses.energy_penalty(section["energy_l2"], positive, negative)
    energies = energy_means(positive, negative)
    return value + penalty, {**metrics, **energies, "energy_l2": penalty}


def _own(users: EnergyLoss) -> Callable[..., tuple[jax.Array, Metrics]]:
    """Returns a loss of the user with the penalty on squared energies."""

    def loss(
        section: Mapping[str, Any], positive: jax.Array, negative: jax.Array, beta: Any
    ) -> tuple[jax.Array, Metrics]:
        del beta
        value, metrics = users(positive, negative)
        penalty = losses.energy_penalty(section["energy_l2"], positive, negative)
        return value + penalty, {**metrics, "energy_l2": penalty}

    return loss


LOSSES = {
    "contrastive_divergence": _contrastive_divergence,
    "improved": _improved,
    "beta": _beta_objective,
}


def loss(config: Config) -> learning.EnergyLoss:
    """The loss of ``config.loss``.

    That of beta also reports "negative_weight_<sampler>" of several: the share of the weights that
    its chains have.
    """
    name = config.loss.name
    loss_fn: Any = _own(energy_loss(config)) if is_users(name) else LOSSES[name]
    numbers, names = as_arguments(config.loss.to_dict()), config.sampler.names
    if config.loss.name != "beta" or len(names) == 1:
        return lambda *given: loss_fn(numbers(), *given)

    def with_shares(positive: jax.Array, negative: jax.Array, beta: Any) -> Any:
        section = numbers()
        value, metrics = loss_fn(section, positive, negative, beta)
        weights = jax.nn.softmax(-beta * section["output_scale"] * negative)
        # ``run_chains`` returns equal parts, in the order of the names.
        shares = jnp.sum(weights.reshape(len(names), -1), axis=1)
        return value, metrics | {
            f"negative_weight_{name}": share for name, share in zip(names, shares, strict=True)
        }

    return with_shares


def gradient_without_chains(config: Config, energy_of: learning.EnergyOf) -> GradientFn | None:
    """Returns the gradient function of an objective that draws no negatives; None for others."""
    name = config.loss.name
    if is_users(name):
        given = {"view": view(config), "batch_axis": batch_axis(config)}
        return gradient_maker(config, energy_of=energy_of, **given)
    if name != "denoising":
        return None
    numbers = as_arguments({"noise_scale": config.loss.noise_scale})

    def gradient_fn(*given: Any) -> Any:
        make = learning.make_denoising_gradient_fn
        return make(energy_of, view=view(config), **numbers())(*given)

    return gradient_fn


def beta_fn(config: Config, total_steps: int) -> Callable[[jax.Array], Any]:
    """Beta at a step: constant, or linear from ``loss.beta_start``; 0 without the objective."""
    if config.loss.name != "beta":
        return lambda step: 0.0
    numbers = as_arguments({"start": config.loss.beta_start, "end": config.loss.beta})

    def beta(step: jax.Array) -> Any:
        ends = numbers()
        if ends["start"] is None:
            return ends["end"]
        return optax.linear_schedule(ends["start"], ends["end"], total_steps)(step)

    return beta


def live_steps(config: Config) -> learning.LiveSteps | None:
    """The differentiated last steps of the loss "improved"."""
    if config.loss.name != "improved":
        return None
    section = config.sampler
    fraction = section.final_step_fraction  # they go on where the chain has annealed to
    box = {"low": section.low, "high": section.high} if section.box != "none" else {}
    return learning.LiveSteps(
        step_size=section.sgld.step_size * fraction,
        noise_scale=noise_scale(chosen(config)["sgld"]) * fraction**0.5,
        num_steps=config.loss.live_steps,
        num_references=references_a_shard(config),
        **box,
    )


def kinds(
    config: Config, image_shape: tuple[int, ...], step_factor: float = 1.0
) -> dict[str, learning.ChainKind]:
    """Returns the kind of each sampler, by name, with ``step_factor`` times its steps."""
    section, made = config.sampler, {}
    for name, one in chosen(config).items():
        one = larger(one, step_factor)
        adapts = section.target_acceptance is not None and one.entry.adaptable
        made[name] = learning.ChainKind(
            sampler=bound(one, section, image_shape),
            num_steps=section.num_steps,
            target_acceptance=section.target_acceptance if adapts else None,
            step_size=one.options.get("step_size", 1.0),
            min_step_size=section.min_step_size,
            memory=one.entry.memory,
        )
    return made


def chain_plan(config: Config, image_shape: tuple[int, ...]) -> learning.ChainPlan:
    """The plan of negatives, by ``config.sampler``."""
    section = config.sampler
    buffer = section.buffer
    return learning.ChainPlan(
        kinds=kinds(config, image_shape),
        num_samples=section.num_samples // config.mesh.num_shards,
        law=laws(buffer, image_shape)[buffer.law](),
        reinit_prob=buffer.reinit_prob,
        num_classes=config.data.num_classes if config.model.is_conditional else 1,
        augment=augmentation(config, image_shape),
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


def optimizer(config: Config) -> optax.GradientTransformation:
    """The optimiser after a clipped norm where one is set, and the average of the parameters."""
    section = config.optimizer
    numbers = as_arguments({"learning_rate": section.learning_rate})

    def rate(count: Any) -> Any:
        return numbers()["learning_rate"]

    return optax.chain(
        optax.identity()
        if section.max_norm is None
        else optax.clip_by_global_norm(section.max_norm),
        user_optimizer(config, rate)
        if is_users(section.name)
        else optax.adam(rate, b1=section.b1, b2=section.b2),
        optim.average_parameters(section.average_decay),
    )
