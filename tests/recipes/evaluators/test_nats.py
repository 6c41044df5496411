"""Nats of images and points whose log Z is known."""

import csv
import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from experiment_runs import command

import ebmjax
from ebmjax import data, evaluate
from ebmjax.evidence import Estimate
from ebmjax.recipes.config.families import is_points
from ebmjax.recipes.evaluators import nats
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.run import trained
from ebmjax.samplers import FactorGaussian, fit_autoregressive
from experiments.configs import jem_digits, thermo_digits, toy_beta

RNG = np.random.default_rng(0)
LEVELS = np.clip(RNG.normal(128, 30, (400, 2, 2, 1)), 0, 255).astype(np.uint8)
IMAGES = data.ImageData(LEVELS, RNG.integers(0, 3, 400))
OPTIONS = {"num_chains": 64, "num_powers": 100, "temperature": None, "flow_minutes": 0.0}
MEAN, SCALE = 0.7, 0.3
"""Centre and deviation of the model: beyond the wall at 0.9 lies a quarter of every pixel."""


def model_of_images(temperature=1.0):
    """Two classes whose densities add up to three times a Gaussian in a box, in units of T."""
    config = jem_digits.get_config()
    config.data.num_classes, config.data.noise_scale = 3, 0.03
    config.sampler.box, config.sampler.low, config.sampler.high = "reflect", -1.1, 0.9

    def log_density(scale, x):
        quadratic = -0.5 * jnp.sum((x - MEAN) ** 2) / scale**2
        return jax.nn.logsumexp(temperature * quadratic + jnp.log(3 * jnp.array([0.2, 0.8])))

    return SimpleNamespace(
        train=IMAGES,
        config=config,
        trained=SCALE,
        log_density=log_density,
        about=lambda: {"temperature": 0.01},
        tilted=lambda: None,
    )


@pytest.mark.slow
def test_images_are_normalised_in_their_box():
    model, key = model_of_images(), jax.random.key(1)
    found = nats.normalise(jax.random.key(0), model, **OPTIONS)
    assert found.found.is_closed
    inside = np.diff(scipy.stats.norm.cdf([-1.1, 0.9], MEAN, SCALE))[0]
    log_z = np.log(3) + 4 * np.log(SCALE * np.sqrt(2 * np.pi) * inside)
    assert found.found.interval[0] < log_z < found.found.interval[1]
    scores = found.score(LEVELS[:50], key)
    x = data.dequantise(jax.random.split(key)[0], jnp.asarray(LEVELS[:50]))
    x = np.asarray(x, np.float64).reshape(50, 4)
    truth = np.sum(scipy.stats.norm.logpdf(x, MEAN, SCALE) - np.log(inside), axis=1)
    assert np.all((scores["nats_low"] < truth) & (truth < scores["nats_high"]))
    bits = -(scores["nats_high"] + 4 * np.log(2 / 256)) / (4 * np.log(2))
    np.testing.assert_allclose(scores["bits_low"], bits)
    assert np.all(scores["bits_low"] < scores["bits"])
    report = found.summarise(scores)
    assert report["nats"] == pytest.approx(np.mean(truth), abs=0.2)
    best = scores[f"{report['best']['name']}_nats"]
    assert report["best"]["difference"] == pytest.approx(np.mean(scores["nats"] - best))
    assert report["best"]["low"] < report["best"]["difference"]
    assert report["best"]["nats"] > report["baselines"]["uniform"]["nats"]
    assert "uniform" not in report["noisy"]["baselines"]
    away = np.mean(scores["noisy_nats"] - truth)  # E log p falls by d sigma^2 / 2 s^2
    spread = np.std(scores["noisy_nats"] - truth) / np.sqrt(50)
    assert away == pytest.approx(-4 * 0.03**2 / (2 * SCALE**2), abs=5 * spread + 0.2)


def test_a_base_that_redraws_is_the_base_of_log_z():
    """f = 3 gives log Z = 3: the model is its base."""
    classes = np.zeros(400, int)
    q, _ = fit_autoregressive(LEVELS, classes, np.arange(400) < 100, num_steps=2, width=4)
    model = model_of_images()
    model.tilted = lambda: (q, lambda x: jnp.float32(3.0) + 0 * x.sum(), 0.01)
    found = nats.normalise(jax.random.key(0), model, **OPTIONS)
    assert (found.temperature, found.found.is_closed) == (0.01, True)
    scores = found.score(LEVELS[:20], jax.random.key(1))
    np.testing.assert_allclose(scores["nats"], scores["base_nats"], atol=1e-3)
    np.testing.assert_allclose(found.found.interval, 3.0, atol=1e-4)


@pytest.mark.parametrize("temperature", [None, "chains"])
def test_a_base_of_gaussians_is_scored_as_any_density(temperature, monkeypatch):
    """At the temperature of its chains."""
    monkeypatch.setattr(evaluate, "normalise", lambda *args, **options: options)
    model = model_of_images()
    model.tilted = lambda: (FactorGaussian(*5 * [0.0]), jnp.sum, 0.5)
    options = nats.normalise(jax.random.key(0), model, temperature=temperature)
    assert (options["tilted"], options["temperature"]) == (None, 0.5)


@pytest.mark.slow
def test_a_fitted_temperature_undoes_a_wrong_one():
    """The data's Gaussian times 4 has T = 4, whatever its constants."""
    model = model_of_images()
    x = LEVELS.astype(np.float32) / 128 - 1
    model.log_density = lambda scale, x: -2 * jnp.sum((x - x_mean) ** 2 / x_var)
    x_mean, x_var = jnp.asarray(x.mean(0)), jnp.asarray(x.var(0))
    config = model.config
    config.sampler.low, config.sampler.high = -2.0, 2.0
    options = {"num_powers": 50, "temperature": "fitted", "flow_minutes": 0.0}
    found = nats.nats(jax.random.key(0), model, IMAGES, **options).report["nats"]
    assert found["temperature"] == pytest.approx(4.0, rel=0.15)
    assert found["nats_high"] > found["baselines"]["gaussians"]["nats"] - 0.5


@pytest.mark.parametrize(("upper", "is_crossed"), [(20.0, False), (1.0, True)])
def test_an_open_log_z_gives_no_number(upper, is_crossed):
    side = np.array([3.0, upper])
    log_z = SimpleNamespace(
        interval=side,
        value=10.0,
        is_closed=False,
        lower=Estimate(3.0, 0.1),
        upper=Estimate(upper, 0.1),
        sample_sizes=side,
        acceptance_prob=np.ones(3),
    )
    found = evaluate.Normalised(jnp.sum, log_z, 1.0, {"uniform": lambda x: np.zeros(len(x))})
    scores = found.score(np.ones((4, 2), np.float32), jax.random.key(0))
    assert np.isnan(scores["nats"]).all()
    assert scores["nats_low"].tolist() == [2.0 - upper] * 4
    with pytest.warns(UserWarning, match=f"at least 3.0 from below, {upper} from") as warned:
        found.summarise(scores)
    assert ("the sides cross" in str(warned[0].message)) == is_crossed


def test_boxes_of_densities_without_one():
    config = toy_beta.get_config()
    assert is_points(config)
    x = np.array([[3.0, 0.0], [0.0, -2.5]])
    half = config.evals.density.half_width
    assert nats.box_of(config, x) == (-max(half, 3.0), max(half, 3.0))
    config = jem_digits.get_config()
    config.sampler.box = "none"
    assert nats.box_of(config, LEVELS / 128 - 1) == (-1.2, 1.2)


@pytest.mark.slow
def test_a_trained_energy_of_the_plane_against_its_grid():
    """Cells of 0.025 and of 0.05 differ by less than 1e-4 in log Z."""
    run = ebmjax.load("plane")
    model = run.model
    found = nats.normalise(
        jax.random.key(0), model, num_chains=256, num_powers=200, temperature=None
    )
    assert found.found.is_closed
    low, high = nats.box_of(run.config, np.asarray(model.train.images))
    log_zs = []
    for num in (200, 400):
        cells = low + (np.arange(num) + 0.5) * (high - low) / num
        grid = np.stack(np.meshgrid(cells, cells), -1).reshape(-1, 2).astype(np.float32)
        values = np.asarray(model.log_densities(grid), np.float64)
        log_zs.append(np.logaddexp.reduce(values) + 2 * np.log((high - low) / num))
    assert abs(log_zs[0] - log_zs[1]) < 1e-4
    assert found.found.interval[0] < log_zs[1] < found.found.interval[1]


@pytest.mark.slow
def test_score_writes_nats(tmp_path, monkeypatch, capsys):
    """Writes them of a run, by the command."""
    model = model_of_images()
    score = lambda images: {"log_density": images.mean((1, 2, 3)).astype(np.float32)}  # noqa: E731
    run = SimpleNamespace(input_shape=(2, 2, 1), score=score, model=model, config=model.config)
    run.config.data.range, run.config.evals.nats.flow_minutes = (0.0, 255.0), 0.0
    monkeypatch.setattr(trained, "load", lambda folder, **_: run)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    config = run_folder.as_json(jem_digits.get_config("smoke"))
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    np.save("mine.npy", LEVELS[:7])
    given = ["--data=mine.npy", "--nats=30"]
    command(monkeypatch, "score", tmp_path / "run", tmp_path / "s.csv", *given)
    told = capsys.readouterr().out
    assert "log p(x) of test images or points in nats" in told
    rows = list(csv.DictReader((tmp_path / "s.csv").read_text().splitlines()))
    assert len(rows) == 7
    assert all(float(row["nats_low"]) < float(row["nats_high"]) for row in rows)
    assert {"nats", "gaussians_nats", "noisy_nats", "bits", "bits_low"} < rows[0].keys()


def test_score_refuses_nats_of_a_latent_model(tmp_path, monkeypatch, capsys):
    config = run_folder.as_json(thermo_digits.get_config("smoke"))
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(SystemExit) as stopped:
        command(monkeypatch, "score", tmp_path, tmp_path.parent / "s.csv", "--nats")
    assert stopped.value.code == 2
    assert "--nats: the scores of a latent model are log evidences" in capsys.readouterr().err
