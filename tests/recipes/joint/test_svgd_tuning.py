"""The tuning study of SVGD: its runs, what they share, restarting, table and plots."""

import json
import shutil

import jax
import numpy as np
import pytest
from experiment_runs import rows_of, strict_json

from ebmjax import data, training
from ebmjax.recipes.core import build, families
from ebmjax.recipes.core.fields import ConfigError
from ebmjax.recipes.joint.tuning import command as svgd_tuning
from ebmjax.recipes.joint.tuning import plots, runs
from ebmjax.recipes.joint.tuning.sweeps import FULL, OBJECTIVES, QUICK, Setting, Study, Sweep

DIGITS = svgd_tuning.base_configuration("configs/svgdjem_digits.py", [])
LITERAL = Setting("literal", "softmax", 0.09, 4, 2, 1.0)
CORRECTED = Setting("corrected", "softmax", 2.0, 4, 2, 1.0)

SLOW = pytest.mark.slow  # the quick study compiles four programs: minutes on a busy machine


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The folder of a finished quick study."""
    folder = tmp_path_factory.mktemp("tuning")
    svgd_tuning.main(["--quick", f"--folder={folder}"])
    return folder


def columns(folder, setting, *names):
    rows = rows_of(folder / setting.name)
    return {name: [row[name] for row in rows] for name in names}


def test_ten_images_are_the_first_of_each_class():
    images = data.load_digits("train")
    ten = runs.one_of_each_class(images)
    np.testing.assert_array_equal(ten.labels, np.arange(10))
    for label, image in enumerate(ten.images):
        first = next(i for i, other in enumerate(images.labels) if other == label)
        np.testing.assert_array_equal(image, images.images[first])


def test_each_sweep_changes_one_field_and_runs_are_made_once():
    for name, sweep in FULL.sweeps.items():
        for objective in OBJECTIVES:
            lines = list(FULL.lines(name, objective))
            others = [s._replace(replacement="", **{sweep.field: 0}) for s in lines]
            assert len(set(others)) == 1
            assert {getattr(s, sweep.field) for s in lines} == set(sweep.values)
            assert {s.replacement for s in lines} == {"softmax", "argmax", "in_place"}
    settings = FULL.settings(2)
    assert len(settings) == len({s.name for s in settings}) == 2 * len(FULL.settings(1))


def test_configuration_keeps_half_of_the_particles_where_they_are_chosen():
    config = svgd_tuning.configuration(DIGITS, FULL, LITERAL._replace(num_particles=43))
    assert (config.sampler.buffer.num_kept, config.sampler.num_samples) == (21, 43)
    reference = svgd_tuning.configuration(DIGITS, FULL, LITERAL._replace(replacement="in_place"))
    assert reference.sampler.buffer.num_kept is None
    assert DIGITS.sampler.num_samples != 43  # no run changes what the others start from


def test_another_configuration_gives_data_and_network_and_the_study_the_rest():
    arguments = ["--config.data.data_dir=nowhere", "--config.model.depth=16"]
    base = svgd_tuning.base_configuration("configs/svgdjem_cifar10.py:cpu", arguments)
    ours = svgd_tuning.configuration(base, FULL, LITERAL)
    assert (ours.data.name, ours.data.image_size, ours.data.data_dir) == ("cifar10", 16, "nowhere")
    assert (ours.data.crop_padding, ours.data.flip, ours.data.augment_positives) == (2, True, False)
    assert (ours.model.depth, ours.model.norm) == (16, "group")
    digits = svgd_tuning.configuration(DIGITS, FULL, LITERAL)
    assert digits.data.crop_padding == 1
    for section in ("optimizer", "loss", "train"):
        names = set(svgd_tuning.fields(base, FULL, LITERAL))
        for name in (name for name in names if name.startswith(f"{section}.")):
            field = name.partition(".")[2]
            assert ours[section][field] == digits[section][field], name


def test_a_setting_with_the_plain_median_is_a_run_of_its_own():
    plain = CORRECTED._replace(bandwidth="median")
    assert plain.name == CORRECTED.name.replace("-seed0", "-bandwidth_median-seed0")
    for setting, length in ((CORRECTED, np.sqrt(2 * np.log(3))), (plain, 1.0)):
        config = svgd_tuning.configuration(DIGITS, FULL, setting)
        chain = runs.sampler(config.sampler, 0.1, lambda x: -0.5 * (x**2).sum())
        particles = np.float32([[-0.4], [-0.2], [0.4]])
        _, info = jax.jit(chain.step)(jax.random.key(0), chain.init(particles))
        assert info.bandwidth == pytest.approx(0.6 / length, rel=1e-6)


@pytest.mark.parametrize(
    ("config", "arguments", "expected"),
    [
        ("configs/thermo_digits.py", [], r"^--config must name a joint energy model .*'configs/th"),
        (
            "configs/svgdjem_digits.py",
            ["--config.sampler.num_samples=8"],
            r"^config\.sampler\.num_samples is set by the study.*leave --config\.sampler",
        ),
    ],
)
def test_what_the_study_cannot_take_is_refused(config, arguments, expected, tmp_path):
    with pytest.raises(ConfigError, match=expected):
        svgd_tuning.base_configuration(config, arguments)
    with pytest.raises(SystemExit, match=r"^error: "):
        svgd_tuning.main(["--quick", f"--folder={tmp_path}", f"--config={config}", *arguments])
    assert not any(tmp_path.iterdir())


@SLOW
def test_first_update_is_that_of_the_ordinary_experiment(study, tmp_path):
    config = svgd_tuning.configuration(DIGITS, QUICK, CORRECTED)
    experiment = families.build(config, tmp_path)
    result = training.fit(
        build.root_keys(config)[1],
        experiment.state,
        experiment.train_step,
        runs.one_of_each_class(experiment.data),
        training.Plan(total_steps=1, batch_size=(10, 10), data_seed=config.seed),
    )
    row = rows_of(study / CORRECTED.name)[0]
    # Sums of some thousand float32 terms in another order: sqrt(1000) eps is 4e-6. A displacement
    # of 0.05 is the difference of positions of size 1, known to eps, so good to 2 eps / 0.05.
    names = ("cross_entropy", "loss", "gradient_norm", "positive_log_density", "chain_displacement")
    for name in names:
        np.testing.assert_allclose(row[name], result.row[name], rtol=1e-4, err_msg=name)


@SLOW
def test_the_literal_objective_never_sees_the_particles(study):
    seen = ("accuracy", "cross_entropy", "loss")
    near, far = LITERAL, LITERAL._replace(step_size=2.0)
    assert columns(study, near, *seen) == columns(study, far, *seen)
    corrected = (CORRECTED, CORRECTED._replace(step_size=0.09))
    first, second = (columns(study, setting, "loss")["loss"] for setting in corrected)
    assert first[-1] != second[-1]


@SLOW
@pytest.mark.parametrize("setting", [LITERAL, CORRECTED])
def test_larger_steps_displace_more(study, setting):
    near, far = (
        columns(study, setting._replace(step_size=size), "chain_displacement")
        for size in QUICK.sweeps["step_size"].values
    )
    # The first chains start alike; on straight ways free of walls it is the steps' ratio, squared.
    ratio = far["chain_displacement"][0] / near["chain_displacement"][0]
    assert 2.0 / 0.09 < ratio < 1.1 * (2.0 / 0.09) ** 2


@SLOW
def test_table_and_plots(study):
    text = (study / "table.md").read_text()
    assert text.count("| literal | 0.09 | softmax |") == 1
    table = strict_json((study / "table.json").read_text())
    rows = rows_of(study / CORRECTED.name)
    (found,) = table[CORRECTED.name]
    assert found["accuracy"] == pytest.approx(np.mean([row["accuracy"] for row in rows]))
    assert found["chain_displacement"] == pytest.approx(
        np.median([row["chain_displacement"] for row in rows])
    )
    for sweep in QUICK.sweeps:
        assert (study / f"{sweep}.png").stat().st_size > 10_000


@SLOW
def test_the_same_command_repeats_only_what_is_missing(study, tmp_path):
    folder = shutil.copytree(study, tmp_path / "study")
    before = {path: path.read_bytes() for path in folder.glob("*/metrics.jsonl")}
    times = {path: path.stat().st_mtime_ns for path in before}
    missing = folder / CORRECTED.name / "metrics.jsonl"
    missing.with_name("summary.json").unlink()
    missing.write_text(missing.read_text()[:200])  # as a killed run leaves it
    svgd_tuning.main(["--quick", f"--folder={folder}"])
    assert {path: path.read_bytes() for path in before} == before
    touched = [path for path in before if path.stat().st_mtime_ns != times[path]]
    assert touched == [missing]


def test_an_interrupted_run_counts_as_missing(monkeypatch, tmp_path):
    def interrupted(key, state, *rest, writers):
        writers[0].start(0)
        return training.FitResult(state, 0, {}, 2, 0.0, 0.0)

    monkeypatch.setattr(training, "fit", interrupted)
    with pytest.raises(SystemExit) as stop:
        svgd_tuning.main(["--quick", f"--folder={tmp_path}"])
    assert stop.value.code == 130
    (run,) = tmp_path.iterdir()
    assert not (run / "summary.json").exists()


def test_a_run_that_diverges_is_a_result(monkeypatch, tmp_path):
    def diverging(key, state, *rest, writers):
        writers[0].start(0)
        names = ("accuracy", "cross_entropy", "loss", "negative_entropy", "chain_displacement")
        writers[0].write(7, {**dict.fromkeys(names, float("nan")), "skipped": 5})
        raise training.DivergenceError("gone")

    monkeypatch.setattr(training, "fit", diverging)
    assert svgd_tuning.run(DIGITS, QUICK, LITERAL, tmp_path) is None
    summary = strict_json((tmp_path / LITERAL.name / "summary.json").read_text())
    assert summary["diverged"]
    assert summary["sound_updates"] == 2
    assert summary["accuracy"] is None


@SLOW
def test_a_run_of_another_configuration_is_refused(study, tmp_path):
    folder = tmp_path / "study"
    shutil.copytree(study / LITERAL.name, folder / LITERAL.name)
    path = folder / LITERAL.name / "config.json"
    config = json.loads(path.read_text())
    config["optimizer"]["learning_rate"] = 1.0
    path.write_text(json.dumps(config))
    with pytest.raises(SystemExit, match="another configuration"):
        svgd_tuning.main(["--quick", f"--folder={folder}"])


def test_one_sweep_alone(monkeypatch, tmp_path):
    made, drawn = [], []
    monkeypatch.setattr(svgd_tuning, "run", lambda *given: made.append(given[2]))
    monkeypatch.setattr(plots, "draw", lambda study, *_: drawn.append(study))
    svgd_tuning.main([f"--folder={tmp_path}", "--sweeps", "step_size_median", "--seeds=2"])
    assert len(made) == 2 * 26
    assert {setting.bandwidth for setting in made} == {"median"}
    assert list(drawn[0].sweeps) == ["step_size_median"]


@pytest.mark.parametrize("argument", ["--seeds=0", "--sedes=1", "nowhere", "--sweeps=step"])
def test_bad_arguments(argument, tmp_path):
    with pytest.raises(SystemExit):
        svgd_tuning.main(["--quick", f"--folder={tmp_path}", argument])


def test_generative_loss_of_either_flag():
    arguments = np.float32([3.0, 5.0]), np.float32([1.0]), np.float32(2.0)
    literal, _ = jax.jit(runs.generative_loss)(True, *arguments)
    corrected, _ = jax.jit(runs.generative_loss)(False, *arguments)
    assert (float(literal), float(corrected)) == (-2.0, -1.5)


def test_running_mean():
    values = np.arange(25.0) ** 2
    expected = [np.mean(values[max(0, i - 9) : i + 1]) for i in range(25)]
    np.testing.assert_allclose(plots._smoothed(values), expected, rtol=1e-12)


def test_means_over_seeds():
    assert plots._mean("{:.1f}", [1.0, 3.0]) == "2.0 ± 1.4"
    assert plots._mean("{:.1f}", [1.0, None]) == "-"


LINES = Study(
    sweeps={
        "step_size_median": Sweep(
            "step_size",
            (1.0, 2.0),
            {"num_particles": 4, "num_steps": 2, "smoothing": 1.0, "bandwidth": "median"},
        )
    },
    step_sizes={"literal": 1.0, "corrected": 2.0},
    num_updates=3,
    buffer_size=10,
)


def test_curves_of_seeds_are_their_mean_and_their_range(tmp_path, monkeypatch):
    """Losses are 1, 2, 3 of the first seed and 5, 6 of the second, which diverged."""
    for setting in LINES.settings(2):
        folder = tmp_path / setting.name
        folder.mkdir()
        rows = [
            {
                "step": step,
                "skipped": 0,
                "accuracy": 0.5,
                "cross_entropy": 0.25,
                "loss": step + 4.0 * setting.seed,
                "chain_displacement": 0.1,
                "negative_entropy": 1.0,
            }
            for step in range(1, 4 - setting.seed)
        ]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "summary.json").write_text(json.dumps(plots.averages(rows)))
    drawn = []
    finish = plots.finish
    monkeypatch.setattr(plots, "finish", lambda *given: (drawn.append(given[0]), finish(*given)))
    text = plots.draw(LINES, tmp_path, 2)
    assert "particles 4, steps 2, smoothing 1, bandwidth median.\n" in text
    assert text.count("| corrected | 2 | in_place | 0.50 ± 0 | 0.25 ± 0 | 3.5 ± 2.5 |") == 1
    (figure,) = drawn
    labels = [axis.get_ylabel() for axis in figure.axes]
    total = figure.axes[labels.index("total loss, nats")]
    line, band = total.lines[0], total.collections[0].get_paths()[0].vertices
    np.testing.assert_allclose(line.get_xydata(), [[1, 3], [2, 4]])
    for step, ends in ((1, [1, 5]), (2, [2, 6])):
        assert sorted(set(band[band[:, 0] == step][:, 1])) == ends
