"""The chains that ``peers.py`` times in PyTorch, ebmkit and torchebm, which have their own Python.

``peers.py`` starts it. It answers each line of stdin, a JSON object that names the work, with the
seconds that it took.
"""

import importlib.metadata
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch  # pyright: ignore[reportMissingImports]  # optional, in an environment of its own
from _torch_jem import WideResNet
from torch import nn  # pyright: ignore[reportMissingImports]

STEP_SIZE = 1e-3
WIDTH = 128


class Energy(nn.Module):
    """The energy of points in the plane: an MLP of two hidden layers."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Linear(2, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH), nn.SiLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(WIDTH, 1))

    def forward(self, x: Any) -> Any:
        return self.layers(x)[:, 0]


def gaussian(x: Any) -> Any:
    """The energy of N(0, I)."""
    return 0.5 * (x**2).flatten(1).sum(1)


def plane(library: str, shape: list[int], steps: int) -> Callable[[], Any]:
    """Langevin chains of a library in the plane."""
    start = torch.randn(*shape)
    if library == "ebmkit":
        from ebm.samplers.langevin import (  # pyright: ignore[reportMissingImports]
            LangevinDynamics,
        )

        energy, sampler = Energy(), LangevinDynamics(STEP_SIZE, steps)
        return lambda: sampler.sample(energy, start)
    from torchebm.core import BaseModel  # pyright: ignore[reportMissingImports]
    from torchebm.samplers import (  # pyright: ignore[reportMissingImports]
        LangevinDynamics,
    )

    class Model(BaseModel):
        def __init__(self) -> None:
            super().__init__()
            self.energy = Energy()

        def forward(self, x: Any) -> Any:
            return self.energy(x)

    theirs = LangevinDynamics(Model(), step_size=STEP_SIZE, noise_scale=1.0)
    return lambda: theirs.sample(x=start, n_steps=steps)


def svgd(library: str, shape: list[int], steps: int) -> Callable[[], Any]:
    """Steps of ebmkit's SVGD with the median rule in a Gaussian."""
    assert library == "ebmkit"
    from ebm.samplers.svgd import SVGD  # pyright: ignore[reportMissingImports]

    start, sampler = torch.randn(*shape), SVGD(STEP_SIZE, steps)
    return lambda: sampler.sample(gaussian, start)


def images(library: str, shape: list[int], steps: int, depth: int = 10) -> Callable[[], Any]:
    """SGLD of a wide ResNet's logsumexp, as an eager loop."""
    assert library == "PyTorch"
    network = WideResNet(depth, 1, shape[-1], 10)
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    start = torch.rand(shape[0], shape[-1], *shape[1:-1])

    def chain() -> Any:
        x = start
        for _ in range(steps):
            x = x.detach().requires_grad_()
            (score,) = torch.autograd.grad(network(x).logsumexp(1).sum(), x)
            x = x + STEP_SIZE * score + (2 * STEP_SIZE) ** 0.5 * torch.randn_like(x)
        return x.detach()

    return chain


def main() -> None:
    """Answers what comes in on stdin."""
    names = {"ebmkit": "ebmkit", "torchebm": "torchebm", "PyTorch": "torch"}
    about = {name: importlib.metadata.version(package) for name, package in names.items()}
    print(json.dumps({**about, "threads": torch.get_num_threads()}), flush=True)
    makers, made = {"plane": plane, "svgd": svgd, "images": images}, {}
    for line in sys.stdin:
        if line not in made:
            asked = json.loads(line)
            made[line] = makers[asked.pop("work")](**asked)
        started = time.perf_counter()
        made[line]()
        print(json.dumps(time.perf_counter() - started), flush=True)


if __name__ == "__main__":
    main()
