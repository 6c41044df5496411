"""Powers of a latent EBM run: a power law, or placed by a pilot run and kept."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ebmjax import latent
from ebmjax._phases import phase
from ebmjax._records import list_steps, read_json
from ebmjax.recipes.config.errors import Config, ConfigError, WorkdirError
from ebmjax.recipes.folder import workdir as folders
from ebmjax.recipes.models import build as common
from ebmjax.recipes.models.latent import parts
from ebmjax.training import Plan, fit, init_state, make_train_step

FILE = "schedule.json"
IMAGES = 200
"""Training images that the pilot run measures."""


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


class Schedule(NamedTuple):
    """Powers of a run.

    Attributes:
      powers: (num_intervals + 1,), from 0 to 1, for all repeats.
      pilot: time to place them; None for a power law.
    """

    powers: jax.Array
    pilot: common.Seconds | None = None


def schedule(config: Config, workdir: Path, pilot: Callable[[jax.Array], Pilot]) -> Schedule:
    """Returns the schedule of ``config.loss``.

    "adaptive" gives each interval an equal share of the thermodynamic length that a pilot run
    finds. The run's folder keeps the result, which a continued or evaluated run reads.

    Args:
      config: the run's configuration, as it was given; the folder keeps it.
      workdir: the run's folder; made if there is a pilot's result to keep.
      pilot: function from the power law of ``config.loss`` to a pilot's mean log likelihoods.

    Raises:
      ConfigError: if the pilot's mean log likelihoods place no powers.
      WorkdirError: if the folder holds a schedule of another run.
    """
    num_intervals = config.loss.num_intervals
    law = latent.power_schedule(num_intervals, config.loss.exponent)
    if config.loss.get("schedule", "power") == "power":
        return Schedule(law)
    path = workdir / FILE
    if path.exists():
        return _read(path, num_intervals)
    if list_steps(workdir / "checkpoints"):  # whoever reads a run writes nothing in its folder
        raise _no_schedule(path, num_intervals, "it is missing")
    found = pilot(law)
    powers = _place(found, num_intervals)
    if not (workdir / "config.json").exists():
        folders.prepare(workdir, config)
    kept = {
        "powers": powers.tolist(),
        "pilot_powers": found.powers.tolist(),
        "pilot_mean_log_likelihoods": found.mean_log_likelihoods.tolist(),
        "pilot_seconds": found.seconds._asdict(),
    }
    folders.write_json(path, kept)
    return Schedule(powers, found.seconds)


def _place(found: Pilot, num_intervals: int) -> jax.Array:
    try:
        powers = latent.adaptive_schedule(found.powers, found.mean_log_likelihoods, num_intervals)
    except ValueError as error:
        raise ConfigError(
            f"the pilot run of config.loss.schedule='adaptive' places no powers: {error} Change "
            "config.loss.pilot_epochs, or take --config.loss.schedule=power."
        ) from error
    if not _is_ladder(powers, num_intervals):
        raise ConfigError(
            "the pilot run of config.loss.schedule='adaptive' places powers that coincide: "
            f"{powers.tolist()}. Lower config.loss.num_intervals={num_intervals}, or take "
            "--config.loss.schedule=power."
        )
    return powers


def _is_ladder(powers: Any, num_intervals: int) -> bool:
    values = np.asarray(powers, np.float32)
    if values.shape != (num_intervals + 1,):
        return False
    return bool(values[0] == 0 and values[-1] == 1 and np.all(np.diff(values) > 0))


def _read(path: Path, num_intervals: int) -> Schedule:
    try:
        kept = read_json(path)
        powers, seconds = kept["powers"], common.Seconds(**kept["pilot_seconds"])
        is_fitting = _is_ladder(powers, num_intervals)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _no_schedule(path, num_intervals, f"{type(error).__name__}: {error}") from error
    if not is_fitting:
        raise _no_schedule(path, num_intervals, f"its powers are {powers}")
    return Schedule(jnp.asarray(powers, jnp.float32), seconds)


def _no_schedule(path: Path, num_intervals: int, problem: str) -> WorkdirError:
    return WorkdirError(
        f"{path} must hold the {num_intervals + 1} powers of this run, from 0 to 1, and the "
        f"pilot's seconds, but does not ({problem}). Put it back as it was, or use another "
        "--workdir."
    )


def run_pilot(
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
    _, train_key, eval_key = common.root_keys(config.seed)
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
