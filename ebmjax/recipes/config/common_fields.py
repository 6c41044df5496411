"""Fields that several families have: a name has one range and one meaning in all of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ml_collections import ConfigDict

from ebmjax._ranges import (
    COUNT,
    FINITE,
    FLAG,
    FRACTION,
    FUNCTION,
    FUNCTIONS,
    HOLDOUT,
    NAME,
    NOT_NEGATIVE,
    PAIR,
    PATH,
    POSITIVE,
    PROBABILITY,
    SEED,
    SOURCE,
    TEXT,
    WHOLE,
    one_of,
    optional,
)
from ebmjax.recipes.config import declare, families
from ebmjax.recipes.config.declare import Field, Fields, When, field, rare, when_is

OURS = When("our own network, an empty config.model.factory", lambda c: not c.get("model.factory"))
ACTIVATIONS = ("leaky_relu_0.05", "leaky_relu_0.1", "leaky_relu_0.2", "gelu", "swish")

HUGGING_FACE = when_is("data.name", "huggingface")
OF_FILES = When(
    "files, config.data.name=npz, npy, points, folder, huggingface or one of tensorflow-datasets",
    lambda c: c.get("data.name") not in ("digits", *families.POINTS[:-1]),
)

OF_IMAGES: Fields = {
    "data.name": field(
        "digits", SOURCE, "digits, npz, npy, folder, huggingface, one of tfds, FILE.py:FUNCTION"
    ),
    "data.path": rare("", PATH, "file or folder of the data; empty: tfds' own folder", OF_FILES),
    "data.test_split": rare("test", NAME, "split of the test images"),
    "data.image_size": field(None, optional(COUNT), "side in pixels; None: as the images have"),
    "data.fit": rare("crop", one_of("crop", "pad", "stretch"), "how images become squares"),
    "data.range": rare(
        None, optional(PAIR), "pixels that become black and white; None: as the training images say"
    ),
    "data.image_column": rare("", TEXT, "column of images; empty: the only one", HUGGING_FACE),
    "data.label_column": rare("", TEXT, "column of labels; empty: the only one", HUGGING_FACE),
    "data.num_classes": field(None, optional(WHOLE), "classes; None: of the data; 0: no labels"),
    "data.max_train": field(None, optional(COUNT), "training images that are used; None: all"),
    "data.max_test": field(None, optional(COUNT), "test images that are used; None: all"),
    "data.holdout": field(
        None,
        optional(HOLDOUT),
        "training images held out, a part or a number; None: 0.2 without a test split, else 0",
    ),
    "data.placement": rare("memory", one_of("memory", "disk"), "where training images lie"),
    "model.factory": field("", FUNCTION, "your own network: function that makes it; empty: ours"),
    "train.start_from": rare("", PATH, "folder of another run to begin with; empty: none"),
    "train.keep_best": rare("", TEXT, "evaluation number whose best state is kept; empty: none"),
    "train.max_consecutive_skips": field(20, COUNT, "skipped steps in a row that end the run"),
    "train.on_divergence": rare(
        "stop", one_of("stop", "recover"), "recover: go back to a checkpoint, with smaller steps"
    ),
    "train.num_epochs": field(40, optional(COUNT), "epochs; None: 10, or for 1,000 to 6,000 steps"),
    "train.max_steps": rare(None, optional(COUNT), "steps, in place of num_epochs; None: epochs"),
    "train.batch_size": field(64, COUNT, "examples in an update"),
    "train.steps_per_dispatch": field(22, COUNT, "steps in one call of the compiled program"),
    "train.log_every": field(11, COUNT, "steps between two rows of metrics.jsonl"),
    "train.checkpoint_every_epochs": field(10, optional(COUNT), "epochs; None: 10 times in a run"),
    "train.max_abs_loss": field(1e5, POSITIVE, "a step with a larger loss is skipped"),
    "mesh.num_shards": field(1, COUNT, "logical shards of a batch; devices divide them"),
    "evals.every_epochs": field(10.0, optional(NOT_NEGATIVE), "epochs; 0: at end; None: 4 times"),
    "evals.batch_size": field(128, COUNT, "images in one call of an evaluation"),
    "evals.checkpoint": rare("newest", one_of("newest", "best"), "state that --mode=eval takes"),
    "evals.functions": rare((), FUNCTIONS, "your own evaluations, each FILE.py:FUNCTION"),
    "evals.use_test_split": rare(False, FLAG, "--mode=eval takes test images, not held-out ones"),
    "evals.extractor": rare("", FUNCTION, "your own features to judge samples; empty: by the data"),
    "evals.inception_weights": rare("", PATH, "file for Inception-v3 as judge; empty: by the data"),
}
"""Fields of every family of images. A family replaces the defaults that do not suit it."""

OF_CHAINS: Fields = {
    "sampler.num_steps": field(10, COUNT, "steps of a chain between two updates"),
    "sampler.num_samples": field(64, COUNT, "chains that move at each update"),
    "sampler.box": field("none", one_of("none", "clamp", "reflect", "reject"), "what its ends do"),
    "sampler.low": field(-1.0, FINITE, "lower end of the box"),
    "sampler.high": field(1.0, FINITE, "upper end of the box"),
    "sampler.max_score": rare(None, optional(POSITIVE), "largest score of a pixel; None: any"),
    "sampler.buffer.size": field(10_000, optional(COUNT), "samples in the buffer; None: no buffer"),
    "sampler.buffer.reinit_prob": field(0.05, PROBABILITY, "share of chains that start anew"),
    "sampler.buffer.start_scale": field(1.0, POSITIVE, "half width or deviation of the starts"),
    "loss.energy_l2": field(0.0, NOT_NEGATIVE, "weight of the penalty on squared energies"),
    "loss.max_gap": field(
        None, optional(POSITIVE), "gap of log density where the loss of p(x) ends; None: nowhere"
    ),
    "evals.num_chain_steps": rare(
        None,
        optional(COUNT),
        "steps of eval's chains; None: 10 times training's, more above 32x32",
    ),
}
"""Fields of the chains of images, of an energy alone and of a joint model."""

SMOKE_SIZES: Mapping[str, Any] = {
    "mesh.num_shards": 1,
    "data.max_train": 64,
    "data.max_test": 32,
    "sampler.buffer.size": 200,
    "train.num_epochs": 2,
    "train.batch_size": 16,
    "train.steps_per_dispatch": 2,
    "train.log_every": 1,
    "train.checkpoint_every_epochs": 1,
    "evals.every_epochs": 0,
    "evals.samples.num_images": 16,
    "evals.generation.num_images": 16,
}
"""Sizes of a run of seconds, of an energy alone and of a joint model."""

# Further fields that families have by name: each gives its own default.
_KNOWN: Fields = {
    **OF_IMAGES,
    **OF_CHAINS,
    "data.flip": rare(False, FLAG, "flip images at random"),
    "data.noise_scale": field(0.0, NOT_NEGATIVE, "Gaussian noise added to images in [-1, 1]"),
    "model.activation": field("swish", one_of(*ACTIVATIONS), "activation; leaky_relu by its slope"),
    "model.dtype": field("float32", one_of("float32", "bfloat16"), "type of the computation"),
    "optimizer.learning_rate": field(1e-3, POSITIVE, "learning rate"),
    "optimizer.b1": field(0.9, FRACTION, "Adam's decay of the mean gradient"),
    "optimizer.b2": field(0.999, FRACTION, "Adam's decay of the mean squared gradient"),
    "optimizer.warmup_steps": field(0, WHOLE, "steps over which the learning rate grows from 0"),
}


def pick_fields(**sections: dict[str, object]) -> dict[str, Field]:
    """Declarations of the named fields with the defaults of a family, section by section."""
    defaults = {f"{name}.{key}": v for name, part in sections.items() for key, v in part.items()}
    return {name: replace(_KNOWN[name], default=value) for name, value in defaults.items()}


def configure_images(
    family: str,
    common: Mapping[str, Mapping[str, Any]],
    variant: str = "",
    *,
    base: Mapping[str, Any],
    variants: Mapping[str, Mapping[str, Any]],
    max_test: int = 357,
) -> ConfigDict:
    """Returns a family's defaults with ``base`` and then the changes of ``variant``.

    Args:
      family: its name.
      common: variants of all its configurations, such as "smoke", a few steps on few images.
      variant: one of them, or of ``variants``; or "bfloat16", which computes in half precision,
        with parameters, energies and losses in float32. "" is the base itself.
      base: changes of all variants, by dotted field names.
      variants: those of a configuration file.
      max_test: test images of the packaged digits.
    """
    sizes = {"image_size": 8, "num_classes": 10, "max_train": 1440, "max_test": max_test}
    if base.get("data.name", "digits") == "digits":
        base = {**{f"data.{name}": size for name, size in sizes.items()}, **base}
    variants = {**common, "bfloat16": {"model.dtype": "bfloat16"}, **variants}
    every = families.all_fields(family, {*base, *variants.get(variant, ())})
    return declare.configure(every, variant, base, variants)


def family(name: str) -> dict[str, Field]:
    """``config.family`` and ``config.seed``."""
    return {
        "family": field(name, one_of(name), "family of the model"),
        "seed": field(0, SEED, "seed of all random numbers of the run"),
    }
