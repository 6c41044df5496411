"""Runs whose training images lie in memory or in files are the same run."""

import os
import shutil

import jax
import numpy as np
import pytest
from experiment_runs import build_experiment, digits, launch, rows_of
from own_networks import configuration

from ebmjax import training
from ebmjax._stored import StoredRows
from ebmjax.data import DataChangedError
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.models import build
from ebmjax.recipes.run.run import BROKE_OFF, Run

FAMILIES = {
    "joint": {"sampler.buffer.start": "informative", "data.num_per_class": 30},
    "energy": {},
    "latent": {"sampler.persistent": True, "evals.gradient_variance.num_gradients": 2},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("images")
    images = np.random.default_rng(0).integers(0, 256, (1248, 8, 8, 1), np.uint8)
    np.save(place / "images.npy", images)
    np.save(place / "labels.npy", np.arange(1248) % 2)
    return place


def config_of(family, folder, placement):
    changes = {
        "data.name": "npz",
        "data.path": str(folder),
        "data.placement": placement,
        "data.holdout": 24,
        **dict.fromkeys(["data.image_size", "data.num_classes", "data.max_train", "data.max_test"]),
        **FAMILIES[family],
    }
    config = configuration(family, {"train.batch_size": 16})
    with config.unlocked():
        config.update_from_flattened_dict(changes)
    return config


def trained(config, folder):
    """The experiment, and the digest of its state after three steps in blocks of two."""
    experiment = build_experiment(config, folder)
    plan = training.Plan(
        total_steps=3,
        batch_size=experiment.plan.batch_size,
        num_shards=experiment.plan.num_shards,
        steps_per_dispatch=2,
        data_seed=experiment.plan.data_seed,
    )
    result = training.fit(
        build.root_keys(config.seed)[1],
        experiment.state,
        experiment.train_step,
        experiment.data,
        plan,
        numbers=experiment.numbers,
    )
    return experiment, training.tree_digest(result.state)


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", ["joint", "latent", pytest.param("energy", marks=pytest.mark.slow)]
)
def test_a_run_has_the_same_bits_wherever_its_images_lie(family, folder, tmp_path):
    """Also its start distribution, the images that it is measured by, and those of a monitor."""
    found = {}
    for placement in ("memory", "disk"):
        experiment, digest = trained(config_of(family, folder, placement), tmp_path / "run")
        images = jax.tree.leaves(experiment.data)[0]
        assert isinstance(images, StoredRows) == (placement == "disk")
        found[placement] = [digest, training.tree_digest(experiment.data), len(images)]
        model = experiment.monitor.__self__.models[0](None)
        found[placement].append(model.distances.train_reference.features.tolist())
        if family == "latent":
            batch = jax.tree.map(np.asarray, model.batch(np.array([3, 700, 4])))
            found[placement].append(training.tree_digest(batch))
    assert found["disk"] == found["memory"]
    assert found["disk"][2] == (60 if family == "joint" else 1224)


@pytest.mark.slow
def test_a_file_that_changes_under_a_run_ends_it(folder, tmp_path, monkeypatch):
    """With one line that names the file. What was saved is whole, so the run goes on afterwards."""
    images = shutil.copytree(folder, tmp_path / "images") / "images.npy"
    config = config_of("energy", images.parent, "disk")
    config.data.max_train, config.evals.every_epochs = 88, 1
    path, build = tmp_path / "run", Run.build
    times = [(0, 0)]

    def monitor(state, step):
        if step and times:
            os.utime(images, times.pop())
        return {}

    def built(run, **given):
        run.experiment = build(run, **given)._replace(monitor=monitor)
        return run.experiment

    monkeypatch.setattr(Run, "build", built)
    with pytest.raises(DataChangedError, match=r"images\.npy .*another size or time") as caught:
        launch(config, "configs/igebm_digits.py:smoke", str(path))
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, BROKE_OFF)  # exit code 1
    assert not (path / "summary.json").exists()
    assert launch(config, "configs/igebm_digits.py:smoke", str(path)) is None
    assert [row["step"] for row in rows_of(path)] == list(range(9))


def test_images_that_cannot_stay_on_the_disk_are_refused_by_their_field(tmp_path):
    config = digits(**{"data.placement": "disk"})
    with pytest.raises(ConfigError, match=r"placement='disk', split train: .* into memory"):
        launch(config, "configs/thermo_digits.py:smoke", str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
