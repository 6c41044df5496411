"""Image energies from configurations: refusals, samplers, accept ratios, runs and figures."""

import importlib.util
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiment_runs import EXPERIMENTS, rows_of, strict_json, summary_of

from ebmjax import samplers
from ebmjax.training import make_mesh
from ebmjax.training._block import make_block
from experiments import families, igebm_figures, igebm_parts
from experiments.configs import igebm_cifar10, igebm_digits, shortrun_cifar10
from experiments.errors import ConfigError
from experiments.igebm_assessment import over_training
from experiments.igebm_evaluation import anatomy
from experiments.igebm_literal import literal_mala
from experiments.igebm_samplers import bound, implied_temperature, temperature
from experiments.launch import build_or_explain, launch


def smoke(variant="", **overrides):
    """The smoke run of the digits with a variant's changes on top."""
    config = igebm_digits.get_config("smoke")
    changes = igebm_digits.VARIANTS.get(variant, {})
    sizes = ("sampler.num_steps", "sampler.num_samples")
    config.update_from_flattened_dict({k: v for k, v in changes.items() if k not in sizes})
    config.update_from_flattened_dict(overrides)
    return config


@pytest.mark.parametrize(
    ("variant", "overrides", "message"),
    [
        ("", {"data.num_classes": None, "model.is_conditional": True}, "of images with labels"),
        ("", {"sampler.names": ()}, "must be one or more different samplers"),
        ("", {"sampler.names": ("sgld", "sgld")}, "must be one or more different samplers"),
        ("", {"sampler.names": ("gibbs",)}, "config.sampler.names must be one of"),
        ("", {"sampler.box": "round"}, "config.sampler.box must be one of"),
        (
            "mixed",
            {"sampler.num_samples": 16},
            "must be a multiple of 3, so that 3 samplers on config.mesh.num_shards=1 shards",
        ),
        ("", {"sampler.buffer.size": 4}, "config.sampler.buffer.size must be at least 12"),
        ("conditional", {"sampler.buffer.size": 201}, "size must be a multiple of 10"),
        ("conditional", {"sampler.buffer.size": 110}, "size must be at least 120"),
        (
            "augmented",
            {"sampler.buffer.is_used": False},
            "config.sampler.buffer.is_used=False: set it to none",
        ),
        ("", {"loss.name": "beta", "loss.beta_end": -0.1}, r"allow_negative=True\.$"),
        ("", {"loss.name": "beta", "loss.beta_start": -0.1}, "must be 0 or more, got -0.1"),
        ("", {"loss.name": "beta", "loss.beta_end": 1.0}, "finite and below 1"),
        ("", {"loss.beta_end": 0.1}, "belong to the robust objective"),
        ("", {"loss.max_positive_weight": 0.9}, "belong to the robust objective"),
        ("improved", {"sampler.names": ("mala",)}, r"config.sampler.names must be \('sgld',\)"),
        ("improved", {"sampler.buffer.is_used": False}, "is_used must be True"),
        ("improved", {"loss.live_steps": 3}, "live_steps must be below config.sampler.num_steps=3"),
        ("improved", {"sampler.max_score": 1.0}, "unset config.sampler.max_score"),
        ("", {"model.num_scales": 4}, "cannot be halved"),
        ("", {"loss.name": "gan"}, "config.loss.name must be one of"),
    ],
)
def test_a_mistake_is_told(variant, overrides, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        build_or_explain(lambda: families.build(smoke(variant, **overrides), tmp_path))


def test_an_odd_batch_cannot_be_halved(tmp_path):
    changes = {"train.batch_size": 15, "loss.beta_variant": "true_objective"}
    with pytest.raises(ConfigError, match="batch_size must be even"):
        families.build(smoke("beta", **changes), tmp_path)


@pytest.mark.parametrize("name", ["mala", "tempered_mala", "literal_mala"])
def test_no_noise_cannot_be_taken_back(name, tmp_path):
    changes = {"sampler.names": (name,), f"sampler.{name}.noise_scale": 0.0}
    with pytest.raises(ConfigError, match=f"{name}.noise_scale=0.0 implies the temperature 0"):
        families.build(smoke(**changes), tmp_path)


def test_a_temperature_that_step_and_noise_do_not_imply_is_refused_by_its_value(tmp_path):
    changes = {"sampler.names": ("mala",), "sampler.mala.temperature": 1.0}
    with pytest.raises(ConfigError) as caught:
        families.build(smoke(**changes), tmp_path)
    assert "step_size=1 and noise_scale=0.01 imply the temperature 5e-05, not temperature=1" in str(
        caught.value
    )
    assert "config.sampler.allow_decoupled=True" in str(caught.value)
    families.build(smoke(**changes, **{"sampler.allow_decoupled": True}), tmp_path)
    families.build(smoke(**{**changes, "sampler.mala.temperature": 5e-5}), tmp_path)


def test_adapting_the_step_needs_noise_that_follows(tmp_path):
    changes = {"sampler.names": ("mala",), "sampler.target_acceptance": 0.5}
    with pytest.raises(ConfigError, match=r"unset .*noise_scale .*temperature=5e-05"):
        families.build(smoke(**changes), tmp_path)


def test_neither_noise_nor_temperature(tmp_path):
    with pytest.raises(ConfigError, match=r"config.sampler.sgld needs a noise_scale"):
        families.build(smoke(**{"sampler.sgld.noise_scale": None}), tmp_path)


@pytest.mark.parametrize("shape", [(2,), (8, 8, 2)])
def test_augmentation_of_what_is_no_image(shape):
    with pytest.raises(ConfigError, match=r"crops and recolours images of shape .height, width"):
        igebm_parts.augmentation(smoke("augmented"), shape)
    assert igebm_parts.augmentation(smoke(), shape) is None


def test_temperatures():
    config = smoke(**{"sampler.mala.step_size": 2.0, "sampler.mala.noise_scale": 0.4})
    assert implied_temperature(config, "mala") == temperature(config, "mala") == pytest.approx(0.04)
    assert implied_temperature(config, "hmc") == temperature(config, "hmc") == 5e-5
    config.sampler.mala.temperature = 1.0
    assert temperature(config, "mala") == 1.0
    assert implied_temperature(config, "mala") == pytest.approx(0.04)


def normal(x):
    return -0.5 * jnp.sum(x**2)


@pytest.mark.parametrize("name", ["mala", "tempered_mala", "hmc"])
def test_the_moves_of_a_sampler_aim_at_its_temperature(name):
    """Long chains on N(0, 1) at temperature 0.25: variance 0.25, whatever the sampler."""
    config = smoke(**{"sampler.box": "none"})
    section = config.sampler[name]
    section.temperature, section.step_size = 0.25, 0.5
    if name != "hmc":
        section.noise_scale = None
    sampler = bound(config, name, (2, 1, 1))(normal)
    starts = 0.5 * jax.random.normal(jax.random.key(0), (1000, 2, 1, 1))[..., 0, 0]

    @jax.jit
    def run(starts):
        step = samplers.batch_step(sampler.step)
        return samplers.run_chain(jax.random.key(1), jax.vmap(sampler.init)(starts), step, 20)[0]

    ends = np.asarray(run(starts).position)
    # 2000 numbers of a Gaussian's variance: 5 standard errors of sqrt(2 / 2000) each.
    assert np.var(ends) == pytest.approx(0.25, rel=5 * math.sqrt(2 / 2000))


def test_the_first_move_of_hmc_with_one_leapfrog_step_is_that_of_mala():
    """Its mean over the momenta, at a point: x + step score."""
    config = smoke(**{"sampler.box": "none", "sampler.hmc.num_integration_steps": 1})
    config.sampler.hmc.temperature, config.sampler.hmc.step_size = 0.04, 0.1
    sampler = bound(config, "hmc", (1, 1, 1))(normal)
    state = sampler.init(jnp.array([2.0]))
    _, infos = jax.vmap(sampler.step, (0, None))(jax.random.split(jax.random.key(0), 4000), state)
    proposed = np.asarray(infos.proposal.position)
    noise = math.sqrt(2 * 0.1 * 0.04)
    assert np.mean(proposed) == pytest.approx(2.0 - 0.1 * 2.0, abs=5 * noise / math.sqrt(4000))
    assert np.std(proposed) == pytest.approx(noise, rel=5 / math.sqrt(2 * 4000))


@pytest.mark.parametrize(("name", "box"), [("sgld", "project"), ("mala", "reject")])
def test_no_chain_leaves_its_box(name, box):
    config = smoke(**{"sampler.box": box, "sampler.low": -0.5, "sampler.high": 0.5})
    sampler = bound(config, name, (2, 1, 1))(lambda x: 10.0 * jnp.sum(x))
    state = sampler.init(jnp.array([0.45, -0.4]))
    for key in jax.random.split(jax.random.key(0), 5):
        state, _ = sampler.step(key, state)
    position = np.asarray(state.position)
    expected = [0.5, 0.5] if name == "sgld" else [0.45, -0.4]
    np.testing.assert_allclose(position, expected, rtol=1e-6)


def by_hand(x, y, step, noise_scale, ratio, proposal, t=1.0):
    """The accept probability on E = 3 + |x|^2 / 2, in float64."""
    energy = [3 + 0.5 * np.sum(z**2) for z in (x, y)]
    variance = 2 * step if proposal == "twice_step" else noise_scale**2
    there, back = (-np.sum((b - a + step * a) ** 2) / (2 * variance) for a, b in ((x, y), (y, x)))
    factor = energy[1] / energy[0] if ratio == "energies" else np.exp((energy[0] - energy[1]) / t)
    return min(1.0, max(factor, 0.0) * np.exp(back - there))


@pytest.mark.parametrize("ratio", ["energies", "exponentials"])
@pytest.mark.parametrize("proposal", ["twice_step", "noise"])
def test_the_literal_ratio_and_its_halves(ratio, proposal):
    step, noise_scale, x = 0.3, 0.4, jnp.array([0.7, -1.1, 0.2])
    density = lambda x: normal(x) - 3.0  # noqa: E731
    sampler = literal_mala(
        density,
        step_size=step,
        noise_scale=noise_scale,
        temperature=0.5,
        ratio=ratio,
        proposal=proposal,
    )
    reached = 0
    for key in jax.random.split(jax.random.key(1), 5):
        state, info = sampler.step(key, sampler.init(x))
        noise = noise_scale * jax.random.normal(jax.random.split(key)[0], (3,))
        y = np.asarray((1 - step) * x + noise, np.float64)
        expected = by_hand(np.asarray(x, np.float64), y, step, noise_scale, ratio, proposal, 0.5)
        assert float(info.acceptance_prob) == pytest.approx(expected, rel=1e-4)
        reached += 0 < expected < 1
        np.testing.assert_allclose(state.position, y if info.is_accepted else x, rtol=1e-5)
    assert reached >= 2


def test_a_ratio_of_energies_of_two_signs_is_never_accepted():
    sampler = literal_mala(lambda x: jnp.sum(x), step_size=1.0, noise_scale=1e-3)
    _, info = sampler.step(jax.random.key(0), sampler.init(jnp.array([-0.5])))
    assert float(info.acceptance_prob) == 0.0


def test_the_anatomy_of_a_move():
    """Of one start, against the ratios by hand; a curvature of 1 changes the score by the move."""
    x, step, noise_scale = jnp.array([0.7, -1.1, 0.2]), 0.3, 0.4
    energy = lambda x, label: 3.0 + 0.5 * jnp.sum(x**2, axis=-1)  # noqa: E731
    key = jax.random.key(4)
    found = anatomy(key, energy, x[None], jnp.zeros(1, jnp.int32), step, noise_scale)
    noise = noise_scale * jax.random.normal(jax.random.split(key, 1)[0], (3,))
    x, y = np.asarray(x, np.float64), np.asarray((1 - step) * x + noise, np.float64)
    implied = noise_scale**2 / (2 * step)
    expected = {
        "literal": by_hand(x, y, step, noise_scale, "energies", "twice_step"),
        "energies": by_hand(x, y, step, noise_scale, "energies", "noise"),
        "twice_step": by_hand(x, y, step, noise_scale, "exponentials", "twice_step"),
        "decoupled": by_hand(x, y, step, noise_scale, "exponentials", "noise"),
        "implied": by_hand(x, y, step, noise_scale, "exponentials", "noise", implied),
    }
    for name, value in expected.items():
        assert float(found[f"acceptance_{name}"]) == pytest.approx(value, rel=1e-4), name
    assert float(found["score_change"]) == pytest.approx(
        np.linalg.norm(y - x) / np.linalg.norm(x), rel=1e-5
    )
    drift = np.sum((step * x) ** 2) / noise_scale**2 / 3
    assert float(found["squared_drift_to_noise"]) == pytest.approx(drift, rel=1e-5)


VARIANTS = ("psgld_exact", "mala_literal", "tempered_mala", "multiscale", "conditional")
VARIANTS += ("improved", "augmented", "short_run", "beta_schedule", "bare_psgld")


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_makes_a_step_that_keeps_the_state(variant, tmp_path):
    """Traced, not compiled: the state that comes out has the shapes of the one that went in."""
    experiment = families.build(smoke(variant), tmp_path)
    block = make_block(experiment.train_step, make_mesh(1))
    images = jax.tree.map(np.asarray, experiment.data)
    indices = np.zeros((2, 1, 16), np.int32)
    state, metrics = jax.eval_shape(block, jax.random.key(0), experiment.state, images, indices)
    before = jax.eval_shape(lambda: experiment.state)
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), before
    )
    assert metrics["chain_acceptance_prob"].shape == (2,)


def test_beta_over_the_run():
    config = smoke("beta", **{"loss.beta_start": 0.0, "loss.beta_end": 0.4})
    beta = igebm_parts.beta_fn(config, 10)
    assert [float(beta(step)) for step in (0, 5, 10)] == pytest.approx([0.0, 0.2, 0.4])
    config.loss.beta_start = None
    assert igebm_parts.beta_fn(config, 10)(jnp.int32(3)) == 0.4
    assert igebm_parts.beta_fn(smoke(), 10)(jnp.int32(3)) == 0.0


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("igebm") / "run"
    config = smoke("mixed")
    assert launch(config, "configs/igebm_digits.py:smoke", str(workdir), "all") is None
    return workdir


def test_a_run_leaves_its_numbers_and_plots(finished):
    summary = summary_of(finished)
    for name in ("sample_fid", "acceptance_implied", "chain_mala_step_size", "sample_energy"):
        assert np.isfinite(summary[name]), name
    report = strict_json((finished / "evaluation.json").read_text())
    for name in ("short", "fresh", "buffer", "test_images"):
        assert report[name]["fid_classifier_features"] > 0
    assert report["short"]["num_images"] == report["fresh"]["num_images"] == 20
    assert set(report["mixing"]["by_sampler"]) == {"sgld", "mala", "hmc"}
    worst = max(one["rhat_energy"] for one in report["mixing"]["by_sampler"].values())
    assert report["mixing"]["rhat_energy"] == worst
    assert report["implied_temperature"] == report["samplers"]["mala"]["temperature"] == 5e-5
    # The averaged step size, no longer the one it began with.
    assert report["samplers"]["mala"]["step_size"] != 1.0
    fids = [row["sample_fid"] for row in rows_of(finished) if "sample_fid" in row]
    assert report["over_training"]["best_sample_fid"] == min(fids[1:])
    for name in ("training", "eval_samples", "eval_energies"):
        assert (finished / "plots" / f"{name}.png").stat().st_size > 5_000


def test_the_best_of_a_run():
    rows = [
        {"step": 0, "sample_fid": 1.0},
        {"step": 2, "sample_fid": 7.0, "chain_acceptance_prob": 0.5},
        {"step": 3, "chain_acceptance_prob": 0.0},
        {"step": 4, "sample_fid": 3.0, "chain_acceptance_prob": 0.25},
        {"step": 6, "sample_fid": None},
    ]
    assert over_training(rows) == {
        "first_sample_fid": 7.0,
        "first_step": 2,
        "best_sample_fid": 3.0,
        "best_step": 4,
        "lowest_acceptance": 0.0,
    }
    assert over_training(rows[:1]) == {}


def test_the_figures_of_a_study(finished, tmp_path):
    for row, seed in (("SGLD", 0), ("SGLD", 1), ("MALA,_adapted", 0)):
        folder = tmp_path / row / f"seed{seed}"
        folder.mkdir(parents=True)
        lines = (finished / "metrics.jsonl").read_text().splitlines(keepends=True)
        # One seed diverged halfway.
        (folder / "metrics.jsonl").write_text("".join(lines[: 4 if seed else None]))
    igebm_figures.acceptance(tmp_path)
    igebm_figures.damping(tmp_path)
    for name in ("acceptance", "damping"):
        assert (tmp_path / f"{name}.png").stat().st_size > 20_000


@pytest.mark.parametrize("name", ["igebm_mala", "igebm_lambda", "igebm_samplers"])
def test_every_row_of_the_studies_is_a_configuration(name):
    """Fields and variants exist, and the columns are told by a run's files."""
    path = EXPERIMENTS / "studies" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"study_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for study in getattr(module, "STUDIES", {"": getattr(module, "STUDY", None)}).values():
        for row in study.rows.values():
            file, *arguments = [row] if isinstance(row, str) else row
            name, _, variant = file.partition(":")
            configs = {"igebm_digits": igebm_digits, "igebm_cifar10": igebm_cifar10}
            fields = configs[name[len("configs/") : -len(".py")]].get_config(variant).to_dict()
            for argument in (*study.common, *arguments):
                section = fields
                *parents, last = argument.removeprefix("--config.").partition("=")[0].split(".")
                for part in parents:
                    section = section[part]
                assert last in section, argument


def test_the_columns_of_the_studies_are_numbers_of_a_run(finished):
    numbers = summary_of(finished) | json.loads((finished / "evaluation.json").read_text())
    for name in ("igebm_mala", "igebm_lambda", "igebm_samplers"):
        path = EXPERIMENTS / "studies" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"columns_{name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for study in getattr(module, "STUDIES", {"": getattr(module, "STUDY", None)}).values():
            for number, _, _ in study.columns.values():
                found = numbers
                for part in number.split("."):
                    assert part in found, number
                    found = found[part]


@pytest.mark.slow
@pytest.mark.parametrize("module", [igebm_cifar10, shortrun_cifar10])
def test_cifar_runs_on_mock_data(module, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (96, 32, 32, 3)).astype(np.uint8)
    from ebmjax import data

    def load(name, split, **options):
        assert name == "cifar10"
        del options
        num = 64 if split == "train" else 32
        return data.ImageData(images[:num], (np.arange(num) % 10).astype(np.int32))

    monkeypatch.setattr(data, "load_tfds", load)
    workdir = tmp_path / "run"
    assert launch(module.get_config("smoke"), "configs/x.py:smoke", str(workdir), "all") is None
    report = strict_json((workdir / "evaluation.json").read_text())
    assert report["fresh"]["num_images"] == 20
