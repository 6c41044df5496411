"""Objectives that configurations name: their signatures are their fields.

Those with ``negatives`` compare the data with samples of chains. The others need no chains.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ebmjax import data, losses, samplers
from ebmjax._ranges import (
    BELOW_ONE,
    COUNT,
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    WHOLE,
    one_of,
    one_of_or_function,
    optional,
)
from ebmjax._stored import take_rows
from ebmjax.learning import Density, Samples
from ebmjax.recipes.config.declare import Field, field, read_fields, under, when_is
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.config.user_parts import find_function, find_part, is_users
from ebmjax.types import Key, Metrics


def contrastive_divergence(
    key: Key, model: Density, batch: Samples, negatives: Samples
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.contrastive_divergence_loss``: the data's log density up, samples' down."""
    return losses.contrastive_divergence_loss(-batch.log_density, -negatives.log_density)


def improved(
    key: Key,
    model: Density,
    batch: Samples,
    negatives: Samples,
    *,
    kl_weight: Annotated[Any, NOT_NEGATIVE] = 1.0,
    entropy_weight: Annotated[Any, NOT_NEGATIVE] = 0.3 / 64,
    live_steps: Annotated[int, COUNT] = 1,
    num_references: Annotated[int, COUNT] = 100,
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.improved_contrastive_divergence_loss``, for negatives of live chains.

    Args:
      kl_weight: weight of the KL term
      entropy_weight: weight of the entropy of the negatives
      live_steps: last steps that are differentiated
      num_references: buffered images among which neighbours are sought
    """
    return losses.improved_contrastive_divergence_loss(
        -batch.log_density,
        -negatives.log_density,
        -negatives.live,
        negatives.entropy,
        kl_weight=kl_weight,
        entropy_weight=entropy_weight,
    )


def beta(
    key: Key,
    model: Density,
    batch: Samples,
    negatives: Samples,
    *,
    step: Any = 0,
    total_steps: int = 0,
    beta: Annotated[Any, BELOW_ONE] = 0.0,
    beta_start: Annotated[Any, optional(BELOW_ONE)] = None,
    beta_variant: Annotated[
        str, one_of("default", "no_positive", "batch_corrected", "true_objective")
    ] = "default",
    output_scale: Annotated[Any, POSITIVE] = 1.0,
    max_positive_weight: Annotated[Any, optional(PROBABILITY)] = None,
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.beta_objective_loss``: samples count by their density to the power of beta.

    Args:
      beta: exponent of the robust objective, at the end of the run
      beta_start: beta at the start, linear to loss.beta; None: constant
      beta_variant: form of the robust objective
      output_scale: factor on the log density inside the robust objective
      max_positive_weight: updates whose data have a larger mean weight are skipped; None: none are
    """
    exponent = chains_beta({"beta": beta, "beta_start": beta_start, "step": step}, total_steps)
    value, metrics = losses.beta_objective_loss(
        batch.log_density,
        negatives.log_density,
        beta=exponent,
        variant=beta_variant,
        output_scale=output_scale,
        allow_negative=True,
    )
    return value, {**metrics, "beta": jnp.float32(exponent)}


def chains_beta(fields: Mapping[str, Any], total_steps: int) -> Any:
    """Returns the share of the density that chains lack at a step, or at the end of the run.

    ``fields`` are those of an objective and "step"; it is 0 unless they have a beta.
    """
    if fields.get("beta_start") is None:
        return fields.get("beta", 0.0)
    step = fields.get("step", total_steps)
    return optax.linear_schedule(fields["beta_start"], fields["beta"], total_steps)(step)


def svgd(
    key: Key,
    model: Density,
    batch: Samples,
    negatives: Samples,
    *,
    smoothing: Any,
    svgd_variant: Annotated[str, one_of("corrected", "literal")] = "corrected",
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.svgd_generative_loss``, of SVGD-in-JEM.

    Args:
      svgd_variant: form of the loss of SVGD
    """
    return losses.svgd_generative_loss(
        batch.f, negatives.f, smoothing=smoothing, variant=svgd_variant
    )


def dat(key: Key, model: Density, batch: Samples, negatives: Samples) -> tuple[jax.Array, Metrics]:
    """Returns the binary cross-entropy that tells data from samples by f: a discriminator's loss.

    Beside it stands the cross-entropy of attacked images. In the paper chains are attacks: steps of
    one length up the label's logit, from images of other data, more of them as training goes on.
    Here they are those of ``config.sampler``.

    Source: Yin et al. 2025 (arXiv 2510.13872), and its code.
    """
    loss, metrics = losses.noise_contrastive_loss(batch.log_density, negatives.log_density)
    return loss / (1.0 + len(negatives.log_density) / len(batch.log_density)), metrics


def eb_jdat(
    key: Key,
    model: Density,
    batch: Samples,
    negatives: Samples,
    *,
    adversarial_weight: Annotated[Any, NOT_NEGATIVE] = 0.1,
) -> tuple[jax.Array, Metrics]:
    """Returns contrastive divergence, and the weighted gap from attacked images to the data.

    With cross-entropy of attacked images x' it is -log p(y | x') - weight log p(x' | x) - log p(x).
    The data stand for the normaliser of p(x' | x) in the ball around x: log p(x' | x) has the
    gradient of f(x') - f(x).

    Args:
      adversarial_weight: weight of -log p(x' | x) of attacked images; 0: JEM, attacked

    Source: Jiang et al. 2025 (arXiv 2505.19459), derived anew, see docs/robustness.md.
    """
    loss, metrics = contrastive_divergence(key, model, batch, negatives)
    gap, _ = losses.contrastive_divergence_loss(-batch.attacked, -batch.log_density)
    return loss + adversarial_weight * gap, {**metrics, "adversarial_gap": gap}


def denoising(
    key: Key, model: Density, batch: Samples, *, noise_scale: Annotated[Any, POSITIVE] = 0.3
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.denoising_score_matching_loss``.

    Args:
      noise_scale: noise at which scores are matched, in units of the data
    """
    noise = jax.random.normal(key, batch.x.shape, batch.x.dtype)
    # Log densities of the rows are independent, so the gradient of their sum has every score.
    score = jax.grad(lambda x: jnp.sum(model(x)))(batch.x + noise_scale * noise)
    return losses.denoising_score_matching_loss(score, noise, noise_scale=noise_scale)


def _across(values: jax.Array, x: jax.Array) -> jax.Array:
    """Returns ``values`` (N,) or a scalar, shaped to multiply examples ``x`` (N, ...)."""
    return values.reshape(-1, *[1] * (x.ndim - 1))


def score_matching(
    key: Key, model: Density, batch: Samples, *, num_slices: Annotated[int, WHOLE] = 1
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.score_matching_loss``.

    Args:
      num_slices: random directions of each example; 0: exact, along every coordinate
    """
    x = batch.x
    score, slope_along = jax.linearize(jax.grad(lambda x: jnp.sum(model(x))), x)

    def along(direction: jax.Array) -> jax.Array:
        direction = jnp.broadcast_to(direction, x.shape)
        return jnp.sum((direction * slope_along(direction)).reshape(len(x), -1), axis=1)

    if num_slices:
        directions = jax.random.rademacher(key, (num_slices, *x.shape), x.dtype)
        return losses.score_matching_loss(score, jnp.mean(jax.lax.map(along, directions), axis=0))
    units = jnp.eye(x[0].size, dtype=x.dtype).reshape(-1, 1, *x.shape[1:])
    return losses.score_matching_loss(score, jnp.sum(jax.lax.map(along, units), axis=0))


def energy_discrepancy(
    key: Key,
    model: Density,
    batch: Samples,
    *,
    noise_scale: Annotated[Any, POSITIVE] = 0.3,
    num_copies: Annotated[int, COUNT] = 16,
    stabiliser: Annotated[Any, NOT_NEGATIVE] = 1.0,
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.energy_discrepancy_loss``; t is ``noise_scale``^2.

    Args:
      noise_scale: sqrt(t): each of two noises of a copy, in units of the data
      num_copies: perturbed copies of each example
      stabiliser: w: weight of the example itself
    """
    x = batch.x
    centre_key, copy_key = jax.random.split(key)
    moved = x + noise_scale * jax.random.normal(centre_key, x.shape, x.dtype)
    shape = (num_copies, *x.shape)
    copies = moved[None] + noise_scale * jax.random.normal(copy_key, shape, x.dtype)
    return losses.energy_discrepancy_loss(
        -model(x), -jax.vmap(model)(copies).T, stabiliser=stabiliser
    )


def noise_contrastive(
    key: Key,
    model: Density,
    batch: Samples,
    *,
    fitted: samplers.FactorGaussian,
    noise_ratio: Annotated[int, COUNT] = 1,
    noise_scale: Annotated[float, POSITIVE] = 0.1,
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.noise_contrastive_loss``.

    The model's own constant is what is learned of the partition function.

    Args:
      noise_ratio: draws of the noise for each example
      noise_scale: what blurs the Gaussian of the data that the noise is
    """
    x = batch.x
    white = jax.random.normal(key, (noise_ratio * len(x), fitted.mean.size))
    noise = jax.vmap(fitted.place)(white).reshape(-1, *x.shape[1:]).astype(x.dtype)

    def log_noise(x: jax.Array) -> jax.Array:
        squares = jnp.square(jax.vmap(fitted.coordinates_of)(x.reshape(len(x), -1)))
        constant = fitted.log_volume() + 0.5 * fitted.mean.size * np.log(2 * np.pi)
        return -0.5 * jnp.sum(squares, axis=1) - constant

    return losses.noise_contrastive_loss(*(model(some) - log_noise(some) for some in (x, noise)))


def energy_matching(
    key: Key,
    model: Density,
    batch: Samples,
    *,
    step: Any,
    total_steps: int,
    warmup: Annotated[Any, PROBABILITY] = 0.5,
    temperature: Annotated[Any, POSITIVE] = 0.1,
    ramp_start: Annotated[Any, FRACTION] = 0.8,
    contrastive_weight: Annotated[Any, NOT_NEGATIVE] = 1.0,
    num_steps: Annotated[int, COUNT] = 100,
    step_size: Annotated[Any, POSITIVE] = 0.02,
) -> tuple[jax.Array, Metrics]:
    """Returns the loss, see ``losses.energy_matching_loss``.

    The potential is V = temperature E, so that exp(-E) is the density of chains at the temperature.
    From time t the weight of paths falls, and the temperature of chains from noise rises, linearly
    to time 1. Each half of the chains starts from the data, or from noise. Pairs are matched within
    a shard.

    Args:
      warmup: share of the run's steps before contrastive divergence begins
      temperature: temperature of the density that chains follow
      ramp_start: time from which paths fade and chains warm up
      contrastive_weight: weight of contrastive divergence beside the paths
      num_steps: steps of a training chain
      step_size: time of a step; noise reaches the data at time 1
    """
    x, is_second = batch.x, step >= jnp.round(warmup * total_steps)
    noise_key, time_key, start_key, chain_key = jax.random.split(key, 4)
    noise = jax.random.normal(noise_key, x.shape, x.dtype)
    displacement = losses.match_pairs(noise, x) - noise
    time = jax.random.uniform(time_key, (len(x),))
    between = noise + _across(time, x).astype(x.dtype) * displacement
    from_data = jnp.arange(len(x)) < len(x) // 2
    starts = jnp.where(_across(from_data, x), x, jax.random.normal(start_key, x.shape, x.dtype))

    def rise(time: Any) -> jax.Array:
        return jnp.clip((time - ramp_start) / (1.0 - ramp_start), 0.0, 1.0)

    def move(number: jax.Array, x: jax.Array) -> jax.Array:
        warmth = jnp.where(from_data, 1.0, rise(number * step_size))
        scale = jnp.sqrt(2.0 * step_size * temperature * warmth)
        noise = jax.random.normal(jax.random.fold_in(chain_key, number), x.shape, x.dtype)
        score = jax.grad(lambda x: jnp.sum(model.constant(x)))(x)
        return (x + step_size * temperature * score + _across(scale, x) * noise).astype(x.dtype)

    negative = jax.lax.fori_loop(0, jnp.where(is_second, num_steps, 0), move, starts)
    score = temperature * jax.grad(lambda x: jnp.sum(model(x)))(between)
    weights = jnp.where(is_second, 1.0 - rise(time), 1.0)
    paths, metrics = losses.energy_matching_loss(score, displacement, weights=weights)
    contrast, energies = losses.contrastive_divergence_loss(-model(x), -model(negative))
    weight = jnp.where(is_second, contrastive_weight, 0.0) * temperature / x[0].size
    return paths + weight * contrast, {**energies, **metrics}


def equilibrium_matching(
    key: Key,
    model: Density,
    batch: Samples,
    *,
    decay_start: Annotated[Any, FRACTION] = 0.8,
    peak: Annotated[Any, POSITIVE] = 4.0,
) -> tuple[jax.Array, Metrics]:
    """Returns ``losses.equilibrium_matching_loss``, of one time an example, uniform in [0, 1].

    Args:
      decay_start: time from which the slope falls to 0 at the data
      peak: slope before, in units of the distance from noise to data
    """
    x = batch.x
    noise_key, time_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, x.shape, x.dtype)
    time = jax.random.uniform(time_key, (len(x),))
    between = noise + _across(time, x).astype(x.dtype) * (x - noise)
    score = jax.grad(lambda x: jnp.sum(model(x)))(between)
    options = {"decay_start": decay_start, "peak": peak}
    return losses.equilibrium_matching_loss(score, x - noise, time, **options)


OF_SCORES = (denoising, score_matching, energy_matching, equilibrium_matching)
"""Objectives whose losses hold gradients of the energy, which training differentiates again."""
OF_CHAINS = (contrastive_divergence, improved, beta, svgd, dat, eb_jdat)
OTHERS = (energy_discrepancy, noise_contrastive)
OBJECTIVES: dict[str, Any] = {one.__name__: one for one in (*OF_CHAINS, *OF_SCORES, *OTHERS)}
"""Functions ``(key, model, batch, negatives, *, FIELD=DEFAULT, ...) -> (loss, metrics)``, by name.

Those without ``negatives`` need no chains; theirs are the fields ``loss.<name>.<field>``, and those
of the others ``loss.<field>``."""

WITHOUT_DENSITY = ("equilibrium_matching", "dat")
"""Objectives whose best energy is no -log p of the data."""

MODELS = {"improved": "energy", "svgd": "joint", "dat": "joint", "eb_jdat": "joint"}
"""Objectives of one kind of model alone."""


def draws(name: str) -> bool:
    """Returns whether an objective, ours or the user's, compares the data with chains' samples."""
    function = find_function("loss.name", name) if is_users(name) else OBJECTIVES[name]
    return "negatives" in inspect.signature(function).parameters


def fields(model: str, text: str = "objective") -> dict[str, Field]:
    """Returns ``loss.name`` and the fields of objectives of a model, "energy" or "joint"."""
    names = [name for name in OBJECTIVES if MODELS.get(name, model) == model]
    made = {"loss.name": field(names[0], one_of_or_function(*names), text)}
    for name in names:
        section = "loss" if draws(name) else f"loss.{name}"
        own = {f"{section}.{key}": one for key, one in read_fields(OBJECTIVES[name]).items()}
        made |= under(own, when_is("loss.name", name))
    return made


def warn_of_objective(config: Config) -> tuple[str, ...]:
    """Returns lines if the objective of ``config.loss`` wants a smooth network, or has no log p."""
    name, activation, lines = config.loss.name, config.model.get("activation", ""), []
    is_concerned = OBJECTIVES.get(name) in OF_SCORES and not config.model.get("factory")
    if is_concerned and "relu" in activation:
        lines.append(
            f"warning: config.loss.name={name} needs second derivatives, of which "
            f"config.model.activation={activation} has none: set --config.model.activation=swish"
        )
    if name in WITHOUT_DENSITY:
        lines.append(
            f"warning: config.loss.name={name} trains no -log p: nats say nothing of the data"
        )
    return tuple(lines)


def make_loss(
    config: Config, train: data.ImageData, total_steps: int = 0
) -> tuple[Callable[..., tuple[jax.Array, Metrics]], dict[str, Any]]:
    """Returns the loss of ``config.loss``, and its numbers, see ``learning.Objective``.

    An objective of ours is given its fields, and those of "smoothing", "step", "total_steps" and
    "fitted", a Gaussian of the data, that it takes.

    With chains it has the penalty on the network's squared log densities, whatever the smoothing:
    where that adapts, the weight of the penalty stays.
    """
    name, fields = config.loss.name, dict(config.loss)
    objective = _users(config) if is_users(name) else OBJECTIVES[name]
    if not draws(name):
        fields |= fields.get(name, {})
    taken = () if is_users(name) else inspect.signature(objective).parameters
    numbers = {key: fields[key] for key in (*taken, "energy_l2", "max_gap") if key in fields}
    if "fitted" in taken:
        numbers["fitted"] = _fit_noise(config, train)

    def loss(
        key: Key, model: Density, batch: Samples, negatives: Samples | None, numbers: Any
    ) -> tuple[jax.Array, Metrics]:
        given = {**numbers, "total_steps": total_steps}
        options = {name: given[name] for name in taken if name in given}
        drawn = () if negatives is None else (negatives,)
        value, metrics = objective(key, model, batch, *drawn, **options)
        if negatives is None:
            return value, metrics
        positive, negative = -jnp.mean(batch.f), -jnp.mean(negatives.f)
        if numbers["max_gap"] is not None:
            # 1 where data and samples have equal energies, 0 from the largest gap on.
            fade = jnp.clip(1.0 - (negative - positive) / numbers["max_gap"], 0.0, 1.0)
            value *= jax.lax.stop_gradient(fade)
        penalty = losses.energy_penalty(numbers["energy_l2"], batch.f, negatives.f)
        return value + penalty, {
            **metrics,
            "positive_energy": positive,
            "negative_energy": negative,
            "energy_gap": negative - positive,
            "energy_l2": penalty,
        }

    return loss, numbers


def _users(config: Config) -> Callable[..., tuple[jax.Array, Metrics]]:
    """Returns the user's function of (key, model, batch) and perhaps negatives."""
    first = ("key", "model", "batch")
    part = find_part(config, "loss.name", config.loss.name, first, ("negatives",))
    must = "return a loss, a floating-point scalar, or (loss, metrics), a dict of scalars beside it"

    def loss(*given: Any) -> tuple[jax.Array, Metrics]:
        found: Any = part.call(*given, **part.options)
        value: Any
        value, metrics = found if isinstance(found, tuple) and len(found) == 2 else (found, {})
        is_real = hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.floating)
        types = f"a {type(value).__name__} and a {type(metrics).__name__}"
        part.hold(is_real and isinstance(metrics, Mapping), must, types)
        shapes = {key: jnp.shape(one) for key, one in {"loss": value, **metrics}.items()}
        wrong = ", ".join(f"{key!r} of shape {shape}" for key, shape in shapes.items() if shape)
        part.hold(not wrong, must, wrong)
        return value, dict(metrics)

    return loss


def _fit_noise(config: Config, train: data.ImageData) -> samplers.FactorGaussian:
    """Returns the blurred Gaussian of the first training examples, for ``noise_contrastive``."""
    rows = take_rows(train.images, slice(4000))
    x = np.asarray(data.to_signed_unit(jnp.asarray(rows)) if rows.dtype == np.uint8 else rows)
    x = x.reshape(len(x), -1).astype(np.float64)
    jitter = config.loss.noise_contrastive.noise_scale**2
    return samplers.fit_factor_gaussian(x, jitter=jitter).one(0)
