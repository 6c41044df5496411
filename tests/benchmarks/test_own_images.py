"""The exam of the configurations for anyone's images: what it calls a copy, and its table."""

import json
import re

import numpy as np
import pytest

from ebmjax.recipes.config.command_line import read
from ebmjax.recipes.folder.run_folder import as_json


@pytest.fixture
def module(load):
    return load("studies.own_images")


def _draw_noisy(seed, num, means):
    """Images around the means, with noise of 8 levels."""
    rng = np.random.default_rng(seed)
    images = means[rng.integers(len(means), size=num)] + rng.normal(scale=8, size=(num, 6, 6, 1))
    return np.clip(np.round(images), 0, 255).astype(np.uint8)


def test_copies_are_found_and_neither_new_images_nor_blurs_are_copies(module):
    means = np.random.default_rng(0).uniform(60, 200, (4, 6, 6, 1))
    train, test, new = (
        _draw_noisy(seed, num, means) for seed, num in ((1, 400), (2, 200), (3, 300))
    )
    copied = train[:300].astype(int) + np.random.default_rng(4).integers(-1, 2, (300, 6, 6, 1))
    copies = np.concatenate([copied[:30].clip(0, 255).astype(np.uint8), new[:270]])
    assert module.share_of_copies(new, train, test) < 0.03
    assert module.share_of_copies(copies, train, test) >= 0.1
    # A blur is nearer to the training images than any image of the kind, but to all of them.
    blurs = np.repeat(np.round(means), 75, axis=0).astype(np.uint8)
    distances = [module.find_nearest(images, train)[1][0] for images in (blurs, test)]
    assert max(distances[0]) < min(distances[1])
    assert module.share_of_copies(blurs, train, test) == 0


def test_the_nearest_image_is_that_of_the_smallest_difference(module):
    train = np.array([[0], [100], [110]], np.uint8)
    index, (far, ratio) = module.find_nearest(np.array([[104], [20]], np.uint8), train)
    assert index.tolist() == [1, 0]
    np.testing.assert_allclose(255 * far, [4, 20], rtol=1e-6)
    np.testing.assert_allclose(ratio, [4 / 55, 20 / 85], rtol=1e-6)


def test_only_models_of_labels_need_labels(module):
    rows = module.make_rows()
    assert "joint unlabelled" not in rows
    assert {"latent unlabelled", "joint two", "joint two classifier"} <= set(rows)


def test_a_finished_run_is_judged_beside_its_baseline(module, load, tmp_path, monkeypatch):
    sets = load("image_sets")
    monkeypatch.setitem(sets.SETS, "shapes", lambda: sets.make_shapes((8, 8), [0, 1, 2], 60, 90))
    path = sets.write_set("shapes", tmp_path / "sets")
    for row, report in (
        ("joint_shapes", {"classification": {"accuracy": 0.5}}),
        ("image_shapes", {}),
        ("joint_shapes_classifier", {"classification": {"accuracy": 0.5}}),
    ):
        run = tmp_path / row / "seed0"
        run.mkdir(parents=True)
        config = read("joint", ["--config.data.name=npz", f"--config.data.path={path}"])
        (run / "config.json").write_text(json.dumps(as_json(config)))
        (run / "evaluation.json").write_text(json.dumps(report))
        noise = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), np.uint8)
        np.savez(run / "evaluation.npz", fresh_images=noise)
    module.judge(tmp_path)
    lines = (tmp_path / "exam.md").read_text().splitlines()
    assert lines[2] == "| image_shapes | - | 0.0 |"
    assert re.fullmatch(r"\| joint_shapes \| \d+\.\d \| 0\.0 \|", lines[3])  # chance is -16.7
    assert (tmp_path / "joint_shapes.png").is_file()
