"""PyTorch, timed in a Python of its own.

Writes one JSON line about itself. Then answers each line of stdin, a JSON object that names the
work, with the seconds of a call; {"error": WHY} where it cannot.
"load" is answered with the number of parameters of JEM's network for the images in FILE.npz, which
holds ``settings`` (a configuration in JSON), ``images`` (N, H, W, C) uint8 and ``labels``.
"""

import itertools
import json
import sys
import time
from collections.abc import Callable
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

    def __init__(self, inputs: int, features: int, stride: int):
        super().__init__()
        self.conv_0 = nn.Conv2d(inputs, features, 3, padding=1)
        self.conv_1 = nn.Conv2d(features, features, 3, stride, padding=1)
        is_same = stride == 1 and inputs == features
        self.shortcut = nn.Identity() if is_same else nn.Conv2d(inputs, features, 1, stride)

    def forward(self, x: Any) -> Any:
        y = functional.leaky_relu(self.conv_0(functional.leaky_relu(x, LEAK)), LEAK)
        return self.shortcut(x) + self.conv_1(y)


class WideResNet(nn.Module):
    """WRN-d-w without normalisation, images (N, C, H, W) of even sides to logits."""

    def __init__(self, depth: int, width: int, channels: int, classes: int):
        super().__init__()
        self.first = nn.Conv2d(channels, 16, 3, padding=1)
        inputs, blocks = 16, []
        for stage, block in itertools.product(range(3), range((depth - 4) // 6)):
            stride, features = 2 if stage and not block else 1, 16 * 2**stage * width
            blocks.append(ResidualBlock(inputs, features, stride))
            inputs = features
        self.blocks = nn.Sequential(*blocks)
        self.linear = nn.Linear(inputs, classes)

    def forward(self, x: Any) -> Any:
        x = functional.leaky_relu(self.blocks(self.first(x)), LEAK)
        return self.linear(x.mean((2, 3)))


def prepare(network: nn.Module, way: str) -> tuple[Callable[[Any], Any], Any]:
    """Returns the network as it is called in one of the ways, and its memory format."""
    layout = torch.contiguous_format if way == "eager" else torch.channels_last
    network.to(memory_format=layout)
    return torch.compile(network, dynamic=False) if way == "compile" else network, layout


class Trainer:
    """JEM as its authors write it: a buffer on the CPU, chains by sum-then-grad, Adam."""

    def __init__(
        self, network: Any, images: Any, labels: Any, settings: dict[str, Any], way: str = "eager"
    ):
        self.network, self.layout = prepare(network, way)
        self.module = network
        self.images = images
        self.labels = labels
        self.settings = settings
        self.buffer = torch.rand(settings["sampler"]["buffer"]["size"], *images.shape[1:]) * 2 - 1
        rate = settings["optimizer"]["learning_rate"]
        self.optimizer = torch.optim.Adam(network.parameters(), lr=rate)

    def step(self) -> None:
        """One update on labelled images, images for p(x) and the ends of chains."""
        size = self.settings["train"]["batch_size"]
        labelled = torch.randperm(len(self.images))[:size]
        unlabelled = torch.randperm(len(self.images))[:size]
        classified, positives = self.view(labelled), self.view(unlabelled)
        negatives = self.sample()
        every = torch.cat([classified, positives, negatives])
        logits = self.network(every.contiguous(memory_format=self.layout))
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
        x = torch.where(is_new, torch.rand_like(x) * 2 - 1, x)
        x = x.contiguous(memory_format=self.layout).requires_grad_()
        self.module.requires_grad_(False)  # else the compiled network takes their gradients, too
        for _ in range(sampler["num_steps"]):
            log_density = self.network(x).logsumexp(1).sum()
            (score,) = torch.autograd.grad(log_density, [x])
            x.data += sgld["step_size"] * score + sgld["noise_scale"] * torch.randn_like(x)
        self.module.requires_grad_(True)
        x = x.detach()
        self.buffer[slots] = x
        return x


def load(file: str) -> dict[str, Any]:
    """Makes JEM for the images in ``file``; returns its number of parameters."""
    with np.load(file) as opened:
        arrays = dict(opened)
    settings = json.loads(str(arrays["settings"]))
    model, num_classes = settings["model"], settings["data"]["num_classes"]
    sizes = model["depth"], model["widen_factor"], arrays["images"].shape[3], num_classes
    images = torch.from_numpy(arrays["images"]).permute(0, 3, 1, 2).contiguous()
    labels = torch.from_numpy(arrays["labels"]).long()
    MAKERS["train"] = lambda way: Trainer(WideResNet(*sizes), images, labels, settings, way).step
    return {"num_params": sum(one.numel() for one in WideResNet(*sizes).parameters())}


def images(shape: list[int], steps: int, depth: int, way: str) -> Callable[[], Any]:
    """Makes SGLD of a wide ResNet's logsumexp."""
    network = WideResNet(depth, 1, shape[-1], 10)
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    call, layout = prepare(network, way)
    start = torch.rand(shape[0], shape[-1], *shape[1:-1]).contiguous(memory_format=layout)

    def chain() -> Any:
        x = start
        for _ in range(steps):
            x = x.detach().requires_grad_()
            (score,) = torch.autograd.grad(call(x).logsumexp(1).sum(), x)
            x = x + STEP_SIZE * score + (2 * STEP_SIZE) ** 0.5 * torch.randn_like(x)
        return x.detach()

    return chain


MAKERS: dict[str, Callable[..., Any]] = {"images": images}
MADE: dict[str, Callable[[], Any]] = {}


def answer(work: str, calls: int = 1, **asked: Any) -> Any:
    """Does what a line asks for."""
    if work == "load":
        return load(**asked)
    name = json.dumps([work, asked])
    if name not in MADE:
        MADE[name] = MAKERS[work](**asked)
    started = time.perf_counter()
    for _ in range(calls):
        MADE[name]()
    return (time.perf_counter() - started) / calls


def main() -> None:
    """Answers what comes in on stdin."""
    about = {"PyTorch": torch.__version__, "PyTorch's threads": torch.get_num_threads()}
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        try:
            found = answer(**json.loads(line))
        except Exception as error:  # of a peer, whatever it is: the row says so
            found = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
