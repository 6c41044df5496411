"""The parts of a density that its configuration names: the tables and what they make."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ebmjax import data, learning, metrics, networks, optim
from ebmjax._stored import rows_of
from ebmjax.recipes.config.errors import Config, ConfigError
from ebmjax.recipes.config.families import POINTS
from ebmjax.recipes.config.user_parts import is_users
from ebmjax.recipes.models.build import ACTIVATIONS, SHARD_AXES, user_optimizer
from ebmjax.recipes.models.energy import checks
from ebmjax.recipes.parts import start_distributions as starts
from ebmjax.recipes.parts.objectives import chains_beta, make_loss
from ebmjax.recipes.parts.samplers import BASE, chain_kind, temperature
from ebmjax.recipes.parts.user_networks import user_networks
from ebmjax.types import PyTree

NORM_POLICIES = {
    "default": networks.NormPolicy(),
    "running": networks.NormPolicy(
        positives="running", negatives="running", chains="running", updated_by=("classified",)
    ),
    "running_chains": networks.NormPolicy(chains="running"),
    "sada_jem": networks.SADA_JEM_POLICY,
}


def make_classifier(
    config: Config, image_shape: tuple[int, ...]
) -> tuple[Any, Callable[..., Any], Callable[..., jax.Array]]:
    """Returns the density of a classifier, our network or the user's, in three parts.

    They are the network as training takes it; the function from a key to parameters and
    statistics; and that from these and x (N, *shape) to log densities (N, classes).

    Raises:
      ConfigError: for whatever a network of the user does wrong.
    """
    model, num_classes = config.model, config.data.num_classes
    if model.factory:
        image = jnp.zeros(image_shape)
        given = {"num_classes": num_classes, "image_shape": tuple(image_shape)}
        spec = ("logits", (image,), (num_classes,))
        (classifier,) = user_networks(config, given, spec, has_state=True)
        _, state = jax.eval_shape(classifier.init, jax.random.key(0), image)
        if jax.tree.leaves(state) and config.loss.generative_weight > 0:
            checks.check_independence(config)
    else:
        ours = networks.WideResNet(
            depth=model.depth,
            widen_factor=model.widen_factor,
            num_classes=num_classes,
            norm=None if model.norm == "none" else model.norm,
            dtype=jnp.dtype(model.dtype),
        )
        classifier = networks.from_linen(ours)
    policy = NORM_POLICIES[model.get("norm_policy", "default")]
    network = learning.JointNetwork(classifier, None, policy, model.is_conditional)
    # Statistics are begun by a batch, whatever its images.
    init = lambda key: classifier.init(key, jnp.zeros((2, *image_shape)))  # noqa: E731
    return network, init, lambda *given: classifier.apply(*given)[0]


def make_energy(
    config: Config, shape: tuple[int, ...]
) -> tuple[Any, Callable[..., Any], Callable[..., jax.Array]]:
    """Returns the density of an energy E(x), or E(x, y), in the parts of ``make_classifier``.

    Raises:
      ConfigError: for whatever a network of the user does wrong.
    """
    model, labels = config.model, config.data.num_classes if config.model.is_conditional else None
    num_classes = labels or 1
    x = jnp.zeros(shape)
    example = (x, jnp.int32(0)) if model.is_conditional else (x,)
    if model.factory:
        given = {"num_classes": labels, "image_shape": x.shape}
        own: Any = user_networks(config, given, ("energies", example, ()))[0]
    elif config.data.name in POINTS:
        act, dtype = ACTIVATIONS[model.activation], jnp.dtype(model.dtype)
        own = networks.MLPEnergy(hidden=model.hidden, activation=act, dtype=dtype)
    else:
        own = networks.ResidualEnergy(
            features=model.features,
            depth=model.depth,
            num_classes=labels,
            num_scales=model.num_scales,
            spectral_norm=model.spectral_norm,
            activation=ACTIVATIONS[model.activation],
            dtype=jnp.dtype(model.dtype),
        )

    def energy_of(params: PyTree) -> Callable[..., jax.Array]:
        # Norms of kernels are computed once for all chains.
        folded, kept = own.fold(params) if hasattr(own, "fold") else (own, params)
        return lambda *inputs: folded.apply(kept, *inputs[: len(example)])

    def logits(params: PyTree, statistics: PyTree, x: jax.Array) -> jax.Array:
        energy = energy_of(params)
        of_label = lambda label: -energy(x, jnp.full(len(x), label))  # noqa: E731
        return jnp.stack([of_label(label) for label in range(num_classes)], axis=-1)

    network = learning.EnergyNetwork(energy_of, num_classes)
    return network, lambda key: (own.init(key, *example), ()), logits


def take_images(train: data.ImageData, number: int) -> data.ImageData:
    """Returns the first ``number`` training images of each class, or all of a smaller one."""
    labels = np.asarray(train.labels)
    first = [np.flatnonzero(labels == label)[:number] for label in np.unique(labels)]
    return data.ImageData(*(rows_of(array, np.concatenate(first)) for array in train))


def make_view(
    config: Config, is_augmented: bool = True, *, is_classified: bool = False
) -> learning.View:
    """Returns images of the data to what the network sees; points are seen as they are.

    With labels, dequantised images of p(x) have no other noise, and those of p(y | x) only that.
    """
    is_joint, section = config.family == "joint", config.data
    if not is_joint and section.name in POINTS:
        return lambda key, points: points
    names = ("crop", "flip", "level", "noise") if is_joint else ("flip", "level", "noise")
    is_rough = section.get("dequantise") and not is_classified

    def view(key: jax.Array, images: jax.Array) -> jax.Array:
        keys = dict(zip(names, jax.random.split(key, len(names)), strict=True))
        x = data.dequantise(keys["level"], images) if is_rough else data.to_signed_unit(images)
        if section.get("crop_padding") and is_augmented:
            x = data.reflect_pad_crop(keys["crop"], x, padding=section.crop_padding)
        if section.get("flip") and is_augmented:
            x = data.random_flip(keys["flip"], x)
        if section.noise_scale and not (is_joint and is_rough):
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
        noise = 2.0 * step_size * temperature(checks.find_samplers(config)["sgld"])
        box = {"low": chains.low, "high": chains.high} if chains.box != "none" else {}
        live = learning.LiveSteps(
            step_size=step_size,
            noise_scale=noise**0.5,
            num_steps=section.live_steps,
            num_references=section.num_references // config.mesh.num_shards,
            **box,
        )
    attack = None
    if "attack" in section:
        lengths = {"epsilon": section.attack.radius, "step_size": section.attack.step_size}
        lengths = {name: level and 2.0 * level / 255.0 for name, level in lengths.items()}
        fixed = {name: section.attack[name] for name in ("norm", "num_steps")}
        attack = partial(metrics.pgd_attack, **fixed, **lengths)
    weight = section.get("generative_weight", 1.0)
    loss, numbers = make_loss(config, train, total_steps) if weight else (None, {})
    return learning.Objective(
        loss=loss,
        numbers=numbers,
        generative_weight=weight,
        density_scale=lambda numbers: 1.0 - chains_beta(numbers, total_steps),
        attack=attack,
        live=live,
        rho=config.optimizer.get("rho"),
        is_adaptive=config.optimizer.get("adaptive", False),
        batch_axis=SHARD_AXES,
    )


def find_base(
    config: Config, train: data.ImageData, folder: Path
) -> tuple[starts.Base | None, tuple[str, ...]]:
    """Returns the density that the sampler tilts, or that images without classes start from.

    That of a run which has begun is in its folder. A line about it comes with it.
    """
    needs_base = any(one.entry.needs == BASE for one in checks.find_samplers(config).values())
    has_classes = config.family == "joint" or config.model.is_conditional
    if not needs_base and (has_classes or config.sampler.buffer.start != "informative"):
        return None, ()
    base, about = starts.read_base(folder) or starts.fit_base(train)
    return base, (about,)


def chain_plan(config: Config, train: data.ImageData, base: Any = None) -> learning.ChainPlan:
    """Returns the plan of negatives, whose sampler may tilt the ``base`` of ``find_base``."""
    section, buffer, num_shards = config.sampler, config.sampler.buffer, config.mesh.num_shards
    num_classes, num_kept = checks.count_blocks(config), buffer.get("num_kept")
    has_classes = config.family == "joint" or config.model.is_conditional
    is_informative = buffer.start == "informative"
    if has_classes and is_informative:
        missing = {*range(config.data.num_classes)} - {*np.asarray(train.labels).tolist()}
        if missing:
            raise ConfigError(
                "config.sampler.buffer.start=informative needs training images of every class, and "
                f"of class {min(missing)} none are left by config.data.holdout="
                f"{config.data.holdout} and config.data.max_train={config.data.max_train}: change "
                "these, or set it to uniform."
            )
    chosen, augment = checks.find_samplers(config), None
    options = dict(section.get("augmentation", {"name": "none"}))
    if options.pop("name") == "image":
        augment = partial(data.augment_starts, low=section.low, high=section.high, **options)
    density, log_q = base and base.density, None
    if density and any(one.entry.needs == BASE for one in chosen.values()):
        # The first sampler's temperature counts.
        heat = next(iter(chosen.values())).options["temperature"]
        log_q = partial(starts.log_base, density, heat)
    return learning.ChainPlan(
        kinds={n: chain_kind(one, section, density, SHARD_AXES) for n, one in chosen.items()},
        num_samples=section.num_samples // num_shards,
        start_fn=starts.make_start(buffer, train, base, is_conditional=config.model.is_conditional),
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
            return optax.exponential_decay(first, total_steps, section.final_fraction)(count)
        if name == "steps":
            value = first
            for epoch in section.decay_epochs:
                is_over = count >= int(epoch * steps_per_epoch)
                value = value * jnp.where(is_over, section.decay_factor, 1.0)
        else:
            value = optax.cosine_decay_schedule(first, total_steps)(count)
        return value * jnp.minimum(1.0, (count + 1) / max(section.warmup_steps, 1))

    made = []
    if section.get("max_norm") is not None:
        made.append(optax.clip_by_global_norm(section.max_norm))
    if section.get("weight_decay"):
        made.append(optax.add_decayed_weights(section.weight_decay))
    if is_users(section.name):
        made.append(user_optimizer(config, rate))
    elif section.name == "sgd":
        made.append(optax.sgd(rate, momentum=0.9))
    else:
        made.append(optax.adam(rate, b1=section.get("b1", 0.9), b2=section.get("b2", 0.999)))
    if section.average_decay:
        made.append(optim.average_parameters(section.average_decay))
    return optax.chain(*made)
