"""The command for accelerators, rehearsed in tiny sizes."""

import json

import numpy as np
import pytest


@pytest.fixture
def module(load):
    return load("accelerator")


@pytest.mark.slow
def test_everything_is_measured_and_a_second_call_goes_on(module, tmp_path, capsys):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (40, 8, 8, 3), dtype=np.uint8), np.arange(40) % 10
    cifar = tmp_path / "images.npz"
    np.savez(cifar, images=images, labels=labels, test_images=images, test_labels=labels)
    command = ["--rehearse", "--repeats=1", f"--out={tmp_path}", f"--cifar={cifar}"]
    module.main([*command, "--minutes=8"])
    records = json.loads((tmp_path / "accelerator.json").read_text())["records"]
    assert records.keys() == {*module.list_measurements(module.TINY), module.TRAINING}
    assert not [name for name, record in records.items() if "failed" in record]
    assert all(record["ms"] > 0 for record in records.values() if "ms" in record)
    assert records[module.TRAINING]["chance"] == 0.1
    assert records[module.TRAINING]["steps"] == module.TINY.train_steps
    capsys.readouterr()
    module.main([*command, "--minutes=1"])
    assert json.loads((tmp_path / "accelerator.json").read_text())["records"] == records
    assert "| gradient, WRN-10-1, bfloat16 |" in capsys.readouterr().out


def test_records_of_another_device_are_not_continued(module, tmp_path):
    about = module.describe_device()
    module.save(tmp_path, about | {"device": "another"}, {"a": {"ms": 1.0}})
    with pytest.raises(SystemExit, match="measured with device another"):
        module.read_earlier(tmp_path, about)


def test_the_fraction_is_of_the_product_in_the_same_precision(module):
    records = {
        "matrix product, bfloat16": {"tflops": 8.0},
        "gradient, WRN, bfloat16": {"tflops": 2.0},
        "gradient, WRN, float32": {"tflops": 2.0},
    }
    found = module.add_fractions(records)
    assert found["gradient, WRN, bfloat16"]["fraction_of_peak"] == 0.25
    assert "fraction_of_peak" not in found["gradient, WRN, float32"]


def test_rates_are_operations_a_second(module, monkeypatch):
    """Each call takes 2 ms here: products have 2 n³ operations, a chain's steps share its time."""
    monkeypatch.setattr(
        module.harness, "time_in_turn", lambda calls, repeats: {name: [0.002] for name in calls}
    )
    sizes = module.TINY
    found = module.time_product(sizes, 1, "float32")
    assert found["tflops"] == pytest.approx(2 * sizes.matrix**3 / 0.002 / 1e12)
    found = module.time_svgd(sizes, 1)
    assert found["steps_a_second"] == pytest.approx(20 / 0.002)
