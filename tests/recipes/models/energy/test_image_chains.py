"""Fresh chains of an image energy, and what the monitor shows where training keeps no buffer."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from image_smoke import smoke

from ebmjax import samplers
from ebmjax.learning import ChainKind, ChainPlan, EnergyNetwork
from ebmjax.recipes.models.energy.model import EnergyModel, Trained, densities_of

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
        densities_of=densities_of(network),
        train=nothing,
        distances=nothing,
        config=config,
        network=network,
        logits_fn=nothing,
        trained=Trained(jnp.float32(2.0), {}, 1.0, {}, jnp.float32(0.25)),
    )
    starts, ends, labels, _ = model.fresh_chains(jax.random.key(0), num, 4)
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
