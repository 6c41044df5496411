"""The comparison with BlackJAX: both do the same work, and every row is printed."""

import importlib
import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
STEPS = 50


@pytest.fixture(scope="module")
def module():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("peers")


@pytest.fixture
def log_density_fn():
    """A Gaussian so narrow that the benchmark's step takes a chain across it."""
    return lambda x: -0.5 * jnp.sum((x / 0.1) ** 2)


def test_svgd_takes_the_same_steps(module, log_density_fn):
    start = jax.random.normal(jax.random.key(0), (8, 3))
    (ours, theirs) = (
        module.compiled_chain(made["svgd"](log_density_fn), "svgd", start, STEPS)()
        for made in (module.SAMPLERS, module.PEERS)
    )
    assert np.max(np.abs(ours.particles - start)) > 0.1
    np.testing.assert_allclose(ours.particles, theirs.particles, rtol=1e-4)  # 50 roundings


@pytest.mark.parametrize("name", ["sgld", "mala"])
def test_both_sample_the_same_law(name, module, log_density_fn):
    """After 50 steps of 1e-3 in a Gaussian of variance 0.01, 4000 chains from a point."""
    num_chains = 4000
    start = jnp.full((num_chains, 1), 0.3)
    moments = []
    for made in (module.SAMPLERS, module.PEERS):
        last = module.compiled_chain(made[name](log_density_fn), name, start, STEPS)()
        position = np.asarray(last.position)
        moments.append((position.mean(), position.var()))
    (our_mean, our_variance), (their_mean, their_variance) = moments
    # 5 standard errors of the difference of two means, and of two variances, of Gaussians.
    variance = max(our_variance, their_variance)
    assert abs(our_mean - their_mean) < 5 * np.sqrt(2 * variance / num_chains)
    assert abs(our_variance - their_variance) < 5 * variance * np.sqrt(4 / num_chains)


def test_every_sampler_has_a_row(module, monkeypatch, capsys):
    tiny = "--works chains --energies mlp --resolutions 4 --chains 3 --steps 2 --repeats 1"
    monkeypatch.setattr(sys, "argv", ["peers.py", *tiny.split()])
    module.main()
    lines = capsys.readouterr().out.splitlines()
    assert "median of 1 repeats" in lines[0]
    assert [line.split(" steps ")[0] for line in lines[3:]] == [
        f"{name} mlp 4x4x1, 3 chains, 2" for name in module.SAMPLERS
    ]
    assert all(float(line.split()[-5]) > 0 for line in lines[3:])


def test_other_libraries_are_asked_for_the_same_work(module, monkeypatch, tmp_path, capsys):
    """A process that answers every request with a second stands for theirs."""
    script = tmp_path / "python"
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "print(json.dumps({'ebmkit': '1', 'threads': 2}), flush=True)\n"
        "for line in sys.stdin:\n"
        f"    open({str(tmp_path / 'asked')!r}, 'a').write(line)\n"
        "    print(1.0, flush=True)\n"
    )
    script.chmod(0o755)
    for name, value in {"SVGD_SHAPES": [(3, 2)], "PLANE": (3, 2), "PLANE_STEPS": 2}.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module, "IMAGES", [((4, 4, 1), 10)])
    arguments = f"--works svgd plane images --repeats 1 --steps 2 --torch_python {script}"
    monkeypatch.setattr(sys, "argv", ["peers.py", *arguments.split()])
    module.main()
    printed, limits = capsys.readouterr().out.split("\n\n")
    lines = printed.splitlines()
    assert "ebmkit 1  threads 2" in lines[0]
    peers = [line.split(" steps ")[1].split()[0] for line in lines[3:]]
    assert peers == ["BlackJAX", "ebmkit", "BlackJAX", "ebmkit", "torchebm", "PyTorch"]
    asked = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    assert [one["library"] for one in asked[::2]] == ["ebmkit", "ebmkit", "torchebm", "PyTorch"]
    assert asked[0] == {"library": "ebmkit", "work": "svgd", "shape": [3, 2], "steps": 2}
    assert asked[-1]["shape"] == [64, 4, 4, 1]
    assert all(" 1000.00 " in line for line in lines[3:] if "BlackJAX" not in line)
    # Both works of networks say what limits them.
    works = [line.split(" steps ")[0] for line in limits.splitlines()[3:]]
    assert works == ["plane (3, 2), 2", "WRN-10-1 4x4x1, 64 x 10"]
    assert all(
        float(column) > 0 for line in limits.splitlines()[4:] for column in line.split()[-5:]
    )
