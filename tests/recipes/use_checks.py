"""Uses the model of a finished run by the commands and from Python."""

import csv
import sys

import jax
import numpy as np
from PIL import Image

from ebmjax import recipes
from ebmjax.recipes.run import use


def command(monkeypatch, name, workdir, out, *further):
    """``ebmjax NAME --workdir=... --out=...``"""
    arguments = [f"ebmjax {name}", f"--workdir={workdir}", f"--out={out}", *map(str, further)]
    monkeypatch.setattr(sys, "argv", arguments)
    use.main()


def check_use(workdir, monkeypatch, folder, images, columns):
    """Samples, scores ``images`` (or points) and exports; returns the loaded run."""
    run = recipes.load(workdir)
    samples = run.sample(jax.random.key(3), 3)["images"]
    assert (samples.shape, samples.dtype) == ((3, *run.input_shape), np.uint8)
    assert run.is_finished
    command(monkeypatch, "sample", workdir, folder / "s.npz", "--num=3", "--seed=3")
    with np.load(folder / "s.npz") as written:
        np.testing.assert_array_equal(written["images"], samples)
    command(monkeypatch, "sample", workdir, folder / "s.png", "--num=3", "--num_steps=1")
    with Image.open(folder / "s.png") as sheet:
        assert min(sheet.size) > 100

    np.savez(folder / "mine.npz", images=images)
    command(monkeypatch, "score", workdir, folder / "s.csv", f"--data={folder / 'mine.npz'}")
    header, *rows = list(csv.reader((folder / "s.csv").read_text().splitlines()))
    assert header == ["image", *columns]
    scores = run.score(images)
    found = np.array(rows, float)
    np.testing.assert_array_equal(found[:, 0], np.arange(len(images)))
    flat = np.concatenate([x.reshape(len(images), -1) for x in scores.values()], axis=1)
    # The same program on the same images; the text of a float32 has nine digits or fewer.
    np.testing.assert_allclose(found[:, 1:], flat, rtol=1e-7)

    command(monkeypatch, "export", workdir, folder / "p.safetensors")
    command(monkeypatch, "export", workdir, folder / "p.npz")
    from safetensors.numpy import load_file

    tensors, (leaves, _) = load_file(folder / "p.safetensors"), jax.tree.flatten(run.params)
    with np.load(folder / "p.npz") as arrays:
        assert set(arrays) == set(tensors)
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(arrays[name], tensor)
    assert sum(np.size(leaf) for leaf in leaves) == sum(x.size for x in tensors.values())
    return run
