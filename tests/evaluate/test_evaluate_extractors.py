"""The classifier whose features judge generated images: trained once, kept, mended."""

import jax
import numpy as np
import pytest

from ebmjax import data, evaluate, networks
from ebmjax.evaluate import _extractors as extractors


def test_the_extractor_is_kept_and_mended(tmp_path, monkeypatch):
    monkeypatch.setattr(extractors, "CACHE", tmp_path / "cache")
    monkeypatch.setitem(extractors.SETTINGS, "max_steps", 2)
    train = data.ImageData(*(array[:64] for array in data.load_digits("train")))
    test = data.ImageData(*(array[:8] for array in data.load_digits("test")))

    told = []

    def outputs():
        made = extractors.own_classifier(train, test, 10, lambda: told.append(1))
        return made.outputs_fn(test.images)

    first = outputs()
    assert told == [1]
    (path,) = (tmp_path / "cache").iterdir()
    assert path.suffix == ".npz"
    assert first[0].shape == (8, 64)
    with monkeypatch.context() as patch:
        patch.setattr(extractors, "_train", lambda *_: pytest.fail("trained again"))
        jax.tree.map(np.testing.assert_array_equal, outputs(), first)
    assert told == [1]
    path.write_bytes(path.read_bytes()[:1000])
    jax.tree.map(np.testing.assert_array_equal, outputs(), first)
    np.savez(path, **{"Dense_0/kernel": np.zeros((2, 3))})
    assert extractors._cached(path, networks.WideResNet(10, 1, 10), train) is None
    digest = extractors._digest(train, 10)
    with monkeypatch.context() as patch:
        patch.setattr(extractors, "versions", dict)
        assert extractors._digest(train, 10) != digest
    with monkeypatch.context() as patch:
        patch.setitem(extractors.SETTINGS, "seed", 1)
        assert extractors._digest(train, 10) != digest
    other = data.ImageData(255 - train.images, train.labels)
    assert extractors._digest(other, 10) != extractors._digest(train, 10)
    assert extractors._digest(train, 11) != extractors._digest(train, 10)
    assert [found.suffix for found in (tmp_path / "cache").iterdir()] == [".npz"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [([0, 1, 10], "labels must lie in 0..9"), ([0, 1], "one class an image"), (None, "integers")],
)
def test_an_extractor_needs_classes(labels, message):
    train = data.ImageData(np.zeros((3, 8, 8, 1), np.uint8), labels)
    with pytest.raises((TypeError, ValueError), match=message):
        evaluate.own_classifier(train, train, 10)
