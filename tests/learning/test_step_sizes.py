"""Step sizes of image energies' chains that find an acceptance in training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.optimizers.dual_averaging import dual_averaging as blackjax_dual_averaging
from image_problem import (
    KEY,
    PARAMS,
    batch,
    image_gradient_fn,
    negatives,
    shard_of,
)
from training_problems import settled

from ebmjax._dual_averaging import dual_averaging_init, dual_averaging_update
from ebmjax.learning import (
    ChainKind,
)
from ebmjax.samplers import mala


def test_dual_averaging_against_blackjax():
    init, update, _ = blackjax_dual_averaging(t0=10, gamma=0.05, kappa=0.75)
    theirs, ours, average = init(0.3), dual_averaging_init(0.3), np.log(0.3)
    for count, acceptance in enumerate((0.1, 0.9, 0.4, 0.57, 1.0, 0.0), 1):
        theirs = update(theirs, 0.57 - acceptance)
        ours = dual_averaging_update(ours, jnp.float32(acceptance), step_size=0.3, target=0.57)
        assert float(ours.log_step_size) == pytest.approx(float(theirs.log_x), rel=1e-4)
        # BlackJAX averages the step sizes before this one; Hoffman & Gelman, and this, with it.
        average += count**-0.75 * (float(ours.log_step_size) - average)
        assert float(ours.log_average) == pytest.approx(average, rel=1e-5)


@pytest.mark.slow
def test_a_step_size_finds_its_acceptance_in_training_and_keeps_its_floor():
    """MALA on a Gaussian of variance 1 / 0.8 in four dimensions, from a step far too long."""
    kind = {"sampler": mala, "num_steps": 5, "target_acceptance": 0.57, "step_size": 20.0}
    draw = negatives(num_classes=1, num_samples=64, kinds={"mala": ChainKind(**kind)})
    step = jax.jit(settled(image_gradient_fn(draw)))
    carry, seen = shard_of(draw, 64), []
    for key in jax.random.split(KEY, 200):
        _, carry, metrics = step(key, PARAMS, carry, batch())
        seen.append(float(metrics["chain_acceptance_prob"]))
    # 64 chains of 4 reported steps: an error of at most 0.5 / 16 in each, averaged over 100, and
    # what dual averaging leaves: the mean error tends to 0, as 0.05 log(200) / 14 = 0.02.
    assert np.mean(seen[100:]) == pytest.approx(0.57, abs=0.05)
    assert float(metrics["chain_step_size"]) < 20.0
    floored = dual_averaging_init(0.3)
    for _ in range(5):
        floored = dual_averaging_update(
            floored, jnp.float32(0), step_size=0.3, target=0.57, min_step_size=0.01
        )
    assert float(floored.log_step_size) == pytest.approx(np.log(0.01), rel=1e-6)


@pytest.mark.parametrize("num_bad", [5, 50, 500])
@pytest.mark.parametrize(("acceptance", "most"), [(1.0, 1), (0.62, 3)])
def test_a_step_size_leaves_its_floor_at_once(num_bad, acceptance, most):
    """However long nothing was accepted. Slightly better moves than wanted take it off as well."""
    options = {"step_size": 0.3, "target": 0.57, "min_step_size": 0.01}
    state, log_min = dual_averaging_init(0.3), np.log(np.float32(0.01))
    update = jax.jit(lambda state, acceptance: dual_averaging_update(state, acceptance, **options))
    for _ in range(num_bad):
        state = update(state, 0.0)
    assert float(state.log_step_size) == pytest.approx(log_min, rel=1e-6)
    for _ in range(most):
        state = update(state, acceptance)
    assert float(state.log_step_size) > log_min + 1e-3
