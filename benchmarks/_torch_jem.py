"""The JEM train step in plain PyTorch, timed on request: the other side of joint_training.py.

  python _torch_jem.py FILE.npz

FILE holds ``settings`` (JSON), ``images`` (N, H, W, C) uint8, ``labels``, ``probe`` images in
[-1, 1] and the parameters of the Flax network, ``params/`` before their names. Writes one JSON line
about itself with its logits of ``probe``; then, for every line with a number of training steps on
stdin, one with the seconds they took. Needs PyTorch and NumPy, and nothing of ebmjax.
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]  # optional, in an environment of its own
import torch.nn.functional as functional  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

LEAK = 0.2


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
        """Copies the parameters of ``ebmjax.networks.WideResNet``, flat, with "/" in their names.

        Raises:
          ValueError: if one is left over or of another shape.
        """
        places = {"Convolution_0": self.first, "Dense_0": self.linear}
        for i, block in enumerate(self.blocks):
            places |= {
                f"ResidualBlock_{i}/Convolution_0": block.conv_0,
                f"ResidualBlock_{i}/Convolution_1": block.conv_1,
                f"ResidualBlock_{i}/shortcut": block.shortcut,
            }
        missing = {id(parameter) for parameter in self.parameters()}
        for name, value in params.items():
            layer, kind = name.rsplit("/", 1)
            parameter = places[layer].weight if kind == "kernel" else places[layer].bias
            # HWIO to OIHW; a dense kernel (I, O) to (O, I).
            axes = {4: (3, 2, 0, 1), 2: (1, 0), 1: (0,)}[value.ndim]
            turned = torch.from_numpy(np.array(value.transpose(axes), order="C"))
            if turned.shape != parameter.shape:
                raise ValueError(f"{name} has shape {value.shape}, not {tuple(parameter.shape)}.")
            parameter.data.copy_(turned)
            missing.discard(id(parameter))
        if missing:
            raise ValueError(f"params lack {len(missing)} of the network's parameters.")


class Trainer:
    """JEM as its authors write it: a buffer on the CPU, chains by sum-then-grad, Adam."""

    def __init__(self, network: WideResNet, images: Any, labels: Any, settings: dict[str, Any]):
        self.network = network
        self.images = images
        self.labels = labels
        self.settings = settings
        self.buffer = torch.rand(settings["buffer_size"], *images.shape[1:]) * 2 - 1
        self.optimizer = torch.optim.Adam(network.parameters(), lr=settings["learning_rate"])

    def step(self) -> None:
        """One update on labelled images, images for p(x) and the ends of chains."""
        size = self.settings["batch_size"]
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
        return moved + self.settings["image_noise"] * torch.randn_like(moved)

    def sample(self) -> Any:
        """The ends of chains from the buffer, which are put back."""
        settings = self.settings
        slots = torch.randint(len(self.buffer), (settings["batch_size"],))
        x = self.buffer[slots]
        is_new = torch.rand(len(x), 1, 1, 1) < settings["reinit_prob"]
        x = torch.where(is_new, torch.rand_like(x) * 2 - 1, x).requires_grad_()
        for _ in range(settings["num_steps"]):
            log_density = self.network(x).logsumexp(1).sum()
            (score,) = torch.autograd.grad(log_density, [x])
            x.data += settings["step_size"] * score + settings["noise_scale"] * torch.randn_like(x)
        x = x.detach()
        self.buffer[slots] = x
        return x


def main() -> None:
    """Answers what comes in on stdin."""
    with np.load(sys.argv[1]) as file:
        arrays = dict(file)
    settings = json.loads(str(arrays["settings"]))
    sizes = [settings["depth"], settings["widen_factor"], arrays["images"].shape[3]]
    sizes.append(settings["num_classes"])
    prefix = "params/"
    params = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
    network, checked = WideResNet(*sizes), WideResNet(*sizes, is_padded_as_xla=True)
    network.load_flax(params)
    checked.load_flax(params)
    images, probe = (torch.from_numpy(arrays[k]).permute(0, 3, 1, 2) for k in ("images", "probe"))
    trainer = Trainer(
        network, images.contiguous(), torch.from_numpy(arrays["labels"]).long(), settings
    )
    about = {
        "version": torch.__version__,
        "threads": torch.get_num_threads(),
        "num_params": sum(parameter.numel() for parameter in network.parameters()),
        "logits": checked(probe).tolist(),
    }
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        started = time.perf_counter()
        for _ in range(int(line)):
            trainer.step()
        print(json.dumps(time.perf_counter() - started), flush=True)


if __name__ == "__main__":
    main()
