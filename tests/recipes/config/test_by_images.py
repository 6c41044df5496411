"""Configurations for anyone's images: what the images decide, and what a user decides instead."""

import numpy as np
import pytest
from experiment_runs import build_experiment

from ebmjax.data import epoch_indices
from ebmjax.recipes.config import by_images, command_line
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.models import build
from ebmjax.recipes.parts import image_data
from experiments.configs import image, joint, latent

FILES = {"joint": joint, "image": image, "latent": latent}
LENGTHS = ("train.num_epochs", "train.checkpoint_every_epochs", "evals.every_epochs")


def chosen(config, num_train, shape, **facts):
    config = config.copy_and_resolve_references()
    lines = by_images.fill_in(config, num_train, shape, **facts)
    return config, "\n".join(lines)


@pytest.mark.parametrize("epochs", [None, 3])
def test_a_length_in_steps_takes_the_place_of_epochs(epochs):
    """46 steps of 32 images are two epochs of 1,440, and all that follows the length knows it."""
    config = image.get_config()
    config.data.num_classes = 10
    config.train.update(num_epochs=epochs, max_steps=46)
    config, line = chosen(config, 1_440, (8, 8, 1))
    assert [config[name] for name in LENGTHS] == [2, 1, 0.5]
    assert line.startswith("chosen by the images: train.num_epochs=2, ")
    assert build.plan(config, 1_440).total_steps == 46


@pytest.mark.parametrize(
    ("family", "num_train", "side", "fields"),
    [
        ("image", 32, 8, dict(zip(LENGTHS, (1500, 150, 375.0), strict=True))),
        # 45 steps an epoch: 34 epochs make 1,500.
        ("image", 1_440, 8, dict(zip(LENGTHS, (35, 3, 8.75), strict=True))),
        ("latent", 50_000, 8, dict(zip(LENGTHS, (10, 1, 2.5), strict=True))),
        ("joint", 32, 8, {"train.num_epochs": 3000, "data.crop_padding": 0}),
        ("joint", 1_440, 17, {"train.num_epochs": 35, "data.crop_padding": 1}),
        ("joint", 640, 64, {"train.num_epochs": 50, "train.max_abs_loss": 7.3}),
        ("joint", 300, 17, {"data.augment_positives": True}),
        ("joint", 500, 28, {"data.augment_positives": False}),
        # 50 steps an epoch: 1.2e7 pixel values / 3,072 are 3,906 steps.
        ("latent", 3_200, 32, {"train.num_epochs": 80}),
        ("latent", 1_440, 8, {"optimizer.prior.learning_rate": 0.002}),
    ],
)
def test_the_images_decide_on_open_fields(family, num_train, side, fields):
    config = FILES[family].get_config()
    config.data.num_classes = 10
    config, line = chosen(config, num_train, (side, side, 3))
    assert {name: config[name] for name in fields} == fields
    assert all(f"{name}={value}" in line for name, value in fields.items())


@pytest.mark.parametrize(("num_classes", "size"), [(2, 160), (3, 156), (7, 154), (200, 400)])
def test_the_buffer_of_a_classifier_has_equal_blocks_for_any_classes(num_classes, size):
    """More classes than slots have one each in each of the two shards."""
    config = joint.get_config()
    config.data.num_classes = num_classes
    config, line = chosen(config, 1000, (2, 2, 1))
    assert config.sampler.buffer.size == size
    assert (f"sampler.buffer.size={size}" in line) == (size != 160)


def test_a_latent_models_rate_ends_at_its_final_value_and_its_noise_follows_the_images():
    config = latent.get_config().copy_and_resolve_references()
    by_images.fill_in(config, 4_000, (8, 8, 1), variance=90.0)
    rates = config.optimizer.generator
    decayed = rates.learning_rate * config.optimizer.decay_per_epoch**config.train.num_epochs
    assert decayed == pytest.approx(rates.final_learning_rate)
    assert config.model.likelihood_scale == 0.3  # a thousandth of the variance, squared


@pytest.mark.parametrize("family", FILES)
def test_what_the_user_gives_wins(family):
    given = {"train.num_epochs": 7, "train.checkpoint_every_epochs": 3, "evals.every_epochs": 2.0}
    arguments = [f"--config.{name}={value}" for name, value in given.items()]
    config = command_line.read(f"configs/{family}.py", arguments)
    config.data.num_classes = 10
    config, line = chosen(config, 4_000, (8, 8, 1))
    assert {name: config[name] for name in given} == given
    assert not any(name in line for name in given)


def own(tmp_path, family, num=120, labels=True, num_held_out=24):
    images = np.random.default_rng(0).integers(0, 256, (num, 9, 9, 3), np.uint8)
    arrays = {"images": images} | ({"labels": np.arange(num) % 2} if labels else {})
    np.savez(tmp_path / "mine.npz", **arrays)
    arguments = {"name": "npz", "path": tmp_path / "mine.npz", "holdout": num_held_out}
    return command_line.read(
        f"configs/{family}.py", [f"--config.data.{name}={v}" for name, v in arguments.items()]
    )


@pytest.mark.parametrize("limit", ["holdout=80", "max_train=60"])
def test_a_class_without_training_images_is_named_with_what_left_it_none(limit, tmp_path):
    config = own(tmp_path, "joint")
    images, labels = np.zeros((120, 9, 9, 3), np.uint8), np.zeros(120, int)
    labels[epoch_indices(0, 0, 120)[-1]] = 1  # the image that is read last
    np.savez(tmp_path / "mine.npz", images=images, labels=labels)
    name, value = limit.split("=")
    config.data[name] = int(value)
    config.data.image_size = 8
    with pytest.raises(ConfigError, match=rf"of class 1 none are left by .*config\.data\.{limit}"):
        build_experiment(config, tmp_path / "run")


@pytest.mark.parametrize("family", FILES)
def test_too_few_images_are_refused_before_anything_compiles(family, tmp_path):
    for num, held_out, message in (
        (20, 8, r"batch_size must be at most .*, 12 after .*; got 32. Take a smaller batch"),
        (40, 10, r"30 after .*holdout=10.0; got 32. Take a smaller batch, or hold out fewer"),
        (1, 0, r"split test: .*--config\.data\.holdout=0\.2"),
        (1, 1, r"holdout must leave training images: it is 1 of 1"),
    ):
        config = own(tmp_path, family, num=num, num_held_out=held_out)
        config.train.batch_size = 32
        with pytest.raises(ConfigError, match=message):
            build_experiment(config, tmp_path / "run")


def test_a_latent_models_noise_is_measured_by_its_training_images(tmp_path):
    images, config = image_data.load(own(tmp_path, "latent"))
    squares = np.var(images.train.images / 127.5, axis=0).sum() / 1000
    assert config.model.likelihood_scale == pytest.approx(np.sqrt(squares), rel=1e-3)
