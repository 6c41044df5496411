"""A conditional energy: its fresh chains, and its scores by its classes."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import build_experiment
from experiment_runs import image as smoke
from scipy import special

from ebmjax import data, samplers
from ebmjax.learning import ChainKind, ChainPlan, EnergyNetwork
from ebmjax.recipes.models.energy.model import EnergyModel, Trained

SHAPE = (2, 1, 1)


def valley(params, x, label):
    """Lowest at the label, for each class."""
    return 0.5 * params * jnp.sum(jnp.square(x - label), axis=(-3, -2, -1))


@pytest.mark.parametrize(("num", "batch_size"), [(5, 3), (4, 8), (7, 1)])
def test_chains_descend_from_the_law_in_steps_of_their_own_number(num, batch_size):
    """Two kinds at two step sizes, so that an image has come one of two known ways."""
    rates = (0.1, 0.3)
    plan = ChainPlan(
        kinds={
            str(rate): ChainKind(
                sampler=partial(samplers.gradient_descent, step_size=rate), num_steps=99
            )
            for rate in rates
        },
        num_samples=100,
        start_fn=jax.tree_util.Partial(lambda key, label: jnp.full(SHAPE, 0.5)),
        reinit_prob=0.0,
        num_classes=2,
    )
    network = EnergyNetwork(lambda params: partial(valley, params), 2)
    nothing, config = None, smoke("conditional", **{"evals.batch_size": batch_size})
    model = EnergyModel(
        plan=plan,
        train=nothing,
        distances=nothing,
        config=config,
        network=network,
        logits_fn=nothing,
        trained=Trained(jnp.float32(2.0), {}, jnp.float32(0.75), {}),
    )
    starts, ends, labels, *_ = model.fresh_chains(jax.random.key(0), num, 4)
    assert starts.tolist() == np.full((num, *SHAPE), 0.5).tolist()
    assert ends.shape == (num, *SHAPE)
    assert labels.tolist() == [i % 2 for i in range(num)]
    # Along -(1 - 0.25) E, of curvature 2.
    shares = np.array([(1 - 0.75 * 2.0 * rate) ** 4 for rate in rates])
    left = (ends[:, 0, 0, 0] - labels) / (0.5 - labels)
    nearest = np.abs(left[:, None] - shares)
    assert np.all(nearest.min(axis=1) < 1e-6)
    # Equal parts, but for those too many in the last of the groups that run together.
    first, second = np.bincount(nearest.argmin(axis=1), minlength=2)
    assert 0 <= first - second < 2 * -(-num // batch_size)


def by_class(params, statistics, images):
    """Falls with the class where an image is bright."""
    return -0.5 * jnp.arange(10.0)[None] * jnp.mean(images, axis=(-3, -2, -1))[:, None]


@pytest.fixture(scope="module")
def conditional(tmp_path_factory):
    """The use of an energy of ten classes whose parameters do not matter."""
    config = smoke("conditional")
    config.evals.batch_size = 3
    experiment = build_experiment(config, tmp_path_factory.mktemp("run"))
    model = experiment.use(experiment.state)
    return replace(model, logits_fn=by_class)


IMAGES = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1), np.uint8)


def test_a_conditional_energy_scores_by_all_classes(conditional):
    means = np.asarray(data.to_signed_unit(jnp.asarray(IMAGES))).mean(axis=(1, 2, 3))
    log_densities = -0.5 * np.arange(10) * means[:, None]
    found = conditional.score(IMAGES)
    np.testing.assert_allclose(
        found["log_density"], special.logsumexp(log_densities, axis=1), rtol=1e-5
    )
    np.testing.assert_allclose(
        found["class_probability"], special.softmax(log_densities, axis=1), rtol=1e-4
    )
