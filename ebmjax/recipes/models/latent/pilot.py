"""Pilot run that places the powers of a latent EBM run."""

import time
from typing import NamedTuple

import jax
import optax

from ebmjax import latent
from ebmjax._phases import phase
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.latent import parts
from ebmjax.training import Plan, fit, init_state, make_train_step

IMAGES = 200


class Pilot(NamedTuple):
    """Result of a pilot run.

    Attributes:
      powers: (pilot_intervals + 1,), powers where it measured.
      mean_log_likelihoods: E_t there, in nats.
      seconds: time of training and measuring.
    """

    powers: jax.Array
    mean_log_likelihoods: jax.Array
    seconds: common.Seconds


def run(
    config: Config,
    model: latent.LatentModel,
    params: latent.LatentParams,
    optimizer: optax.GradientTransformation,
    chains: latent.LatentChains,
    examples: parts.Examples,
    law: jax.Array,
) -> Pilot:
    """Trains ``config.loss.pilot_epochs`` along the powers ``law`` and measures E_t.

    Its chains start afresh and are as long as training's. It uses only ``config.seed``, whatever
    the number of repeats, and one device, so that the powers do not depend on devices.

    Raises:
      DivergenceError: as training.
    """
    started = time.perf_counter()
    _, train_key, eval_key = common.root_keys(config)
    total_steps = config.loss.pilot_epochs * (len(examples.index) // config.train.batch_size)
    with phase(f"pilot of {config.loss.pilot_epochs} epochs, which places the powers"):
        result = fit(
            train_key,
            init_state(params, optimizer),
            make_train_step(
                parts.gradient_fn(config, model, chains, law),
                optimizer,
                max_abs_loss=config.train.max_abs_loss,
            ),
            examples,
            Plan(
                total_steps=total_steps,
                batch_size=config.train.batch_size,
                num_shards=config.mesh.num_shards,
                steps_per_dispatch=min(config.train.steps_per_dispatch, total_steps),
                log_every=total_steps,
                max_consecutive_skips=config.train.max_consecutive_skips,
                data_seed=config.seed,
            ),
            devices=jax.local_devices()[:1],
            placement=common.placement(config),
            signals=False,
        )
    powers = latent.power_schedule(config.loss.pilot_intervals, config.loss.exponent)
    trained = jax.device_get(result.state.params)
    observations = parts.observe(jax.tree.map(lambda leaf: leaf[:IMAGES], examples))

    @jax.jit
    def measure(key: jax.Array, params: latent.LatentParams) -> jax.Array:
        samples, _ = latent.sample_ladder(key, params, model, observations, powers, chains)
        _, along = latent.telescoped_loss(params, model, observations, *samples, powers)
        return along["mean_log_likelihoods"]

    before = time.perf_counter()
    compiled = measure.lower(eval_key, trained).compile()
    compile_seconds = result.compile_seconds + time.perf_counter() - before
    means = jax.block_until_ready(compiled(eval_key, trained))
    seconds = common.Seconds(time.perf_counter() - started, compile_seconds)
    return Pilot(powers, means, seconds)
