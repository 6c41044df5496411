"""The log evidence of a run's models, by the methods that its configuration names."""

import jax
import numpy as np
from experiment_runs import digits
from test_latent_monitor import MODEL, PARAMS, TEST

from ebmjax import evaluate
from ebmjax.evaluate import _evidence
from ebmjax.recipes.models.latent import checks
from ebmjax.recipes.models.latent import evidence as latent_evidence


def test_every_repeat_has_its_model_and_the_settings_of_the_run(monkeypatch):
    asked = []

    def recorded(key, params, model, images, **settings):
        asked.append((key, params, len(images), settings))
        return {"ais": {"log_evidence": np.arange(2.0) + len(asked), "mean": np.float64(1.5)}}

    monkeypatch.setattr(evaluate, "evidence", recorded)
    keys = list(jax.random.split(jax.random.key(0), 2))
    fields = {"eval.evidence.methods": ("ais",), "eval.evidence.num_images": 2}
    config = digits(**fields)
    found = latent_evidence.compare(keys, [PARAMS, "other"], MODEL, TEST, config)
    assert found["ais"]["log_evidence"].tolist() == [[1.0, 2.0], [2.0, 3.0]]
    assert [one[:3] for one in asked] == [(keys[0], PARAMS, 2), (keys[1], "other", 2)]
    section = config.eval.evidence
    assert asked[0][3] == {
        "latent_dim": config.model.latent_dim,
        "methods": ("ais",),
        "num_chains": section.num_chains,
        "num_intervals": section.num_intervals,
        "num_steps": section.num_steps,
        "step_size": section.step_size,
        "with_divergences": section.divergences,
    }


def test_fields_are_checked_by_what_the_methods_need():
    """``checks`` has numbers of its own, because it needs no JAX."""
    assert checks.SMC_REPEATS == checks.JACKKNIFE_GROUPS == _evidence.NUM_GROUPS
