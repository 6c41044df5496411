"""Robust objective in the plane: one model for each beta, trained in one program."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ebmjax import data, losses, networks
from ebmjax._numbers import as_arguments
from ebmjax.densities import from_energy, tempered
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.plane import beta_plots, own_points
from ebmjax.recipes.models.plane.beta_bias import Parts
from ebmjax.recipes.models.plane.beta_monitor import BetaMonitor
from ebmjax.recipes.models.plane.numbers import nearest_mode
from ebmjax.recipes.models.plane.samplers_chains import mean_acceptance, run_from
from ebmjax.recipes.parts.samplers import PLAIN, of_shared
from ebmjax.training import TrainState, init_state, make_train_step, state_axes
from ebmjax.types import Key, LogDensityFn, Metrics, PyTree


class ToyData(NamedTuple):
    """Data: ``points(key, num) -> (num, 2)`` and their normalised log density at one position."""

    points: Callable[[Key, int], jax.Array]
    log_density_fn: LogDensityFn


def _toy(
    points: Callable[..., jax.Array], density: Callable[..., jax.Array], **law: Any
) -> ToyData:
    return ToyData(partial(points, **law), partial(density, **law))


MEANS = data.circle_means(8)
RADII = jnp.arange(1.0, 5.0)

# Nijkamp et al. 2020; the robust paper does not give its weights.
DATA = {
    "gmm": _toy(
        data.gaussian_mixture_points,
        data.gaussian_mixture_log_density,
        means=MEANS,
        scale=0.15,
        weights=jnp.arange(1.0, 9.0),
    ),
    "circles": _toy(data.ring_points, data.ring_log_density, radii=RADII, scale=0.15),
}


def _ring(positions: np.ndarray) -> np.ndarray:
    """Returns (n,): the circle nearest to each of ``positions`` (n, 2)."""
    distances = np.linalg.norm(positions, axis=-1)
    return np.argmin(np.abs(distances[:, None] - np.asarray(RADII)), axis=-1)


# Each mode or circle takes the positions nearest to it.
PARTS = {
    "gmm": Parts(len(MEANS), partial(nearest_mode, means=np.asarray(MEANS))),
    "circles": Parts(len(RADII), _ring),
}


class Models(NamedTuple):
    """Counts of each beta's model, (1, betas), one shard."""

    skipped: jax.Array
    consecutive_skipped: jax.Array


def build(config: Config, workdir: Path) -> common.Experiment:
    """The experiment of ``config`` (see ``plane/fields.py`` for the fields)."""
    toy, parts, num_points, about = truth(config)
    params_key, _, further_key = common.root_keys(config)
    points_key, eval_key = jax.random.split(further_key)
    points = toy.points(points_key, num_points)
    plan = common.plan(config, len(points))
    energy_fn, params = network(config, params_key)
    optimizer = adam(config, plan.total_steps)
    step_one = make_train_step(
        partial(learn, config, energy_fn),
        optimizer,
        max_abs_loss=config.train.max_abs_loss,
        axis_name=None,
    )
    monitor = BetaMonitor(
        workdir=workdir,
        key=eval_key,
        energy_fn=energy_fn,
        toy=toy,
        parts=parts,
        short_chains=partial(short_chains, config),
        long_chains=partial(long_chains, config),
        config=config,
    )
    monitor.check()
    return common.Experiment(
        state=stacked(init_state(params, optimizer), len(config.loss.betas)),
        train_step=partial(train_step, step_one, partial(betas_at, config, plan.total_steps)),
        data=points,
        plan=plan,
        monitor=monitor,
        draw=partial(beta_plots.draw, workdir, config),
        evaluate=monitor.evaluate,
        use=monitor.use,
        about_data=about,
    )


def truth(config: Config) -> tuple[ToyData, Parts, int, tuple[str, ...]]:
    """Returns the data, their modes or circles, how many are learnt from, and lines about them."""
    if config.data.name != "npy":
        return DATA[config.data.name], PARTS[config.data.name], config.data.num_points, ()
    own = own_points.own_points(config)
    one_part = Parts(1, lambda positions: np.zeros(len(positions), np.int64))
    num = min(config.data.num_points, own.num)
    return ToyData(own.points, own.log_density_fn), one_part, num, own_points.about(config, own.num)


def network(config: Config, key: Key) -> tuple[Callable[..., jax.Array], PyTree]:
    """Returns ``energy_fn(params, positions)``, in 1 / ``loss.output_scale``, and params."""
    activation = common.ACTIVATIONS[config.model.activation]
    energy = networks.MLPEnergy(hidden=config.model.hidden, activation=activation)
    return energy.apply, jax.jit(energy.init)(key, jnp.zeros(2))  # pyright: ignore[reportReturnType]


def adam(config: Config, total_steps: int) -> optax.GradientTransformation:
    """Returns Adam with a rate that decays geometrically over the run, to a tenth."""
    section = config.optimizer
    numbers = as_arguments({"init_value": section.learning_rate})

    def rate(count: Any) -> Any:
        schedule = optax.exponential_decay(
            **numbers(), transition_steps=total_steps, decay_rate=0.1
        )
        return schedule(count)

    return optax.adam(rate)


def betas_at(config: Config, total_steps: int, step: jax.Array) -> jax.Array:
    """Returns every model's beta at ``step``: constant, or linear from ``loss.beta_start``."""
    last = jnp.asarray(config.loss.betas, jnp.float32)
    if config.loss.beta_start is None:
        return last
    return config.loss.beta_start + (last - config.loss.beta_start) * step / total_steps


def stacked(state: TrainState, num_models: int) -> TrainState:
    """Returns ``state`` for several models with equal starts; counters are common."""
    params, opt_state = jax.tree.map(
        lambda leaf: jnp.repeat(leaf[None], num_models, axis=0), (state.params, state.opt_state)
    )
    none = jnp.zeros((1, num_models), jnp.int32)
    return state._replace(params=params, opt_state=opt_state, carry=Models(none, none.copy()))


def train_step(
    step_one: Callable[..., Any],
    betas_fn: Callable[[jax.Array], jax.Array],
    key: Key,
    state: TrainState,
    batch: PyTree,
) -> tuple[TrainState, Metrics]:
    """Steps every model on the same batch with the same key: only beta differs.

    A model whose update is not finite keeps its parameters; the others go on. The run skips a step
    if every model skips it.
    """
    axes = state_axes(0, 0)._replace(step=None)
    betas = betas_fn(state.step)
    counts = jax.tree.map(lambda leaf: leaf[0], state.carry)
    models = state._replace(
        carry=betas[:, None],
        skipped=counts.skipped,
        consecutive_skipped=counts.consecutive_skipped,
    )
    models, metrics = jax.vmap(step_one, in_axes=(None, axes, None), out_axes=(axes, 0))(
        key, models, batch
    )
    counts = Models(models.skipped[None], models.consecutive_skipped[None])
    consecutive = jnp.min(models.consecutive_skipped)
    skipped = state.skipped + (consecutive > 0)
    state = models._replace(carry=counts, skipped=skipped, consecutive_skipped=consecutive)
    return state, {
        **metrics,
        "beta": betas,
        "losses": metrics["loss"],
        "loss": jnp.mean(metrics["loss"]),
        "skipped_by_model": metrics["skipped"],
        "skipped": skipped,
        "consecutive_skipped": consecutive,
    }


def learn(
    config: Config,
    energy_fn: Callable[..., jax.Array],
    key: Key,
    params: PyTree,
    beta: jax.Array,
    positives: jax.Array,
) -> tuple[PyTree, jax.Array, Metrics]:
    """Computes one model's gradients, as a ``GradientFn``: short chains, then the objective."""
    output_scale = config.loss.output_scale
    temperature = losses.beta_sampling_temperature(beta, output_scale=output_scale)
    density = tempered(from_energy(partial(energy_fn, params)), temperature)
    negatives, chains = short_chains(config, key, density, config.sampler.num_samples)

    def loss_fn(params: PyTree) -> tuple[jax.Array, Metrics]:
        return losses.beta_objective_loss(
            -energy_fn(params, positives),
            -energy_fn(params, negatives),
            beta=beta,
            variant=config.loss.beta_variant,
            output_scale=output_scale,
        )

    (loss, metrics), gradients = jax.value_and_grad(loss_fn, has_aux=True)(params)
    return gradients, beta, {"loss": loss, **metrics, **chains}


def short_chains(
    config: Config, key: Key, log_density_fn: LogDensityFn, num: int
) -> tuple[jax.Array, Metrics]:
    """Returns ends of ``num`` chains of the run's sampler from its initial law, and reports."""
    if config.sampler.num_steps == 0:
        return _starts(config, key, num)[0], {}
    ends, _, infos = _run(config, key, log_density_fn, num, config.sampler.num_steps)
    return ends, mean_acceptance(infos)


def long_chains(config: Config, key: Key, log_density_fn: LogDensityFn, num: int) -> jax.Array:
    """Returns about ``num`` draws (draws, 2) of long chains with training's starts and steps.

    Every chain gives ten, from steps 2,100 to 3,000; all chains' first draws come first.
    """
    _, draws, _ = _run(config, key, log_density_fn, -(-num // 10), 3000, burn_in=2000, thinning=100)
    return jnp.swapaxes(draws, 0, 1).reshape(-1, 2)


def _starts(config: Config, key: Key, num: int) -> tuple[jax.Array, Key]:
    """Returns (num, 2) draws of the initial law, and the next key."""
    start_key, chain_key = jax.random.split(key)
    mean = jnp.asarray(config.sampler.start_mean, jnp.float32)[None]
    return mean + config.sampler.start_scale * jax.random.normal(start_key, (num, 2)), chain_key


def _run(
    config: Config,
    key: Key,
    log_density_fn: LogDensityFn,
    num: int,
    num_steps: int,
    **kept: int,
) -> tuple[jax.Array, jax.Array, PyTree]:
    """Returns ends of ``num`` chains, kept draws (chains, draws, 2), and ``run_chain``'s infos."""
    starts, chain_key = _starts(config, key, num)
    chosen = of_shared(config, "sampler", PLAIN)
    return run_from(chosen, config.sampler, chain_key, starts, log_density_fn, num_steps, **kept)
