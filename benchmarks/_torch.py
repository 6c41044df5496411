"""PyTorch, ebmkit and torchebm, timed in their own Python for peers.py.

Writes one JSON line about itself. Then answers each line of stdin, a JSON object that names the
work, with the seconds that the work took. The work "load" names a FILE.npz and is answered with
the number of parameters and the logits of its network. FILE holds ``settings`` (a configuration in
JSON), ``images`` (N, H, W, C) uint8, ``labels``, ``probe`` images in [-1, 1] and the parameters of
the Flax network, ``params/`` before their names. Needs PyTorch and NumPy, and nothing of ebmjax;
ebmkit and torchebm where their chains are asked for.
"""

import contextlib
import importlib
import importlib.metadata
import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]  # optional, in an environment of its own
import torch.nn.functional as functional  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

LEAK = 0.2
STEP_SIZE = 1e-3
"""Step of the chains that peers.py compares."""


class ResidualBlock(nn.Module):
    """Twice (leaky ReLU, 3x3 convolution), added to the input."""

    def __init__(self, inputs: int, features: int, stride: int, is_padded_as_xla: bool):
        super().__init__()
        is_padded = is_padded_as_xla and stride == 2
        self.conv_0 = nn.Conv2d(inputs, features, 3, padding=1)
        self.pad = nn.ZeroPad2d((0, 1, 0, 1)) if is_padded else nn.Identity()
        self.conv_1 = nn.Conv2d(features, features, 3, stride, padding=0 if is_padded else 1)
        is_same = stride == 1 and inputs == features
        self.shortcut = nn.Identity() if is_same else nn.Conv2d(inputs, features, 1, stride)

    def forward(self, x: Any) -> Any:
        y = functional.leaky_relu(self.conv_0(functional.leaky_relu(x, LEAK)), LEAK)
        return self.shortcut(x) + self.conv_1(self.pad(y))


class WideResNet(nn.Module):
    """WRN-d-w without normalisation, images (N, C, H, W) of even sides to logits.

    Where the stride is 2, XLA pads an even side at its end and PyTorch's ``padding=1`` at its
    start. ``is_padded_as_xla`` gives the logits of ``ebmjax.networks.WideResNet`` for its
    parameters; but a layer that pads makes the train step some 14 % slower, so it is not timed.
    """

    def __init__(
        self,
        depth: int,
        widen_factor: int,
        channels: int,
        num_classes: int,
        *,
        is_padded_as_xla: bool = False,
    ):
        super().__init__()
        self.first = nn.Conv2d(channels, 16, 3, padding=1)
        widths = [16 * 2**stage * widen_factor for stage in range(3)]
        num_blocks = (depth - 4) // 6
        inputs, blocks = 16, []
        for stage, width in enumerate(widths):
            for block in range(num_blocks):
                stride = 2 if stage and not block else 1
                blocks.append(ResidualBlock(inputs, width, stride, is_padded_as_xla))
                inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.linear = nn.Linear(inputs, num_classes)

    def forward(self, x: Any) -> Any:
        x = functional.leaky_relu(self.blocks(self.first(x)), LEAK)
        return self.linear(x.mean((2, 3)))

    def load_flax(self, params: Mapping[str, np.ndarray]) -> None:
        """Copies the parameters of ``ebmjax.networks.WideResNet``, flat, "/" in their names."""
        places = {"Convolution_0": self.first, "Dense_0": self.linear}
        for i, block in enumerate(self.blocks):
            places |= {
                f"ResidualBlock_{i}/Convolution_0": block.conv_0,
                f"ResidualBlock_{i}/Convolution_1": block.conv_1,
                f"ResidualBlock_{i}/shortcut": block.shortcut,
            }
        for name, value in params.items():
            layer, kind = name.rsplit("/", 1)
            parameter = places[layer].weight if kind == "kernel" else places[layer].bias
            # HWIO to OIHW; a dense kernel (I, O) to (O, I).
            axes = {4: (3, 2, 0, 1), 2: (1, 0), 1: (0,)}[value.ndim]
            parameter.data[:] = torch.from_numpy(np.array(value.transpose(axes), order="C"))


class Trainer:
    """JEM as its authors write it: a buffer on the CPU, chains by sum-then-grad, Adam."""

    def __init__(self, network: WideResNet, images: Any, labels: Any, settings: dict[str, Any]):
        self.network = network
        self.images = images
        self.labels = labels
        self.settings = settings
        self.buffer = torch.rand(settings["sampler"]["buffer"]["size"], *images.shape[1:]) * 2 - 1
        self.optimizer = torch.optim.Adam(
            network.parameters(), lr=settings["optimizer"]["learning_rate"]
        )

    def step(self) -> None:
        """One update on labelled images, images for p(x) and the ends of chains."""
        size = self.settings["train"]["batch_size"]
        labelled = torch.randperm(len(self.images))[:size]
        unlabelled = torch.randperm(len(self.images))[:size]
        classified, positives = self.view(labelled), self.view(unlabelled)
        negatives = self.sample()
        logits = self.network(torch.cat([classified, positives, negatives]))
        of_classified, of_positives, of_negatives = logits.split(size)
        loss = functional.cross_entropy(of_classified, self.labels[labelled])
        loss = loss + of_negatives.logsumexp(1).mean() - of_positives.logsumexp(1).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def view(self, chosen: Any) -> Any:
        """Images in [-1, 1], each moved by at most a pixel, with noise."""
        images = self.images[chosen].float() / 127.5 - 1
        windows = functional.pad(images, (1, 1, 1, 1), mode="reflect")
        windows = windows.unfold(2, images.shape[2], 1).unfold(3, images.shape[3], 1)
        rows, columns = torch.randint(3, (2, len(images)))
        moved = windows[torch.arange(len(images)), :, rows, columns]
        return moved + self.settings["data"]["noise_scale"] * torch.randn_like(moved)

    def sample(self) -> Any:
        """The ends of chains from the buffer, which are put back."""
        sampler = self.settings["sampler"]
        sgld = sampler["sgld"]
        slots = torch.randint(len(self.buffer), (sampler["num_samples"],))
        x = self.buffer[slots]
        is_new = torch.rand(len(x), 1, 1, 1) < sampler["buffer"]["reinit_prob"]
        x = torch.where(is_new, torch.rand_like(x) * 2 - 1, x).requires_grad_()
        for _ in range(sampler["num_steps"]):
            log_density = self.network(x).logsumexp(1).sum()
            (score,) = torch.autograd.grad(log_density, [x])
            x.data += sgld["step_size"] * score + sgld["noise_scale"] * torch.randn_like(x)
        x = x.detach()
        self.buffer[slots] = x
        return x


def load(file: str) -> tuple[Trainer, dict[str, Any]]:
    """Returns JEM of the network and images in ``file``, and what the network says of them."""
    with np.load(file) as opened:
        arrays = dict(opened)
    settings = json.loads(str(arrays["settings"]))
    model, num_classes = settings["model"], settings["data"]["num_classes"]
    sizes = model["depth"], model["widen_factor"], arrays["images"].shape[3], num_classes
    prefix = "params/"
    params = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
    network, checked = WideResNet(*sizes), WideResNet(*sizes, is_padded_as_xla=True)
    network.load_flax(params)
    checked.load_flax(params)
    images, probe = (torch.from_numpy(arrays[k]).permute(0, 3, 1, 2) for k in ("images", "probe"))
    labels = torch.from_numpy(arrays["labels"]).long()
    return Trainer(network, images.contiguous(), labels, settings), {
        "num_params": sum(parameter.numel() for parameter in network.parameters()),
        "logits": checked(probe).tolist(),
    }


class Energy(nn.Module):
    """The energy of points in the plane: an MLP of two hidden layers of 128."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Linear(2, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(128, 1))

    def forward(self, x: Any) -> Any:
        return self.layers(x)[:, 0]


def gaussian(x: Any) -> Any:
    """Returns the energy of N(0, I)."""
    return 0.5 * (x**2).flatten(1).sum(1)


def plane(library: str, shape: list[int], steps: int) -> Callable[[], Any]:
    """Makes Langevin chains of a library in the plane."""
    start = torch.randn(*shape)
    if library == "ebmkit":
        langevin = importlib.import_module("ebm.samplers.langevin")
        energy, sampler = Energy(), langevin.LangevinDynamics(STEP_SIZE, steps)
        return lambda: sampler.sample(energy, start)
    core, theirs = (importlib.import_module(f"torchebm.{name}") for name in ("core", "samplers"))

    class Model(core.BaseModel):
        def __init__(self) -> None:
            super().__init__()
            self.energy = Energy()

        def forward(self, x: Any) -> Any:
            return self.energy(x)

    chains = theirs.LangevinDynamics(Model(), step_size=STEP_SIZE, noise_scale=1.0)
    return lambda: chains.sample(x=start, n_steps=steps)


def svgd(library: str, shape: list[int], steps: int) -> Callable[[], Any]:
    """Makes steps of ebmkit's SVGD with the median rule in a Gaussian."""
    assert library == "ebmkit"
    start = torch.randn(*shape)
    sampler = importlib.import_module("ebm.samplers.svgd").SVGD(STEP_SIZE, steps)
    return lambda: sampler.sample(gaussian, start)


def images(library: str, shape: list[int], steps: int, depth: int) -> Callable[[], Any]:
    """Makes SGLD of a wide ResNet's logsumexp, as an eager loop."""
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


MAKERS: dict[str, Callable[..., Any]] = {"plane": plane, "svgd": svgd, "images": images}


def main() -> None:
    """Answers what comes in on stdin."""
    about: dict[str, Any] = {"PyTorch": torch.__version__, "threads": torch.get_num_threads()}
    for package in ("ebmkit", "torchebm"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            about[package] = importlib.metadata.version(package)
    print(json.dumps(about), flush=True)
    made: dict[str, Callable[[], Any]] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        work = asked.pop("work")
        if work == "load":
            trainer, answer = load(**asked)
            made = {"train": trainer.step}
            print(json.dumps(answer), flush=True)
            continue
        calls = asked.pop("calls", 1)
        name = work if work == "train" else line
        if name not in made:
            made[name] = MAKERS[work](**asked)
        started = time.perf_counter()
        for _ in range(calls):
            made[name]()
        print(json.dumps(time.perf_counter() - started), flush=True)


if __name__ == "__main__":
    main()
