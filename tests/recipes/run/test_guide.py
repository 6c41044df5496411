"""Samples that a class or another run guides: their law, their moves, and what is refused.

The command itself guides a trained run in ``test_joint_evaluate``.
"""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import build_experiment
from image_smoke import smoke
from scipy.special import log_softmax, logsumexp
from small_configs import configuration
from use_checks import command

from ebmjax.recipes.config.errors import ConfigError, WorkdirError
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.run import trained, use
from ebmjax.recipes.run.guidance import check_guidance
from ebmjax.recipes.run.guide import sample_guided
from experiments.configs import igebm_digits, jem_digits, thermo_digits, toy_beta, toy_samplers

# Densities that are known, in place of trained ones.

STEP, SIDE = 0.5, 8


def model_of(config, folder, **parts):
    experiment = build_experiment(config, folder)
    return replace(experiment.use(experiment.state), **parts)


def by_class(params, images, labels):
    """Energies: f(x, y) = y m - m^2 of the mean pixel m."""
    del params
    mean = jnp.mean(images, axis=(-3, -2, -1))
    return mean**2 - labels * mean


def logits_of(trained, images):
    """f(x, y) = -3 y m: darker images are of later classes."""
    del trained
    return -3.0 * jnp.outer(jnp.mean(images, axis=(1, 2, 3)), jnp.arange(10.0))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """An energy with classes whose chains move without noise, and a joint model."""
    config = smoke("conditional", **{"sampler.sgld.noise_scale": 0.0, "sampler.box": "none"})
    config.sampler.sgld.step_size = STEP
    make = tmp_path_factory.mktemp
    energy = model_of(config, make("energy"), energy_of=lambda p: lambda *x: by_class(p, *x))
    joint = model_of(configuration("joint"), make("joint"), logits_of=logits_of)
    return energy, joint


@pytest.mark.parametrize("label", [9, None])
@pytest.mark.parametrize("guided_by", ["its own classes", "another run"])
def test_a_step_is_that_of_both_log_densities(models, guided_by, label):
    """Without noise a step moves the mean pixel m by the step a pixel, times the slope in m."""
    energy, joint = models
    beta, weight, h = 0.25, 2.0, 1e-5
    energy = replace(energy, trained=energy.trained._replace(beta=jnp.float32(beta)))
    guide = energy if guided_by == "its own classes" else joint
    found = sample_guided(jax.random.key(1), energy, guide, label, weight, 5, 1)
    name = "guide_log_density" if label is None else "class_probability"
    starts, ends = found[f"start_{name}"].astype(float), found[name].astype(float)
    if label is not None:
        starts, ends = np.log(starts), np.log(ends)

    def classes(mean, slope):
        return slope * mean[:, None] * np.arange(10)

    def own(mean):
        return logsumexp(classes(mean, 1.0), axis=1) - mean**2

    def guidance(mean):
        """Log p(y | x), or log q(x)."""
        is_own = guide is energy
        logs = classes(mean, 1.0 if is_own else -3.0) - is_own * mean[:, None] ** 2
        return logsumexp(logs, axis=1) if label is None else log_softmax(logs, axis=1)[:, label]

    def followed(mean):
        return (1 - beta) * (own(mean) + weight * guidance(mean))

    grid = np.linspace(-0.5, 0.5, 200_001)  # its values are monotone, so they tell the mean pixel
    values = guidance(grid)
    order = np.argsort(values)
    assert np.array_equal(order, np.arange(len(grid))[:: 1 if order[0] == 0 else -1])
    means = np.interp(starts, values[order], grid[order])
    moved = means + STEP * (followed(means + h) - followed(means - h)) / (2 * h) / SIDE**2
    assert np.all(np.abs(guidance(moved) - guidance(means)) > 0.01)
    # The sums of float32 are of 64 pixels and 10 classes.
    np.testing.assert_allclose(ends, guidance(moved), rtol=1e-4)


def test_guided_chains_start_as_their_class_does(models):
    """And as all classes do in turn, where the class is another run's."""
    energy, joint = models

    def start(key, label):
        return jnp.full((SIDE, SIDE, 1), 0.05 * (label - 4))

    energy = replace(energy, plan=replace(energy.plan, start_fn=jax.tree_util.Partial(start)))
    own = sample_guided(jax.random.key(0), energy, energy, 9, 1.0, 5, 1)
    other = sample_guided(jax.random.key(0), energy, joint, 9, 1.0, 5, 1)
    of_class = lambda labels, slope: log_softmax(  # noqa: E731
        slope * 0.05 * (np.asarray(labels) - 4)[:, None] * np.arange(10), axis=1
    )[:, 9]
    np.testing.assert_allclose(np.log(own["start_class_probability"]), of_class([9] * 5, 1), 1e-4)
    np.testing.assert_allclose(
        np.log(other["start_class_probability"]), of_class(range(5), -3), 1e-4
    )


def test_two_runs_on_points_are_multiplied_exactly(tmp_path):
    """Gaussians: draws on the grid, whose mean and variance are those of the product."""
    config = toy_beta.get_config("smoke")
    model = model_of(config, tmp_path, log_density_of=lambda params: gaussian_at(0.5))
    guide = replace(model, log_density_of=lambda params: gaussian_at(-0.4))
    num, weight = 4000, 0.5
    found = sample_guided(jax.random.key(2), model, guide, None, weight, num)
    precision = (1 + weight) / SPREAD**2
    mean = (0.5 - weight * 0.4) / (1 + weight)
    errors = found["points"].mean(axis=0) - mean
    assert np.all(np.abs(errors) < 5 / np.sqrt(precision * num))
    ratios = found["points"].var(axis=0) * precision
    assert np.all(np.abs(ratios - 1) < 5 * np.sqrt(2 / num))
    np.testing.assert_allclose(
        found["guide_log_density"], gaussian_at(-0.4)(found["points"]), rtol=1e-5
    )


SPREAD = 0.3


def gaussian_at(mean):
    return lambda x: -0.5 * jnp.sum((x - mean) ** 2, axis=-1) / SPREAD**2


def config_of(file, **changes):
    config = file.get_config("smoke")
    config.update_from_flattened_dict(changes)
    return config


IMAGES, JOINT, LATENT = (config_of(file) for file in (igebm_digits, jem_digits, thermo_digits))
OPEN = config_of(jem_digits)  # as of a run whose images say how many classes there are
OPEN.data.num_classes = None
POINTS, CLASSIFIER = (
    config_of(toy_samplers),
    config_of(jem_digits, **{"loss.generative_weight": 0.0}),
)
LARGER, SPLIT = (
    config_of(jem_digits, **{"data.image_size": 16}),
    config_of(jem_digits, **{"sampler.name": "pyld"}),
)


@pytest.mark.parametrize(
    ("config", "guide", "label", "weight", "expected"),
    [
        (IMAGES, None, None, 2.0, "--guide_weight needs --guide=RUN, --class=NUMBER, or both"),
        (IMAGES, JOINT, 3, float("nan"), "--guide_weight must be finite, got nan"),
        (IMAGES, None, 3, None, "--class=3 needs a classifier, and this run is an energy without"),
        (IMAGES, IMAGES, 3, None, "--class=3 needs a classifier, and the guide is an energy witho"),
        (IMAGES, JOINT, 10, None, r"--class \(label=\) must be from 0 to 9, got 10"),
        (JOINT, None, -1, None, r"--class \(label=\) must be from 0 to 9, got -1"),
        (LATENT, JOINT, 3, None, "this run's family is latent"),
        (JOINT, LATENT, None, None, "--guide must be a run of the family energy or joint, got lat"),
        (IMAGES, POINTS, None, None, "same kind of data, images, got one on points"),
        (POINTS, JOINT, 3, None, "same kind of data, points, got one on images"),
        (IMAGES, LARGER, None, None, "on images of side 8, as this run's, got 16"),
        (CLASSIFIER, None, 3, None, "trained a classifier alone, which has no chains to guide"),
        (IMAGES, CLASSIFIER, None, None, "--guide is a classifier alone"),
        (SPLIT, None, 3, None, "move by the first layer of one network"),
    ],
)
def test_a_guide_that_cannot_be_one_is_refused(config, guide, label, weight, expected):
    with pytest.raises(ConfigError, match=expected) as refused:
        check_guidance(config, guide, label, weight)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("config", "guide", "label"),
    [
        (IMAGES, CLASSIFIER, 3),
        (IMAGES, JOINT, None),
        (JOINT, IMAGES, None),
        (JOINT, None, 0),
        (OPEN, None, 3),
    ],
)
def test_a_guide_that_can_be_one_is_taken(config, guide, label):
    check_guidance(config, guide, label, -0.5)


def test_code_that_a_guide_names_is_not_run(tmp_path):
    folder, out = tmp_path / "guide", tmp_path / "s.npz"
    folder.mkdir()
    guide = json.dumps(run_folder.as_json(configuration("joint")))
    (folder / "config.json").write_text(guide)
    given = [f"--workdir={tmp_path}", f"--out={out}", f"--guide={folder}", "--class=3"]
    parse = use.parser("sample").parse_args
    with pytest.raises(WorkdirError, match=r"--guide=.* names code from outside.*own_networks"):
        use._check_guide(out, JOINT, parse(given))
    use._check_guide(out, JOINT, parse([*given, "--allow_code"]))


def test_a_mistake_is_one_line_before_anything_is_loaded(finished, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(trained, "load", None)
    for further, expected in {
        "--class=3": "this run's family is linear",
        "--guide_weight=3": "--guide_weight needs --guide=RUN",
        f"--guide={tmp_path}": "is not the folder of a run",
    }.items():
        with pytest.raises(SystemExit) as ended:
            command(monkeypatch, "sample", finished, tmp_path / "s.npz", further)
        told = capsys.readouterr().err
        assert (ended.value.code, told.count("\n")) == (2, 1)
        assert expected in told
    assert list(tmp_path.iterdir()) == []
