"""Log probabilities of points or images in nats, normalised by log Z in an interval."""

from functools import partial
from typing import Annotated, Any

import jax
import numpy as np

from ebmjax import evaluate
from ebmjax._ranges import NOT_NEGATIVE, POSITIVE, TWO_OR_MORE, Range, optional
from ebmjax.data import ImageData
from ebmjax.recipes.config.families import is_points
from ebmjax.recipes.evaluators import Found
from ebmjax.recipes.parts.samplers import is_autoregressive
from ebmjax.types import Key

TEMPERATURE = optional(
    Range(
        "'fitted', 'chains', or positive and finite",
        lambda v: v in ("fitted", "chains") or (not isinstance(v, str) and POSITIVE.holds(v)),
        object,
        (1.0, "fitted", "chains"),
    )
)


def nats(
    key: Key,
    model: Any,
    data: ImageData,
    *,
    num_images: Annotated[int, TWO_OR_MORE] = 1000,
    num_chains: Annotated[int, TWO_OR_MORE] = 64,
    num_powers: Annotated[int, TWO_OR_MORE] = 400,
    temperature: Annotated[Any, TEMPERATURE] = None,
    flow_minutes: Annotated[float, NOT_NEGATIVE] = 1.0,
) -> Found:
    """Returns "nats" of test images or points: log p(x), beside baselines; of images bits, too.

    Those of every image are arrays.

    Args:
      num_images: test images or points that are scored
      num_chains: chains of each side of log Z
      num_powers: powers from the base to the model
      temperature: divisor of the log density; fitted: by the data; chains: theirs; None: theirs
        where the model has a base, else 1
      flow_minutes: minutes for each of two trainings of a flow, a baseline; 0: none
    """
    key, image_key = jax.random.split(key)
    normalised = normalise(
        key,
        model,
        num_chains=num_chains,
        num_powers=num_powers,
        temperature=temperature,
        flow_minutes=flow_minutes,
    )
    scores = normalised.score(data.images[:num_images], image_key)
    report = normalised.summarise(scores)
    arrays = {f"test_{name}": values for name, values in scores.items()}
    row = {f"test_{name}": report[name] for name in ("nats", "nats_low", "nats_high")}
    return Found({"nats": report}, row, arrays)


def normalise(key: Key, model: Any, *, temperature: Any, **options: Any) -> evaluate.Normalised:
    """Returns the normalised density of a trained model, see ``evaluate.normalise``."""
    config, train = model.config, model.train
    low, high = box_of(config, train.images)
    found = model.tilted() if temperature in (None, "chains") else None
    tilted = found[:2] if found and is_autoregressive(found[0]) else None
    if found:
        temperature = found[2]
    elif temperature == "chains":  # what the moves of training's sampler imply
        temperature = model.about().get("temperature")
    return evaluate.normalise(
        key,
        partial(model.log_density, model.trained),
        train,
        low=low,
        high=high,
        noise_scale=config.data.get("noise_scale", 0.0),
        tilted=tilted,
        temperature=temperature or 1.0,
        **options,
    )


def box_of(config: Any, x: np.ndarray) -> tuple[float, float]:
    """Returns the ends of the box: that of the chains, or one that holds the data.

    A network's density need not be finite beyond it.
    """
    section = config.get("sampler", {})
    if section.get("box", "none") != "none":
        return section.low, section.high
    if not is_points(config):
        return -1.2, 1.2
    half = max(float(config.evals.density.half_width), float(np.max(np.abs(x))))
    return -half, half
