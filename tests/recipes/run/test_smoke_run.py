import re

import numpy as np
import pytest
import tensorflow_datasets as tfds
from experiment_runs import (
    build_experiment,
    contents,
    digits,
    launch,
    rows_of,
    run_script,
    summary_of,
)
from linear_family import LINEAR
from PIL import Image
from test_configs import MODULES

from ebmjax import training
from ebmjax._versions import PACKAGES

STEPS = 10
MONITORED = [10]
PLOTS = ("training.png", "samples_<step>.png", "samples_over_training.png")
PLOTS += ("mean_log_likelihood.png",)


def test_every_step_has_one_row(smoke):
    rows = rows_of(smoke)
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    for name in ("test_log_evidence", "sample_fid", "sample_kid", "sample_is", "start_fid"):
        assert [row["step"] for row in rows if np.isfinite(row.get(name, np.nan))] == MONITORED
    assert rows[-1]["generator_gradient_variance"] > 0
    for row in rows:
        assert {"loss", "reconstruction_error", "prior_energy", "gradient_norm"} <= row.keys()
        assert len(row["mean_log_likelihoods"]) == 4
        assert len(row["posterior_acceptance"]) == 3
        assert 0 <= row["prior_acceptance"] <= 1
    assert rows[-1]["reconstruction_error"] < rows[0]["reconstruction_error"]


def test_summary_holds_what_is_promised(smoke):
    last, summary = rows_of(smoke)[-1], summary_of(smoke)
    assert last.pop("step") == summary["steps"] == STEPS
    promised = {
        "steps", "seed", "versions", "revision", "devices", "wall_seconds", "compile_seconds",
        "run_seconds", "params_sha256", "data_sha256", "data", "extractor",
    }  # fmt: skip
    assert summary.keys() == last.keys() | promised
    assert {name: summary[name] for name in last} == last
    assert summary["versions"].keys() == {"python", *PACKAGES}
    assert min(summary["compile_seconds"], summary["run_seconds"]) > 0
    # Three numbers, each rounded to 0.0005.
    split = summary["compile_seconds"] + summary["run_seconds"]
    assert summary["wall_seconds"] == pytest.approx(split, abs=0.0015 + 1e-9)


def test_the_digest_is_that_of_the_checkpoint(smoke, tmp_path):
    template = build_experiment(digits(), tmp_path).state
    with training.Checkpoints(smoke / "checkpoints") as checkpoints:
        state, _ = checkpoints.restore_latest(template)
    assert int(state.step) == STEPS
    assert training.tree_digest(state.params) == summary_of(smoke)["params_sha256"]
    assert training.tree_digest(template.params) != summary_of(smoke)["params_sha256"]


def test_every_documented_plot_is_there_and_no_other(smoke):
    found = {re.sub(r"_\d{6}", "_<step>", path.name) for path in (smoke / "plots").iterdir()}
    assert found == set(PLOTS)
    for path in (smoke / "plots").iterdir():
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"), np.uint8).reshape(-1, 3)
        assert len(np.unique(pixels, axis=0)) >= 4, path
    assert len(list((smoke / "plots").glob("samples_0*.png"))) == len(MONITORED)


# They take the path of the smoke run on the digits, and compile for up to a minute each.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "side"), [("thermo_cifar10", 32), ("thermo_celeba", 64), ("lebm_svhn", 32)]
)
def test_mock_data_of_the_right_schema_trains(name, side, tmp_path):
    with tfds.testing.mock_data(num_examples=60):
        config = MODULES[f"{name}.py"].get_config("smoke")
        assert launch(config, f"configs/{name}.py:smoke", str(tmp_path)) is None
    rows = rows_of(tmp_path)
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert all(row["skipped"] == 0 and np.isfinite(row["loss"]) for row in rows)
    # Vanilla training has no power but 1.
    assert len(rows[-1]["mean_log_likelihoods"]) == (1 if name == "lebm_svhn" else 4)
    assert np.load(tmp_path / "monitor" / "000004.npz")["samples"].shape == (16, side, side, 3)


def test_the_command_says_where_things_are_and_a_second_call_has_nothing_left_to_do(tmp_path):
    command = f"--config={LINEAR}"
    finished = run_script(command, cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    (folder,) = (tmp_path / "runs" / "linear_family").iterdir()
    where = folder.relative_to(tmp_path)
    assert re.fullmatch(r"runs/linear_family/\d{8}-\d{6}-\d+", str(where))
    lines = finished.stdout.splitlines()
    (named,) = (line for line in lines if line.endswith(f"linear_family.py -> {where}"))
    assert lines.index("model of 2 parameters") < lines.index(named)
    assert lines[-1] == f"Numbers in {where}/summary.json, plots in {where}/plots"
    shown = re.search(r"^  test accuracy +(\S+)", finished.stdout, re.MULTILINE)
    assert float(shown[1]) == pytest.approx(summary_of(folder)["test_accuracy"], rel=1e-3)
    before = contents(folder)
    finished = run_script(command, f"--workdir={where}", cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert "This run had finished already" in finished.stdout
    after = contents(folder)
    for name in before.keys() | after.keys():  # the summary and the report tell time
        if not name.startswith(("events.", "summary.json", "report.html")):
            assert after.get(name) == before.get(name), name
