"""The parts of a full evaluation on models whose answers are known, without a run."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import build_experiment
from linear_model import ENERGY, EPS, MODEL, WEIGHTS, chain_plan
from scipy.special import logsumexp

from ebmjax import data, evaluate, samplers
from ebmjax.learning import ANY_CLASS, JointNetwork
from ebmjax.networks import SADA_JEM_POLICY, NormPolicy, WideResNet, from_linen
from ebmjax.optim import average_parameters
from ebmjax.recipes.config import families
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.evaluators.robustness import robustness
from ebmjax.recipes.models.energy import checks
from ebmjax.recipes.models.energy.model import Trained
from experiments.configs import jem_digits


def smoke(**overrides):
    config = jem_digits.get_config("smoke")
    config.update_from_flattened_dict(overrides)
    return config


pytestmark = pytest.mark.usefixtures("shallow")


def test_a_trained_model_has_the_mean_of_its_shards():
    shards = SimpleNamespace(
        smoothing=jnp.array([1.0, 3.0]),
        statistics={
            "mean": jnp.array([[0.0, 4.0], [2.0, 0.0]]),
            "count": jnp.array([3, 3]),
            "is_first": jnp.array([False, False]),
        },
        adaptation={},
        step=jnp.zeros(2),
    )
    model = replace(ENERGY, config=smoke())
    found = model.at(SimpleNamespace(params=np.ones(1), carry=shards)).trained
    assert (float(found.params[0]), float(found.scale)) == (1.0, 0.5)
    np.testing.assert_array_equal(found.statistics["mean"], [1.0, 2.0])
    assert (found.statistics["count"].dtype, int(found.statistics["count"])) == (jnp.int32, 3)
    assert found.statistics["is_first"].dtype == bool


def test_a_trained_model_has_the_averaged_parameters_where_they_are_kept():
    optimizer = average_parameters(0.5)
    params = jnp.array([4.0])
    _, opt_state = optimizer.update(jnp.array([2.0]), optimizer.init(params), params)
    carry = SimpleNamespace(smoothing=jnp.ones(1), statistics={}, adaptation={}, step=jnp.zeros(1))
    state = SimpleNamespace(params=jnp.array([6.0]), opt_state=opt_state, carry=carry)
    for decay, expected in ((0.5, 5.0), (0.0, 6.0)):
        model = replace(ENERGY, config=smoke(**{"optimizer.average_decay": decay}))
        assert model.at(state).params == expected


@pytest.mark.parametrize("label", [ANY_CLASS, 0, 1])
def test_the_density_of_chains(label):
    x = np.array([0.3, -0.2, 0.7], np.float32)
    logits = x @ WEIGHTS
    expected = 0.5 * (logsumexp(logits) if label < 0 else logits[label])
    density = ENERGY.densities_of(MODEL)(jnp.int32(label))
    position = jnp.asarray(x).reshape(3, 1, 1)
    assert density(position) == pytest.approx(expected, rel=20 * EPS)
    composed = density.head(density.first_layer(position))
    assert composed == pytest.approx(expected, rel=20 * EPS)


def test_fresh_chains_start_from_their_class_and_climb_its_logit():
    labels = np.array([[0, 1], [1, ANY_CLASS]], np.int32)
    turns = np.array([[0, 1], [1, 1]], np.int32)
    run = replace(ENERGY, plan=chain_plan())._make_chains(7)
    found = run(jax.random.key(0), MODEL, chain_plan().start_fn, turns, labels)
    starts, ends = map(np.concatenate, found)
    assert starts.shape == ends.shape == (4, 3, 1, 1)
    for i, label in enumerate([0, 1, 1]):
        np.testing.assert_array_equal(starts[i], np.full((3, 1, 1), label))
        expected = label + 7 * 0.1 * 0.5 * WEIGHTS[:, label]
        np.testing.assert_allclose(ends[i].ravel(), expected, rtol=40 * EPS, atol=0)
    # Between the two starts' paths of the joint density: it lies within 7 steps of either start.
    free = np.asarray(ends[3]).ravel()
    assert min(np.abs(free - start).max() for start in (0, 1)) <= 7 * 0.05 * 3.0
    # After one such step each is nearest to its own start, and some of either class are drawn.
    many, turns = np.full((2, 8), ANY_CLASS, np.int32), np.arange(16).reshape(2, 8) % 2
    run = replace(ENERGY, plan=chain_plan())._make_chains(1)
    starts, ends = run(jax.random.key(1), MODEL, chain_plan().start_fn, turns, many)
    assert np.unique(np.round(ends)).tolist() == [0.0, 1.0]
    np.testing.assert_array_equal(np.round(ends), starts)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [NormPolicy(chains="running"), SADA_JEM_POLICY])
def test_generated_chains_are_normalised_as_those_of_training(policy):
    """Normalises by the batch of the chains, or by running averages that are far from it."""
    network = from_linen(WideResNet(10, 1, 2, norm="batch"))
    starts = jax.random.uniform(jax.random.key(1), (4, 8, 8, 1), minval=-1.0)
    params, statistics = jax.jit(network.init)(jax.random.key(0), starts)
    joint = JointNetwork(network, network, policy, is_conditional=False)
    of_training = joint.densities(params, statistics, 0.25)(jnp.int32(0))
    model = Trained(params, statistics, jnp.float32(0.25), {})
    found = replace(ENERGY, network=joint).densities_of(model)(jnp.int32(ANY_CLASS))

    def split(x):
        return found.head(found.first_layer(x))

    values = [
        np.asarray(jax.jit(jax.vmap(density, axis_name="chains"))(starts))
        for density in (of_training, found, split)
    ]
    # The same sums of some hundred terms of order one, compiled apart.
    np.testing.assert_allclose(values[1], values[0], rtol=200 * EPS)
    np.testing.assert_allclose(values[2], values[0], rtol=200 * EPS)
    running = joint._replace(policy=NormPolicy(chains="running"))
    plain = replace(ENERGY, network=running).densities_of(model)(jnp.int32(ANY_CLASS))
    by_averages = np.asarray(jax.jit(jax.vmap(plain))(starts))
    far = np.abs(by_averages - values[1]).max() > 1e-2
    assert far == (policy.chains == "batch")


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_images_are_refined_by_chains_that_move_alone(weight):
    changes = {"evals.robustness.refine_steps": 2, "loss.generative_weight": weight}
    with pytest.raises(
        ConfigError, match=r"config\.evals\.robustness\.refine_steps needs chains that move"
    ):
        checks.check(smoke(**changes, **{"sampler.name": "svgd"}))


def test_a_classifier_alone_is_refined_up_its_own_density(tmp_path):
    """Two steps of gradient ascent on the log of the sum of its exponential logits."""
    config = smoke(
        **{
            "loss.generative_weight": 0.0,
            "evals.robustness.refine_steps": 2,
            "sampler.name": "gradient_descent",
            "sampler.gradient_descent.step_size": 0.5,
        }
    )
    families.check(config)
    experiment = build_experiment(config, tmp_path)
    model = experiment.use(experiment.state)
    refine = model.refinement(2)
    x = np.asarray(data.to_signed_unit(jnp.asarray(model.train.images[:3])))
    score = jax.jit(jax.grad(lambda x: jnp.sum(jax.nn.logsumexp(model.logits(x), axis=1))))
    expected, largest = x, 0.0
    for _ in range(2):
        slopes = np.asarray(score(expected))
        largest = max(largest, np.abs(slopes).max())
        expected = np.clip(expected + 0.5 * slopes, -1.2, 1.2)
    # Slopes are sums of some hundred terms; the second adds what the first one's rounding moves.
    got = jax.jit(refine)(model.trained, jax.random.key(0), jnp.asarray(x))
    np.testing.assert_allclose(got, expected, rtol=0, atol=500 * EPS * largest)
    assert np.abs(expected - x).max() > 1e-3
    assert model.plan is None


def test_refined_images_are_attacked_beside_plain_ones(tmp_path, monkeypatch):
    """The plain ones as where nothing is refined; both by the same model, the same images."""
    asked = []

    def attack(key, logits_fn, test, *, transform=None, **settings):
        images = data.to_signed_unit(jnp.asarray(test.images))
        if transform is not None:
            images = jax.jit(transform)(key, images)
        asked.append((key, jax.jit(logits_fn)(images), len(test.labels), settings))
        return {"protocol": {"number": len(asked)}, "per_image": {"l2.64": np.ones(2, bool)}}

    monkeypatch.setattr(evaluate, "robustness", attack)
    key = jax.random.key(3)

    def reported(**overrides):
        config = smoke(**overrides)
        experiment = build_experiment(config, tmp_path)
        fields = {k: v for k, v in config.evals.robustness.items() if k != "every"}
        test = experiment.evaluate.__self__.tests[1]
        found = robustness(key, experiment.use(experiment.state), test, **fields)
        return found.report["robustness"], found.per_image

    assert reported()[0] == {"protocol": {"number": 1, "refine_steps": 0}}
    found, per_image = reported(
        **{"evals.robustness.refine_steps": 2, "evals.robustness.num_eot": 3}
    )
    assert found["protocol"] == {"number": 2, "refine_steps": 0}
    assert found["refined"]["protocol"] == {"number": 3, "refine_steps": 2}
    assert set(per_image) == {"robustness.l2.64", "robustness.refined.l2.64"}
    alone, plain, refined = asked
    assert alone[0] == plain[0]
    assert refined[0] != plain[0]
    np.testing.assert_array_equal(plain[1], alone[1])
    # Two moves of the network's own score and noise of 0.01: nothing that rounding would do.
    assert np.abs(np.asarray(refined[1] - plain[1])).max() > 1e-3
    assert [one[2] for one in asked] == [16, 16, 16]
    assert refined[3].pop("gradients") == ("bpda", "full")
    assert refined[3] == plain[3]
    assert plain[3]["num_steps"] == smoke().evals.robustness.num_steps


def refinement(plan, num_steps):
    def refine(model, key, images):
        labels = jnp.full(len(images), ANY_CLASS)
        energy = replace(ENERGY, plan=plan)
        return energy.move(key, model, images, labels, num_steps)

    return refine


def proximal(density):
    """SADA-JEM's chains, whose drift is clipped in a box, and noise on top."""
    made = samplers.clip_drift(samplers.sgld, 0.1)
    return samplers.clamp(made, -1.0, 1.0)(density, step_size=0.5, noise_scale=0.01)


@pytest.mark.parametrize("sampler", [partial(samplers.gradient_descent, step_size=0.3), proximal])
def test_the_full_gradient_is_that_of_the_chain(sampler):
    """Against differences in float64; the box stops one pixel and the clip another."""
    with jax.enable_x64(True):
        refine = refinement(chain_plan(sampler=sampler), 5)
        weights = jnp.array([1.0, -0.7, 0.4])
        images = jnp.array([[0.3, -0.2, 0.7], [0.1, 0.9, -0.9], [-0.99, 0.98, 0.0]])

        @jax.jit
        def value(x):
            refined = refine(MODEL, jax.random.key(0), x.reshape(3, 3, 1, 1))
            return jnp.sum(jnp.sin(refined.reshape(3, 3) @ weights))

        x, step = np.asarray(images, np.float64), 1e-5
        differences = np.zeros_like(x)
        for place in np.ndindex(x.shape):
            shift = np.zeros_like(x)
            shift[place] = step
            differences[place] = (value(x + shift) - value(x - shift)) / (2 * step)
        gradient = np.asarray(jax.jit(jax.grad(value))(x))
        # Third derivatives are below 100: an error of step^2 100 / 6, and rounding of 1e-16 / step.
        np.testing.assert_allclose(gradient, differences, rtol=0, atol=1e-8)
    identity = np.cos(np.asarray(images) @ np.asarray(weights))[:, None] * np.asarray(weights)
    assert np.abs(gradient - identity).max() > 0.1, "BPDA's gradient is another"
