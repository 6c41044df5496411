"""Fills in the fields that a configuration leaves to its images."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ebmjax._ranges import optional
from ebmjax.recipes.config.declare import Field, Fields
from ebmjax.recipes.config.errors import Config

MIN_EPOCHS, MIN_STEPS = 10, 1000
STEPS, MAX_PIXELS = {"joint": 1500, "energy": 1500, "latent": 6000}, 1.2e7
"""Steps of a family: so many, fewer where steps times pixel values exceed the second."""
MOST_EPOCHS = 100
"""Most epochs of a latent or joint model beyond ``MIN_STEPS``: it learns few images by heart."""
MANY_EPOCHS, PRIOR_RATES = 200, (0.001, 0.002)
"""Epochs beyond which a latent model's prior learns at the first rate, for the same reason."""
LATENT_NATS = 1000
"""Variance of images, summed over pixels, in squares of ``model.likelihood_scale``."""
SHIFTED = 16
"""Pixels from which on images are shifted by one: of 8 it is too many."""
DOUBLED = 16
"""Pixels up to which a joint model takes twice the steps, which are cheap there."""
MULTIPLE = 5
"""Epochs come in multiples of it, so that blocks of as many steps divide a run: one compilation."""
NUM_MEASURED, NUM_SAVED = 4, 10


class ImageFacts(NamedTuple):
    """Counts and shape of a run's images, from which open fields are filled in.

    Attributes:
      num_train: images that batches are drawn from.
      shape: height, width and channels.
      variance: of their pixels in [-1, 1], summed over the pixels of an image.
      has_chains: whether the objective compares the images with samples of chains.
    """

    num_train: int
    shape: tuple[int, ...]
    variance: float = 0.0
    has_chains: bool = True


def num_epochs(config: Config, images: ImageFacts) -> int:
    """Returns 10 epochs, or as many as make ``STEPS`` of the family, in multiples of 5.

    ``train.max_steps`` makes as many as it takes.
    """
    most = STEPS.get(config.family, MIN_STEPS)
    steps_an_epoch = max(images.num_train // config.train.batch_size, 1)
    if max_steps := config.train.get("max_steps"):
        return math.ceil(max_steps / steps_an_epoch)
    if config.family == "joint" and max(images.shape[:2]) <= DOUBLED:
        most *= 2
    elif config.family != "energy":
        most = min(most, MOST_EPOCHS * steps_an_epoch)
    steps = max(min(most, MAX_PIXELS / math.prod(images.shape)), MIN_STEPS)
    wanted = max(MIN_EPOCHS, math.ceil(steps / steps_an_epoch))
    return MULTIPLE * math.ceil(wanted / MULTIPLE)


MAX_GAP, MAX_LOSS = 5.0, 1e5
"""Nats beyond the loss of guessing at which a generator is lost, and a loss of other scales."""


LENGTHS = ("train.num_epochs", "train.checkpoint_every_epochs", "evals.every_epochs")

RULES: Mapping[str, tuple[str, Callable[[Config, ImageFacts], object]]] = {
    "train.num_epochs": ("10, or for 1,000 to 6,000 steps", num_epochs),
    "train.checkpoint_every_epochs": (
        "10 times in a run",
        lambda config, images: max(config.train.num_epochs // NUM_SAVED, 1),
    ),
    "evals.every_epochs": (
        "4 times in a run",
        lambda config, images: config.train.num_epochs / NUM_MEASURED,
    ),
    "data.crop_padding": (
        f"1 from {SHIFTED} pixels on, else 0",
        lambda config, images: int(max(images.shape[:2]) >= SHIFTED),
    ),
    "data.augment_positives": (
        f"beyond {DOUBLED} pixels and {MOST_EPOCHS} epochs",
        lambda config, images: (
            max(images.shape[:2]) > DOUBLED and config.train.num_epochs > MOST_EPOCHS
        ),
    ),
    "train.max_abs_loss": (
        f"{MAX_GAP:g} + log(classes), {MAX_LOSS:g} without chains",
        lambda config, images: (
            round(MAX_GAP + math.log(max(config.data.num_classes, 1)), 2)
            if images.has_chains
            else MAX_LOSS
        ),
    ),
    "optimizer.prior.learning_rate": (
        f"{PRIOR_RATES[1]}, half of it for more than {MANY_EPOCHS} epochs",
        lambda config, images: PRIOR_RATES[config.train.num_epochs <= MANY_EPOCHS],
    ),
    "optimizer.decay_per_epoch": (
        "down to the generator's final rate at the end",
        lambda config, images: (
            min(
                1.0,
                config.optimizer.generator.final_learning_rate
                / config.optimizer.generator.learning_rate,
            )
            ** (1 / config.train.num_epochs)
        ),
    ),
    "model.likelihood_scale": (
        f"sqrt(variance of images / {LATENT_NATS:,})",
        lambda config, images: float(f"{math.sqrt(max(images.variance, 1.0) / LATENT_NATS):.4g}"),
    ),
}
"""Words for people, and the choice, by field. Later ones may read what earlier ones chose."""


def leave_open(fields: Fields, *names: str) -> dict[str, Field]:
    """``fields``, of which those in ``names`` may be None, for their rules in ``RULES``."""
    made = dict(fields)
    for name in names:
        one, text = fields[name], f"{fields[name].text}; None: {RULES[name][0]}"
        made[name] = replace(one, values=optional(one.values), text=text)
    return made


def fill_in(config: Config, images: ImageFacts) -> list[str]:
    """Fills in the fields of ``RULES`` that are None, and returns lines that say how.

    ``train.max_steps`` opens ``train.num_epochs``.
    """
    if config.train.get("max_steps"):
        config.train.num_epochs = None
    found: dict[str, object] = {}
    for name, (_, rule) in RULES.items():
        if config.get(name, "") is None:
            found[name] = rule(config, images)
            config.update_from_flattened_dict({name: found[name]})
    if config.family == "joint" and config.sampler.buffer.start == "informative":
        blocks = max(config.data.num_classes, 1) * config.mesh.num_shards  # equal for the classes
        size = config.sampler.buffer.size
        if size is not None and size % blocks:
            whole = max(size - size % blocks, blocks)
            found["sampler.buffer.size"] = config.sampler.buffer.size = whole
    if not found:
        return []
    listed = ", ".join(f"{name}={value}" for name, value in found.items())
    return [f"chosen by the images: {listed}"]
