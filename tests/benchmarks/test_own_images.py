"""Image sets, and what the league calls a copy."""

import numpy as np
import pytest

from ebmjax.data import load_images


@pytest.fixture
def module(load):
    return load("league")


@pytest.fixture
def sets(load):
    return load("image_sets")


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
    distances = [module.find_distances(images, train)[0] for images in (blurs, test)]
    assert max(distances[0]) < min(distances[1])
    assert module.share_of_copies(blurs, train, test) == 0


def test_a_file_is_read_by_a_run(sets, tmp_path, monkeypatch, command):
    monkeypatch.setitem(sets.SETS, "shapes", lambda: sets.make_shapes((8, 8), [0, 1, 2], 9, 15))
    (line,) = command("image_sets", f"--out {tmp_path} --sets shapes")
    found = load_images("npz", "test", path=tmp_path / "shapes.npz")
    assert found.data.images.shape == (6, 8, 8, 3)
    assert found.num_classes == 3
    assert "labels (9,)" in line


def test_automata_obey_the_sums_modulo_two_that_their_rules_are(sets):
    found = sets.make_automata(40, 80, 8)
    is_on = found.images[..., 0] == 255
    left, centre, right = (np.roll(is_on[:, :-1], shift, axis=2) for shift in (1, 0, -1))
    sums = {90: left ^ right, 150: left ^ centre ^ right, 60: left ^ centre}
    for rule, after in sums.items():
        chosen = found.labels == sets.RULES.index(rule)
        assert chosen.any()
        np.testing.assert_array_equal(is_on[chosen, 1:], after[chosen])
