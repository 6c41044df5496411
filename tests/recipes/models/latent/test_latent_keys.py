"""No key of a latent EBM's run serves twice."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import digits

from ebmjax.recipes.models import build
from ebmjax.recipes.models.latent import evidence as latent_evidence
from ebmjax.recipes.models.latent import setup as thermo
from ebmjax.recipes.models.latent.evaluate import LatentEvaluation
from ebmjax.recipes.models.latent.monitor import LatentMonitor, PriorSamples, Programs


def numbers(*keys):
    """Keys as tuples of integers, to be compared."""
    return [tuple(jax.random.key_data(key).tolist()) for key in keys]


def test_persistent_chains_start_by_a_key_of_their_own(tmp_path, monkeypatch):
    used = []
    init_shards = thermo.init_latent_carry

    def record(key, **sizes):
        used.extend(numbers(key))
        return init_shards(key, **sizes)

    monkeypatch.setattr(thermo, "init_latent_carry", record)
    thermo.build(digits(**{"sampler.persistent": True}), tmp_path)
    roots = build.root_keys(digits())
    assert len(used) == 1
    # The networks' keys are the two that the first of the roots is split into.
    assert used[0] not in numbers(*roots, *jax.random.split(roots[0]))


@pytest.fixture
def used(monkeypatch):
    """The keys that draw something in a full evaluation, filled while it runs."""
    drawn = []

    def draw(answer):
        def fake(key, *_, **__):
            drawn.extend(numbers(key))
            return answer

        return fake

    def generation(self, keys, params, diverged):
        drawn.extend(numbers(*(part for k in keys for part in jax.random.split(k.distances))))
        return {}

    def compare(keys, *_):
        drawn.extend(numbers(*keys, *(jax.random.fold_in(key, i) for key in keys for i in (0, 1))))
        return {}

    programs = Programs(
        sample=draw(PriorSamples(*[jnp.zeros((1, 8, 8, 1))] * 2, *[jnp.zeros((1, 2))] * 2)),
        reconstructions=draw(({}, jnp.zeros((1, 8, 8, 1)))),
        evidence=draw({}),
        gradient=draw(None),
        gradient_variance=lambda _: {"mean_coordinate_gradient_variance": 0.0},
    )
    monkeypatch.setattr(LatentMonitor, "programs", programs)
    monkeypatch.setattr(LatentMonitor, "_gradients", lambda self, key, _: draw([])(key))
    monkeypatch.setattr(LatentEvaluation, "_generation", generation)
    monkeypatch.setattr(LatentEvaluation, "_cost", lambda self, key, *_: draw({})(key))
    monkeypatch.setattr(latent_evidence, "compare", compare)
    return drawn


def test_the_full_evaluation_draws_by_keys_of_its_own(used, tmp_path):
    config = digits(**{"train.num_repeats": 2})
    monitor = LatentMonitor(
        workdir=tmp_path,
        model=None,
        chains={},
        powers=np.zeros(1),
        gradient_fn=None,
        train=None,
        test=np.zeros((1, 8, 8, 1), np.uint8),
        distances=SimpleNamespace(along_training=lambda *_: {}),
        interval=1,
        config=config,
    )
    test = SimpleNamespace(images=np.zeros((1, 8, 8, 1), np.uint8))
    state = SimpleNamespace(
        params={"weight": np.zeros((2, 1))},
        skipped=np.zeros(2),
        consecutive_skipped=np.zeros(2),
        step=3,
    )
    LatentEvaluation(monitor=monitor, test=test, config=config)(state)
    # Of each repeat 4 along training, 2 for samples and 3 for evidence; one for the cost.
    assert len(used) == 2 * (4 + 2 + 3) + 1
    assert len(set(used)) == len(used)
