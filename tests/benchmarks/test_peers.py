"""The comparison with BlackJAX: both do the same work, and every row is printed."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

STEPS = 50


@pytest.fixture
def module(load):
    return load("peers")


@pytest.fixture
def log_density_fn():
    """A Gaussian so narrow that the benchmark's step takes a chain across it."""
    return lambda x: -0.5 * jnp.sum((x / 0.1) ** 2)


def test_svgd_takes_the_same_steps(module, log_density_fn):
    start = jax.random.normal(jax.random.key(0), (8, 3))
    (ours, theirs) = (
        module.compile_chain(made["svgd"](log_density_fn), start, STEPS, True)()
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
        last = module.compile_chain(made[name](log_density_fn), start, STEPS, name == "svgd")()
        position = np.asarray(last.position)
        moments.append((position.mean(), position.var()))
    (our_mean, our_variance), (their_mean, their_variance) = moments
    # 5 standard errors of the difference of two means, and of two variances, of Gaussians.
    variance = max(our_variance, their_variance)
    assert abs(our_mean - their_mean) < 5 * np.sqrt(2 * variance / num_chains)
    assert abs(our_variance - their_variance) < 5 * variance * np.sqrt(4 / num_chains)


def test_every_sampler_has_a_row(command, module):
    tiny = "--works chains --energies mlp --resolutions 4 --chains 3 --steps 2 --repeats 1"
    head, *lines = command("peers", tiny)
    assert "BlackJAX" in head
    assert [line.split(" steps ")[0] for line in lines[2:]] == [
        f"{name} mlp 4x4x1, 3 chains, 2" for name in module.SAMPLERS
    ]


class TorchStandIn:
    """Answers every request with a second."""

    def __init__(self, python):
        self.about, self.asked = {"ebmkit": "1", "threads": 2}, []

    def ask(self, work, **asked):
        self.asked.append({"work": work, **asked})
        return 1.0

    def close(self):
        """Ends nothing."""


def test_other_libraries_are_asked_for_the_same_work(command, module, monkeypatch):
    torch = TorchStandIn(None)
    monkeypatch.setattr(module, "TorchProcess", lambda python: torch)
    small = {"SVGD_SHAPES": [(3, 2)], "PLANE": (3, 2), "PLANE_STEPS": 2}
    for name, value in {**small, "IMAGES": [((4, 4, 1), 10)]}.items():
        monkeypatch.setattr(module, name, value)
    asked = "--works svgd plane images --repeats 1 --steps 2 --torch_python python"
    head, *lines = command("peers", asked)
    assert "ebmkit 1  threads 2" in head
    rows, limits = lines[2 : lines.index("")], lines[lines.index("") + 4 :]
    peers = [line.split(" steps ")[1].split()[0] for line in rows]
    assert peers == ["BlackJAX", "ebmkit", "BlackJAX", "ebmkit", "torchebm", "PyTorch"]
    assert [one["library"] for one in torch.asked[::2]] == [p for p in peers if p != "BlackJAX"]
    assert torch.asked[0] == {"library": "ebmkit", "work": "svgd", "shape": (3, 2), "steps": 2}
    assert torch.asked[-1]["shape"] == (64, 4, 4, 1)
    assert all(" 1000 " in line for line in rows if "BlackJAX" not in line)
    # Both works of networks say what limits them.
    works = [line.split(" steps ")[0] for line in limits]
    assert works == ["plane (3, 2), 2", "WRN-10-1 4x4x1, 64 x 10"]


def test_the_ratio_is_theirs_over_ours(module, monkeypatch):
    program, _ = module.harness.compile_program(jnp.sum, jnp.ones(2))
    work = module.Work("work", SimpleNamespace(program=program), {"peer": lambda: 6.0}, {})
    monkeypatch.setattr(module.harness, "seconds", lambda chain: 2.0)
    (row,) = module.measure(work, 3)
    assert (row["ours ms"], row["theirs ms"]) == (2000.0, 6000.0)
    assert row["ratio"] == (3.0, 3.0, 3.0)
