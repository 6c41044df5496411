"""Runs of experiments/run.py, as processes and in this one, and readers of what they leave."""

import json
import struct
import subprocess
import sys
import time
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event
from tensorboardX.record_writer import masked_crc32c

from ebmjax.recipes.config import families
from ebmjax.recipes.run import launch as launches
from ebmjax.recipes.run.run import Run
from experiments.configs import thermo_digits

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
    return launches.launch(config, *arguments, **options)


def build_experiment(config, folder):
    """The experiment of a configuration made here, checked as one of a command line is."""
    families.check(config)
    return Run(config, folder).build()


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
