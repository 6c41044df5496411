"""Chains of training step by step: where they start, what is kept of them, and their figure."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.learning import ChainKind, ChainPlan, JointNetwork
from ebmjax.networks import NormPolicy
from ebmjax.recipes.evaluators import profile as chain_profiles
from ebmjax.recipes.models.energy.checks import find_samplers
from ebmjax.recipes.models.energy.model import EnergyModel
from ebmjax.recipes.parts.samplers import bind_sampler
from ebmjax.samplers import ReplayBuffer, uniform_start
from experiments.configs import jem_digits

NUM_CLASSES, SHAPE = 10, (2, 2, 1)


def of_level(params: Any, statistics: Any, x: jax.Array, **_: Any) -> Any:
    """Logits that are 0 where an image is as bright as its class, and else below."""
    levels = jnp.arange(NUM_CLASSES) / NUM_CLASSES
    brightness = jnp.mean(x, axis=(-3, -2, -1))[..., None]
    return -100.0 * jnp.square(brightness - levels), statistics


CLASSIFIER: Any = SimpleNamespace(apply=of_level, first_layer=None, head=None)


def state_of(positions: Any) -> Any:
    buffer = () if positions is None else ReplayBuffer(positions)
    shards = SimpleNamespace(buffer=buffer, statistics={}, smoothing=jnp.ones(1), adaptation={})
    shards.step = jnp.zeros(1)
    return SimpleNamespace(params={}, carry=shards)


def profile_fn(**overrides: Any) -> Any:
    config = jem_digits.get_config("smoke")
    changes = {"sampler.num_steps": 3, "sampler.sgld.noise_scale": 0.0}
    changes |= {"evals.profile.every": 1, "evals.profile.num_chains": 20}
    config.update_from_flattened_dict(changes | overrides)
    name = config.sampler.name
    kind = ChainKind(
        sampler=bind_sampler(find_samplers(config)[name], config.sampler),
        num_steps=3,
        is_interacting=name == "svgd",
        axis_name=("data", "shard") if name == "svgd" else None,
    )
    plan = ChainPlan(
        kinds={name: kind},
        num_samples=8,
        start_fn=uniform_start(SHAPE, -1.0, 1.0),
        reinit_prob=0.05,
        num_classes=NUM_CLASSES if config.model.is_conditional else 1,
    )
    nothing: Any = None
    network = JointNetwork(CLASSIFIER, CLASSIFIER, NormPolicy(), config.model.is_conditional)
    model = EnergyModel(
        plan=plan,
        train=nothing,
        distances=nothing,
        config=config,
        network=network,
        logits_fn=nothing,
    )
    key, num = jax.random.key(0), config.evals.profile.num_chains
    return lambda state: (
        chain_profiles.profile(key, model.at(state), nothing, num_chains=num).arrays
    )


BLOCKS = jnp.repeat(jnp.arange(NUM_CLASSES) / NUM_CLASSES, 10)
BUFFER = jnp.broadcast_to(BLOCKS[:, None, None, None], (2, 100, *SHAPE))
"""Buffer of two shards: ten slots a class, each as bright as its class."""


def test_a_conditional_chain_goes_on_from_its_class() -> None:
    """At the top of its logit a chain without noise stays: log density 0, no displacement."""
    found = profile_fn(**{"model.is_conditional": True})(state_of(BUFFER))
    assert set(found) == {
        f"profile.sgld.{name}"
        for name in ("acceptance_prob", "displacement", "log_density", "score_norm")
    }
    # Four roundings of one in 1e-7 each, squared, times 100.
    np.testing.assert_allclose(found["profile.sgld.log_density"], np.zeros(3), atol=1e-10)
    np.testing.assert_allclose(found["profile.sgld.displacement"], np.zeros(3), atol=1e-12)


def test_without_classes_a_chain_follows_the_density_of_images() -> None:
    """The logsumexp at the tops of the logits, where a step of nearly nothing leaves it."""
    found = profile_fn(**{"sampler.sgld.step_size": 1e-9})(state_of(BUFFER))
    levels = np.arange(NUM_CLASSES) / NUM_CLASSES
    at_tops = np.log(np.sum(np.exp(-100.0 * (levels[:, None] - levels) ** 2), axis=1))
    np.testing.assert_allclose(found["profile.sgld.log_density"], np.mean(at_tops), rtol=1e-4)


def test_particles_move_together_without_the_axes_of_training() -> None:
    found = profile_fn(**{"sampler.name": "svgd"})(state_of(BUFFER))
    for number in ("direction_norm", "bandwidth", "displacement"):
        assert found[f"profile.svgd.{number}"].shape == (3,)
        assert np.all(found[f"profile.svgd.{number}"] > 0)


def test_without_a_buffer_chains_begin_at_their_start_distribution() -> None:
    assert profile_fn()(state_of(None))["profile.sgld.displacement"].shape == (3,)
