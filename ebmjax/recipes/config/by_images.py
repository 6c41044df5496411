"""Fills in the fields that a configuration leaves to its images; their texts say how."""

import math
from collections.abc import Callable

from ebmjax.recipes.config.errors import Config

MIN_EPOCHS, MIN_STEPS = 10, 1000
STEPS, MAX_PIXELS = {"joint": 1500, "energy": 1500, "latent": 6000}, 1.2e7
"""Steps of a family: so many, fewer where steps times pixel values exceed the second."""
MOST_EPOCHS = 100
"""Most epochs of a latent or joint model beyond ``MIN_STEPS``: it learns few images by heart."""
MANY_EPOCHS, PRIOR_RATES, UNIVARIATE_RATE = 200, (0.001, 0.002), 0.05
"""Epochs beyond which a latent model's prior learns at the first rate, for the same reason; the
rate of a univariate one."""
LATENT_NATS = 1000
"""Variance of images, summed over pixels, in squares of ``model.likelihood_scale``."""
SMALL = 16
"""Pixels from which on a shift by one is not too many, and up to which steps are cheap."""
MULTIPLE = 5
"""Epochs come in multiples of it, so that blocks of as many steps divide a run: one compilation."""
NUM_MEASURED, NUM_SAVED = 4, 10
MAX_GAP, MAX_LOSS = 5.0, 1e5
"""Nats beyond the loss of guessing at which a generator is lost, and a loss of other scales."""


def num_epochs(config: Config, num_train: int, shape: tuple[int, ...]) -> int:
    """Returns 10 epochs, or as many as make ``STEPS`` of the family, in multiples of 5.

    ``train.max_steps`` makes as many as it takes.
    """
    most = STEPS.get(config.family, MIN_STEPS)
    steps_an_epoch = max(num_train // config.train.batch_size, 1)
    if max_steps := config.train.get("max_steps"):
        return math.ceil(max_steps / steps_an_epoch)
    if config.family == "joint" and max(shape[:2]) <= SMALL:
        most *= 2
    elif config.family != "energy":
        most = min(most, MOST_EPOCHS * steps_an_epoch)
    steps = max(min(most, MAX_PIXELS / math.prod(shape)), MIN_STEPS)
    wanted = max(MIN_EPOCHS, math.ceil(steps / steps_an_epoch))
    return MULTIPLE * math.ceil(wanted / MULTIPLE)


def fill_in(
    config: Config,
    num_train: int,
    shape: tuple[int, ...],
    variance: float = 0.0,
    has_chains: bool = True,
) -> list[str]:
    """Fills in fields that are None, and returns lines that say how.

    Args:
      config: of a family; ``train.max_steps`` opens its ``train.num_epochs``.
      num_train: images that batches are drawn from.
      shape: height, width and channels; or that of a point.
      variance: of pixels in [-1, 1], summed over the pixels of an image.
      has_chains: whether the objective compares the images with samples of chains.
    """
    train, side = config.train, max(shape[:2])

    def decay() -> float:
        rates = config.optimizer.generator
        ratio = min(1.0, rates.final_learning_rate / rates.learning_rate)
        return ratio ** (1 / train.num_epochs)

    # Later ones may read what earlier ones chose.
    rules: dict[str, Callable[[], object]] = {
        "train.num_epochs": lambda: num_epochs(config, num_train, shape),
        "train.checkpoint_every_epochs": lambda: max(train.num_epochs // NUM_SAVED, 1),
        "evals.every_epochs": lambda: train.num_epochs / NUM_MEASURED,
        "data.crop_padding": lambda: int(side >= SMALL),
        "data.augment_positives": lambda: side > SMALL and train.num_epochs > MOST_EPOCHS,
        "train.max_abs_loss": lambda: (
            round(MAX_GAP + math.log(max(config.data.num_classes, 1)), 2)
            if has_chains
            else MAX_LOSS
        ),
        "optimizer.prior.learning_rate": lambda: (
            UNIVARIATE_RATE
            if config.model.get("prior") == "univariate"
            else PRIOR_RATES[train.num_epochs <= MANY_EPOCHS]
        ),
        "optimizer.decay_per_epoch": decay,
        "model.likelihood_scale": lambda: float(
            f"{math.sqrt(max(variance, 1.0) / LATENT_NATS):.4g}"
        ),
    }
    if train.get("max_steps"):
        train.num_epochs = None
    found: dict[str, object] = {}
    for name, rule in rules.items():
        if config.get(name, "") is None:
            found[name] = rule()
            config.update_from_flattened_dict({name: found[name]})
    if config.family == "joint" and config.sampler.buffer.start == "informative":
        blocks = max(config.data.num_classes, 1) * config.mesh.num_shards  # equal for the classes
        if rest := (config.sampler.buffer.size or 0) % blocks:
            whole = max(config.sampler.buffer.size - rest, blocks)
            found["sampler.buffer.size"] = config.sampler.buffer.size = whole
    listed = ", ".join(f"{name}={value}" for name, value in found.items())
    return [f"chosen by the images: {listed}"] if found else []
