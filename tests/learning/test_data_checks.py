"""Data are looked at once before anything compiles, and known again when a run goes on."""

import image_problem
import jax
import joint_problems
import numpy as np
import optax
import pytest
from joint_problems import NUM_CLASSES, quadratic, quadratic_params
from training_problems import regression, regression_data

from ebmjax import learning
from ebmjax.data import ImageData
from ebmjax.latent import LatentChains, LatentModel
from ebmjax.training import (
    CheckpointMismatchError,
    Checkpoints,
    Plan,
    check_fits,
    fit,
    init_state,
    make_train_step,
)

KEY = jax.random.key(0)
PLAN = Plan(total_steps=6, batch_size=16, steps_per_dispatch=3, checkpoint_every=3)
OPTIMIZER = optax.sgd(0.1)


def never(*_):
    """In place of a loss: training must not even be traced."""
    raise AssertionError("the step was traced")


def images_with(labels):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (len(labels), 2, 2, 1)).astype(np.uint8)
    return ImageData(images, np.asarray(labels))


def joint_model():
    """(state, train_step) of a joint energy model of three classes."""
    draw = joint_problems.negatives()
    objective = joint_problems.joint_objective(loss=never)
    step = joint_problems.make_gradient_fn(quadratic(), draw, objective, positive_view=never)
    shards = learning.init_carry(KEY, draw, num_shards=1, buffer_size=8, smoothing=1.0)
    return init_state(quadratic_params(), OPTIMIZER, shards), make_train_step(step, OPTIMIZER)


def conditional_energy():
    """(state, train_step) of an energy of images of three classes."""
    draw = image_problem.negatives(num_classes=NUM_CLASSES)
    step = image_problem.image_gradient_fn(draw, never)
    shards = learning.init_carry(KEY, draw, num_shards=1, buffer_size=12)
    state = init_state(image_problem.PARAMS, OPTIMIZER, shards)
    return state, make_train_step(step, OPTIMIZER)


BAD_LABELS = [
    ([1, 2, 3] * 6, ValueError, r"labels\[2\] = 3\. They run from 1 to 3\. Subtract 1 from all"),
    ([0, 1, -1] * 6, ValueError, r"must lie in 0\.\.2; 6 of 18 do not.*labels\[2\] = -1\..*leave"),
    ([0.0, 1.0, 2.0] * 6, TypeError, r"data\.labels must be integers, got dtype float64"),
    (np.eye(18, 3, dtype=int), ValueError, r"data\.labels must hold one class.*got \(18, 3\)"),
]


@pytest.mark.parametrize("model", [joint_model, conditional_energy])
@pytest.mark.parametrize(("labels", "error", "message"), BAD_LABELS)
@pytest.mark.parametrize("run", [fit, check_fits])
def test_labels_that_are_no_class_are_refused_before_compiling(model, labels, error, message, run):
    state, train_step = model()
    with pytest.raises(error, match=message):
        run(KEY, state, train_step, images_with(labels), PLAN)


@pytest.mark.parametrize("worst", [-1, 4, 0.5])
def test_persistent_chains_must_know_every_example(worst):
    """A clamped index would go on from another example's chains."""
    step = learning.make_latent_gradient_fn(
        LatentModel(never, never),
        LatentChains(2, never, 1, never, 1),
        observe=never,
        identify=lambda batch: batch["index"],
    )
    shards = learning.init_latent_carry(
        KEY, num_shards=1, batch_size=2, num_examples=4, num_powers=2, latent_dim=2
    )
    state = init_state(np.zeros(2), OPTIMIZER, shards)
    data = {"index": np.array([0, 1, 2, worst])}
    with pytest.raises(ValueError, match=r"identify must give integers in 0\.\.3, .* from .* to"):
        fit(KEY, state, make_train_step(step, OPTIMIZER), data, Plan(total_steps=1, batch_size=2))


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_numbers_that_are_not_finite_are_refused_before_compiling(value):
    state, train_step, data = regression(gradient_fn=never)
    data["x"][5, 2] = data["x"][7, 0] = value
    message = rf"data\['x'\] must be finite: 2 of its 288 .* data\['x'\]\[5, 2\]={value}\. Repair"
    with pytest.raises(ValueError, match=message):
        fit(KEY, state, train_step, data, PLAN)


def sitting(folder, data, plan=PLAN):
    state, train_step, _ = regression()
    return fit(KEY, state, train_step, data, plan, checkpoints=Checkpoints(folder))


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A folder with the checkpoints of a run that has come half-way."""
    folder = tmp_path_factory.mktemp("begun")

    return folder, sitting(folder, regression_data())


LONGER = Plan(total_steps=9, batch_size=16, steps_per_dispatch=3, checkpoint_every=3)


def changed(name):
    data = regression_data()
    if name == "value":
        data["y"][-1] += 1e-3
    if name == "length":
        data = {key: array[:-1] for key, array in data.items()}
    return data


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("value", r"data\['y'\] has the same shape, float32\(96,\), and other values\."),
        ("length", r"data\['x'\] was float32\(96, 3\) and is now float32\(95, 3\)\."),
    ],
)
def test_a_run_does_not_go_on_with_other_data(begun, name, message):
    folder, _ = begun
    with pytest.raises(CheckpointMismatchError, match=f"Checkpoint 6 .* other data: {message}"):
        sitting(folder, changed(name), LONGER)
