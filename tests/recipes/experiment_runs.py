"""Runs of experiments/run.py, as processes and in this one, and readers of what they leave."""

import csv
import json
import struct
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
from linear_family import NAME, linear
from PIL import Image
from safetensors.numpy import load_file
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.record_writer import masked_crc32c

from ebmjax import recipes, training
from ebmjax.recipes.config import declare, families
from ebmjax.recipes.models.build import root_keys
from ebmjax.recipes.run import run as runs
from ebmjax.recipes.run import use
from ebmjax.recipes.run.run import Run
from ebmjax.training._sharding import describe_batches, place_state
from ebmjax.training._step import make_block
from experiments.configs import igebm_digits, thermo_digits

REPOSITORY = Path(__file__).resolve().parents[2]
EXPERIMENTS = REPOSITORY / "experiments"
RUN = EXPERIMENTS / "run.py"


def run_script(*arguments, cwd, timeout=300):
    """``python experiments/run.py ARGUMENTS`` to its end."""
    command = [sys.executable, str(RUN), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout)


def launch(config, *arguments, **options):
    """``launch`` of a configuration made here, checked as one of a command line is."""
    families.check(config)
    families.prune(config)
    return runs.launch(config, *arguments, **options)


def build_experiment(config, folder):
    """The experiment of a configuration made here, checked as one of a command line is."""
    families.check(config)
    families.prune(config)
    return Run(config, folder).build()


def make_step(config, folder, num_steps=1):
    """The experiment of a configuration, the block of its training steps, and its arguments."""
    experiment = build_experiment(config, folder)
    plan = experiment.plan
    shards, mesh = plan.num_shards, training.make_mesh(plan.num_shards)
    streams = [np.zeros((num_steps, shards, size // shards), np.int32) for size in plan.streams]
    indices = tuple(streams) if isinstance(plan.batch_size, tuple) else streams[0]
    batches = describe_batches(experiment.data, indices, mesh)
    state, key = place_state(experiment.state, mesh), root_keys(config.seed)[1]
    block = make_block(experiment.train_step, mesh)
    return experiment, block, (key, state, batches, experiment.numbers)


def assert_keeps_state(config, folder):
    """Traces two steps: the state that comes out has the shapes of the one that went in.

    Returns the shapes of the steps' metrics.
    """
    experiment, block, arguments = make_step(config, folder, num_steps=2)
    state, metrics = jax.eval_shape(block, *arguments)
    before, after = (
        jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), one)
        for one in (experiment.state, state)
    )
    assert after == before
    return metrics


def change(config, fields):
    """The configuration with fields set, also those of sections that it lacks."""
    every = families.all_fields(config.family, fields)
    for name, value in fields.items():
        declare.put(every[name], config, name, value)
    return config


def image(variant="", **overrides):
    """The smoke run of image energies, of a network of one stage, with a variant's changes."""
    config = igebm_digits.get_config("smoke")
    config.model.features = (4,)
    changes = igebm_digits.VARIANTS.get(variant, {})
    sizes = ("sampler.num_steps", "sampler.num_samples")
    config.update_from_flattened_dict({k: v for k, v in changes.items() if k not in sizes})
    config.update_from_flattened_dict(overrides)
    return config


def digits(variant="smoke", **overrides):
    """The configuration of the digits with fields, named by their dotted path, changed."""
    config = thermo_digits.get_config(variant)
    config.update_from_flattened_dict(overrides)
    return config


def strict_json(text):
    """JSON as the standard has it, without NaN and infinities."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def rows_of(workdir):
    return [strict_json(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


def summary_of(workdir):
    return strict_json((workdir / "summary.json").read_text())


def report_of(workdir):
    return strict_json((workdir / "evaluation.json").read_text())


def contents(folder):
    """Path to bytes of everything below ``folder``; None for a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def last_step(workdir):
    """The newest step in metrics.jsonl, -1 before there is one; may be called while it grows."""
    path = workdir / "metrics.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return json.loads(lines[-1])["step"] if lines else -1


def wait_until(condition, seconds=200):
    """Looks every few milliseconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.003)


def tensorboard_events(workdir):
    """The events of every TensorBoard file, by the format's definition, check sums verified."""
    events = []
    for path in sorted(workdir.glob("events.out.tfevents.*")):
        content, place = path.read_bytes(), 0
        while place < len(content):
            header = content[place : place + 8]
            (size,) = struct.unpack("<Q", header)
            data = content[place + 12 : place + 12 + size]
            checks = content[place + 8 : place + 12] + content[place + 12 + size :][:4]
            assert struct.unpack("<II", checks) == (masked_crc32c(header), masked_crc32c(data))
            events.append(Event.FromString(data))
            place += size + 16
    return events


def scalars(workdir):
    """(tag, step) to value of every scalar in the TensorBoard files."""
    return {
        (value.tag, event.step): value.simple_value
        for event in tensorboard_events(workdir)
        for value in event.summary.value
        if value.HasField("simple_value")
    }


def readers(folder, config, new):
    """Calls that use, continue, evaluate, start from (in ``new``) and tabulate a run's folder."""
    start = linear(**{"train.start_from": str(folder)})
    return (
        lambda: recipes.load(folder),
        lambda: launch(config, NAME, str(folder)),
        lambda: launch(config, NAME, str(folder), "eval"),
        lambda: launch(start, NAME, str(new)),
    )


def damage(checkpoint):
    """Flips one byte in the middle of the largest file of its arrays, as a disk does."""
    files = [path for path in (checkpoint / "state").rglob("*") if path.is_file()]
    largest = max(files, key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)


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
    further = "--mask=left", "--num=2", "--num_steps=2", f"--given={folder / 'mine.npz'}"
    command(monkeypatch, "sample", workdir, folder / "given.npz", *further)
    with np.load(folder / "given.npz") as written:
        right = written["images"][:, :, :, run.input_shape[1] // 2 :]
        right_of = images[:, None, :, run.input_shape[1] // 2 :]
        np.testing.assert_array_equal(right, np.broadcast_to(right_of, right.shape))
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
    tensors, (leaves, _) = load_file(folder / "p.safetensors"), jax.tree.flatten(run.params)
    with np.load(folder / "p.npz") as arrays:
        assert set(arrays) == set(tensors)
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(arrays[name], tensor)
    assert sum(np.size(leaf) for leaf in leaves) == sum(x.size for x in tensors.values())
    return run
