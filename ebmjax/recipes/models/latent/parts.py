"""The parts of a latent EBM experiment, each from its section of the configuration."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from ebmjax import data, latent, networks
from ebmjax.learning import make_latent_gradient_fn, make_through_chain_gradient_fn
from ebmjax.optim import average_parameters
from ebmjax.recipes.config.declare import read_fields
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.user_parts import is_users
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.latent.checks import sampler
from ebmjax.recipes.parts.samplers import bind_sampler
from ebmjax.recipes.parts.start_distributions import MOST_FITTED, rescale_images
from ebmjax.recipes.parts.user_networks import user_networks
from ebmjax.samplers import fit_factor_gaussian

PARTS = latent.LatentParams._fields
"""Names of the two networks, each with an optimiser."""


class Examples(NamedTuple):
    """The training data, with the index of every example, by which persistent chains are found."""

    images: data.ImageData
    index: jax.Array


def observe(batch: Examples) -> jax.Array:
    """Images (examples, H, W, C) in the generator's range."""
    return data.to_signed_unit(jnp.asarray(batch.images.images))


def chains(config: Config, train: data.ImageData) -> latent.LatentChains:
    """Samplers, lengths and starts of ``config.sampler``."""
    section, latent_dim, start = config.sampler, config.model.latent_dim, None
    if section.posterior.start == "components":
        images = rescale_images(train)[:MOST_FITTED]
        base = fit_factor_gaussian(images, num_directions=latent_dim).one(0)
        start = partial(latent.principal_latents, base, latent_dim=latent_dim)
    return latent.LatentChains(
        latent_dim,
        prior_sampler=bind_sampler(sampler(config, "prior"), section),
        prior_steps=section.prior.num_steps,
        posterior_sampler=bind_sampler(sampler(config, "posterior"), section),
        posterior_steps=section.posterior.num_steps,
        warm_start=section.warm_start,
        posterior_start=start,
        exchange_every=section.get("exchange_every") or 0,
    )


def gradient_fn(
    config: Config, model: latent.LatentModel, chains: latent.LatentChains, powers: jax.Array
) -> Callable[..., Any]:
    """The learning gradient of ``config.loss``; ``powers`` are unused by "vanilla"."""
    section = config.loss
    shared: dict[str, Any] = {"observe": observe, "num_chains": section.chains_per_observation}
    options: dict[str, Any] = {"energy_l2": section.energy_l2}
    if section.name == "through_chain":
        options |= {name: section[name] for name in read_fields(latent.through_chain_loss)}
        return make_through_chain_gradient_fn(model, powers, chains, **shared, **options)
    if section.name == "covariance":
        options["num_chains"] = section.chains_per_observation
    return make_latent_gradient_fn(
        model,
        chains,
        powers=None if section.name == "vanilla" else powers,
        loss_fn=partial(getattr(latent, f"{section.name}_loss"), **options),
        identify=lambda batch: batch.index,
        reinit_prob=config.sampler.reinit_prob,
        **shared,
    )


def model_of(
    config: Config, image_shape: tuple[int, ...]
) -> tuple[latent.LatentModel, Callable[[jax.Array], latent.LatentParams]]:
    """Returns the model of ``config.model`` and ``key -> initial parameters``.

    Raises:
      ConfigError: if the user's networks do not have the shapes of latents and images.
    """
    section, z, image_shape = config.model, jnp.zeros(config.model.latent_dim), tuple(image_shape)
    if section.factory:
        given = {"latent_dim": section.latent_dim, "num_classes": config.data.num_classes}
        specs = ("energies", (z,), ()), ("images", (z,), image_shape)
        energy, generator = user_networks(config, {**given, "image_shape": image_shape}, *specs)
    else:
        dtype, features = jnp.dtype(section.dtype), section.generator_features
        kernel_init = getattr(nn.initializers, section.generator_init)()
        shared: dict[str, Any] = {"kernel_init": kernel_init, "dtype": dtype}
        if section.get("prior") == "univariate":
            energy = networks.UnivariateEnergy(section.prior_components)
        else:
            energy = networks.LatentEnergy(
                section.prior_hidden, common.ACTIVATIONS[section.prior_activation], dtype
            )
        generator: Any = networks.ConvGenerator(
            features=widths(max(image_shape[:2])) if features is None else features,
            channels=image_shape[-1],
            image_size=(image_shape[0], image_shape[1]),
            **shared,
        )
        if section.generator == "dense":
            generator = networks.DenseGenerator(features or (512, 512), image_shape, **shared)

    def init(key: jax.Array) -> latent.LatentParams:
        energy_key, generator_key = jax.random.split(key)
        return latent.LatentParams(energy.init(energy_key, z), generator.init(generator_key, z))

    model = latent.LatentModel(
        energy_fn=energy.apply,
        generator_fn=generator.apply,
        likelihood_scale=section.likelihood_scale,
        draw_prior_fn=energy.sample if isinstance(energy, networks.UnivariateEnergy) else None,
    )
    # Eagerly every layer would be compiled, and applied, on its own.
    return model, jax.jit(init)


def widths(side: int) -> tuple[int, ...]:
    """Returns the generator's channels for images of ``side`` pixels.

    64 in the last stage and twice as many in each before it; the first stage has 4 to 8 pixels.
    """
    num_stages = max((side // 4).bit_length() - 1, 0)
    return tuple(64 * 2**stage for stage in reversed(range(num_stages)))


def make_optimizer(
    config: Config, steps_per_epoch: int, numbers: Mapping[str, Any]
) -> optax.GradientTransformation:
    """Returns an optimiser for each network, and the average of both's parameters.

    Rates decay after each epoch from the second on, down to a floor. A rate that starts below the
    floor stays.
    """
    decay = config.optimizer.decay_per_epoch

    def make(name: str) -> optax.GradientTransformation:
        first, last = numbers[name]["learning_rate"], numbers[name]["final_learning_rate"]
        schedule = optax.exponential_decay(
            first,
            # Without decay there is no end; optax would take it for a ceiling.
            end_value=jnp.minimum(first, last) if decay < 1.0 else None,
            transition_steps=steps_per_epoch,
            decay_rate=decay,
            transition_begin=steps_per_epoch,
            staircase=True,
        )
        if is_users(config.get("optimizer.name")):
            return common.user_optimizer(config, schedule)
        return optax.adam(schedule, b1=0.5, b2=0.999)

    labels = latent.LatentParams(*PARTS)
    of_both = optax.multi_transform({name: make(name) for name in PARTS}, labels)
    average = config.optimizer.average_decay
    return optax.chain(of_both, average_parameters(average)) if average else of_both
