"""Configurations for anyone's images: what the images decide, and what a user decides instead."""

import numpy as np
import pytest
from experiment_runs import build_experiment

from ebmjax.data import epoch_indices
from ebmjax.recipes.config import by_images, command_line, families
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.models import build
from ebmjax.recipes.models.latent import checks as latent_checks
from ebmjax.recipes.parts import image_data
from experiments.configs import image, jem_digits, joint, latent

FILES = {"joint": joint, "image": image, "latent": latent}
LENGTHS = ("train.num_epochs", "train.checkpoint_every_epochs", "evals.every_epochs")


def chosen(config, num_train, num_test, shape, **facts):
    config = config.copy_and_resolve_references()
    lines = by_images.fill_in(config, by_images.ImageFacts(num_train, num_test, shape, **facts))
    return config, "\n".join(lines)


@pytest.mark.parametrize(
    ("family", "num_train", "epochs", "saved", "measured"),
    [
        ("image", 32, 1500, 150, 375.0),  # one step an epoch
        ("image", 160, 300, 30, 75.0),
        ("image", 1_440, 35, 3, 8.75),  # 45 steps an epoch: 34 epochs make 1,500
        ("image", 4_000, 15, 1, 3.75),
        ("image", 50_000, 10, 1, 2.5),
        ("image", 20, 1500, 150, 375.0),  # smaller than a batch, which is refused later
        ("latent", 160, 500, 50, 125.0),
        ("latent", 1_440, 100, 10, 25.0),
        ("latent", 4_000, 100, 10, 25.0),
        ("latent", 50_000, 10, 1, 2.5),  # 7,810 steps
    ],
)
def test_the_number_of_images_decides_on_the_length(family, num_train, epochs, saved, measured):
    config = FILES[family].get_config()
    config.data.num_classes = 10
    config, line = chosen(config, num_train, 100, (8, 8, 1))
    assert [config[name] for name in LENGTHS] == [epochs, saved, measured]
    assert line.startswith(
        f"chosen by the images: train.num_epochs={epochs}, "
        f"train.checkpoint_every_epochs={saved}, evals.every_epochs={measured}"
    )


@pytest.mark.parametrize("epochs", [None, 3])
def test_a_length_in_steps_takes_the_place_of_epochs(epochs):
    """46 steps of 32 images are two epochs of 1,440, and all that follows the length knows it."""
    config = image.get_config()
    config.data.num_classes = 10
    config.train.update(num_epochs=epochs, max_steps=46)
    config, line = chosen(config, 1_440, 100, (8, 8, 1))
    assert [config[name] for name in LENGTHS] == [2, 1, 0.5]
    assert line.startswith("chosen by the images: train.num_epochs=2, ")
    assert build.plan(config, 1_440).total_steps == 46


@pytest.mark.parametrize(
    ("num_train", "side", "epochs"),
    [
        (32, 8, 3000),
        (1_440, 16, 70),
        (1_440, 17, 35),
        (4_000, 32, 15),
        (640, 64, 50),
        (300, 28, 115),
    ],
)
def test_a_joint_model_takes_more_steps_of_small_images(num_train, side, epochs):
    config = joint.get_config()
    config.data.num_classes = 10
    assert chosen(config, num_train, 100, (side, side, 3))[0].train.num_epochs == epochs


@pytest.mark.parametrize(
    ("num_train", "side", "is_shifted"), [(300, 16, False), (300, 17, True), (500, 28, False)]
)
def test_few_images_are_shifted_for_the_samples_too(num_train, side, is_shifted):
    config = joint.get_config()
    config.data.num_classes = 10
    config, line = chosen(config, num_train, 100, (side, side, 1))
    assert config.data.augment_positives is is_shifted
    assert f"data.augment_positives={is_shifted}" in line


def test_a_latent_model_takes_fewer_steps_of_large_images():
    """50 steps an epoch: 1.2e7 pixel values / 3,072 are 3,906 steps, and 80 epochs."""
    assert chosen(latent.get_config(), 3200, 100, (32, 32, 3))[0].train.num_epochs == 80


@pytest.mark.parametrize(("num_classes", "size"), [(2, 160), (3, 156), (7, 154), (200, 400)])
def test_the_buffer_of_a_classifier_has_equal_blocks_for_any_classes(num_classes, size):
    """More classes than slots have one each in each of the two shards."""
    config = joint.get_config()
    config.data.num_classes = num_classes
    config, line = chosen(config, 1000, 100, (2, 2, 1))
    assert config.sampler.buffer.size == size
    assert (f"sampler.buffer.size={size}" in line) == (size != 160)


def test_a_loss_without_chains_has_a_scale_of_its_own():
    config = joint.get_config()
    config.data.num_classes = 10
    found, _ = chosen(config, 1000, 100, (8, 8, 1), has_chains=False)
    assert found.train.max_abs_loss == 1e5


@pytest.mark.parametrize(("num_classes", "largest"), [(2, 5.69), (10, 7.3), (100, 9.61)])
def test_a_classifier_is_lost_five_nats_beyond_the_loss_of_guessing(num_classes, largest):
    config = joint.get_config()
    config.data.num_classes = num_classes
    config, line = chosen(config, 1000, 100, (8, 8, 1))
    assert config.train.max_abs_loss == largest
    assert f"train.max_abs_loss={largest}" in line


@pytest.mark.parametrize(("shape", "padding"), [((8, 8, 1), 0), ((8, 16, 1), 1), ((32, 32, 3), 1)])
def test_images_of_few_pixels_are_not_shifted(shape, padding):
    config = joint.get_config()
    config.data.num_classes = 10
    assert chosen(config, 1000, 100, shape)[0].data.crop_padding == padding


@pytest.mark.parametrize(("num_test", "measured"), [(40, 40), (64, 64), (10_000, 64)])
def test_a_latent_model_is_measured_by_at_most_64_images(num_test, measured):
    config, line = chosen(latent.get_config(), 1000, num_test, (8, 8, 1))
    assert config.evals.num_test == measured
    assert line.endswith(f"evals.num_test={measured}")


@pytest.mark.parametrize(("num_train", "rate"), [(300, 0.001), (1_440, 0.002), (50_000, 0.002)])
def test_a_prior_learns_few_images_at_half_the_rate(num_train, rate):
    assert (
        chosen(latent.get_config(), num_train, 100, (8, 8, 1))[0].optimizer.prior.learning_rate
        == rate
    )


def test_a_final_rate_beyond_that_which_the_images_may_choose_is_refused():
    config = latent.get_config()
    config.optimizer.prior.final_learning_rate = 0.0015
    with pytest.raises(ConfigError, match=r"prior.learning_rate=0.001 must be at least .*=0.0015"):
        latent_checks.check(config)


def test_a_latent_models_rate_ends_at_its_final_value_and_its_noise_follows_the_images():
    config = latent.get_config().copy_and_resolve_references()
    by_images.fill_in(config, by_images.ImageFacts(4_000, 100, (8, 8, 1), variance=90.0))
    rates = config.optimizer.generator
    decayed = rates.learning_rate * config.optimizer.decay_per_epoch**config.train.num_epochs
    assert decayed == pytest.approx(rates.final_learning_rate)
    assert config.model.likelihood_scale == 0.3  # a thousandth of the variance, squared


@pytest.mark.parametrize("family", FILES)
def test_what_the_user_gives_wins(family):
    given = {"train.num_epochs": 7, "train.checkpoint_every_epochs": 3, "evals.every_epochs": 2.0}
    given |= {
        "joint": {
            "sampler.buffer.start": "uniform",
            "data.crop_padding": 2,
            "data.augment_positives": True,
            "train.max_abs_loss": 50.0,
        },
        "latent": {
            "evals.num_test": 9,
            "model.likelihood_scale": 0.2,
            "optimizer.decay_per_epoch": 0.9,
            "optimizer.prior.learning_rate": 0.004,
        },
    }.get(family, {})
    arguments = [f"--config.{name}={value}" for name, value in given.items()]
    config = command_line.read(f"configs/{family}.py", arguments)
    config.data.num_classes = 10
    config, line = chosen(config, 4_000, 100, (8, 8, 1))
    assert {name: config[name] for name in given} == given
    assert line == ""


def test_intervals_follow_the_epochs_that_the_user_gives():
    config = image.get_config()
    config.train.num_epochs = 40
    config, line = chosen(config, 4_000, 100, (8, 8, 1))
    assert line == "chosen by the images: train.checkpoint_every_epochs=4, evals.every_epochs=10.0"


def test_a_run_of_fewer_than_ten_epochs_is_saved_after_each():
    config = image.get_config()
    config.train.num_epochs = 3
    config, _ = chosen(config, 1000, 100, (8, 8, 1))
    assert config.train.checkpoint_every_epochs == 1


def test_nothing_is_chosen_where_a_configuration_leaves_nothing_open():
    config = jem_digits.get_config()
    before = config.to_dict()
    config, line = chosen(config, 1440, 357, (8, 8, 1))
    assert (config.to_dict(), line) == (before, "")


@pytest.mark.parametrize("name", FILES)
def test_these_runs_recover_and_those_of_papers_stop(name):
    config = FILES[name].get_config()
    assert config.train.on_divergence == "recover"
    assert families.all_fields(config.family)["train.on_divergence"].default == "stop"


def own(tmp_path, family, num=120, labels=True, num_held_out=24):
    images = np.random.default_rng(0).integers(0, 256, (num, 9, 9, 3), np.uint8)
    arrays = {"images": images} | ({"labels": np.arange(num) % 2} if labels else {})
    np.savez(tmp_path / "mine.npz", **arrays)
    arguments = {"name": "npz", "path": tmp_path / "mine.npz", "holdout": num_held_out}
    return command_line.read(
        f"configs/{family}.py", [f"--config.data.{name}={v}" for name, v in arguments.items()]
    )


@pytest.mark.parametrize("family", FILES)
def test_a_run_says_what_was_chosen(family, tmp_path):
    images, config = image_data.load(own(tmp_path, family))
    first, line, judge = images.about
    assert judge.startswith("FID compares features of a random network")
    assert first == "train 120 of 120 (24 held out), 9x9x3, 2 classes"
    # 96 images are 3 steps an epoch, of a latent model one.
    epochs = {"joint": 1000, "image": 500, "latent": 1000}[family]
    assert line.startswith(f"chosen by the images: train.num_epochs={epochs}, ")
    assert config.train.num_epochs == epochs


@pytest.mark.parametrize("family", ["image", "latent"])
def test_labels_may_be_absent(family, tmp_path):
    images, config = image_data.load(own(tmp_path, family, labels=False))
    assert config.data.num_classes == 0
    assert "9x9x3, no classes" in images.about[0]


def test_a_classifier_without_labels_is_sent_to_the_other_configurations(tmp_path):
    config = own(tmp_path, "joint", labels=False)
    with pytest.raises(ConfigError, match=r"have no labels \(.*\): .* configs/image\.py or"):
        build_experiment(config, tmp_path / "run")


@pytest.mark.parametrize("limit", ["holdout=80", "max_train=60"])
def test_a_class_without_training_images_is_named_with_what_left_it_none(limit, tmp_path):
    config = own(tmp_path, "joint")
    images, labels = np.zeros((120, 9, 9, 3), np.uint8), np.zeros(120, int)
    labels[epoch_indices(0, 0, 120)[-1]] = 1  # the image that is read last
    np.savez(tmp_path / "mine.npz", images=images, labels=labels)
    name, value = limit.split("=")
    config.data[name] = int(value)
    config.data.image_size = 8
    with pytest.raises(
        ConfigError, match=r"of \[1\] none are left \(train .*config\.data\.holdout"
    ):
        build_experiment(config, tmp_path / "run")


@pytest.mark.parametrize("family", FILES)
def test_too_few_images_are_refused_before_anything_compiles(family, tmp_path):
    for num, held_out, message in (
        (20, 8, r"batch_size must be at most .*, got 32 with 12 .* Take a smaller batch"),
        (40, 10, r"holdout=10 leaves 30 of 40 .* smaller batch"),
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
