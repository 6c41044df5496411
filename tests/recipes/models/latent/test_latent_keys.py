"""No key of a latent EBM's run serves twice."""

import jax
import numpy as np
from experiment_runs import digits
from test_latent_evaluators import TEST, linear

from ebmjax import evaluate
from ebmjax.recipes.evaluators import generation
from ebmjax.recipes.evaluators.evaluations import make_evaluators
from ebmjax.recipes.models import build
from ebmjax.recipes.models.latent import model as latent_model
from ebmjax.recipes.models.latent import setup as thermo


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


def test_the_full_evaluation_draws_by_keys_of_its_own(monkeypatch):
    used = []

    def draw(answer):
        def fake(key, *_, **__):
            used.extend(numbers(key))
            return answer

        return fake

    def each(params, keys, images):
        used.extend(numbers(*keys))
        return {}

    images, latents, params = np.zeros((1, 2, 1, 1)), np.zeros((1, 2)), {"weight": np.zeros(1)}
    along = {"reconstruction_error": 0.0, "mean_log_likelihoods": np.zeros(3)}
    config = digits(**{"train.batch_size": 3})
    section = config.evals
    drawn = draw((images, images, latents, latents))
    programs = {
        ("prior", section.samples.num_images, 40): drawn,
        ("prior", section.generation.num_images, 40): drawn,
        "reconstruction": draw((along, latents, np.zeros(1))),
        ("evidence", section.evidence.num_chains, True): each,
        "gradient": draw((None,)),
        "gradient_variance": lambda gradients: {},
    }
    monkeypatch.setattr(evaluate, "evidence", draw({}))
    monkeypatch.setattr(evaluate, "along_training", lambda *_: {})
    monkeypatch.setattr(evaluate, "generation", lambda *_: {"fresh": {}})
    monkeypatch.setattr(generation, "scores_at_sizes", lambda key, *_: draw({})(key))
    monkeypatch.setattr(generation, "_list_places", lambda *_: [({}, images, ())])
    monkeypatch.setattr(latent_model, "cost", lambda fn, key, *_, **__: draw({})(key))
    parts = {"trained": params, "distances": None, "programs": programs}
    model = linear(config=config, is_finished=True, **parts)
    model.about()
    for evaluator in make_evaluators(config).values():
        evaluator.function(build.root_keys(config)[2], model, TEST)
    # Samples, powers, images of the evidence, gradients; generation, sizes, methods, cost.
    num = section.evidence.num_images + section.gradient_variance.num_gradients
    assert len(used) == 2 + num + 4
    assert len(set(used)) == len(used)
