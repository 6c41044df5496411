"""PyTorch's side of league.py: python _league_torch.py METHOD IN.npz OUT.npz MINUTES NUM SEED.

IN.npz holds ``images`` (N, H, W, C) uint8. The method trains for the minutes, without labels, and
writes ``images`` (NUM, H, W, C) uint8. The first three methods have one U-Net of 0.7 million
parameters, Adam with a learning rate that falls to 0, and an average of the parameters:

- ddpm: noise prediction, cosine schedule (Ho et al. 2020; Nichol & Dhariwal 2021), 100 steps;
- flow_matching: linear paths (Lipman et al. 2023), 50 steps of Heun;
- torchebm: its EquilibriumMatchingLoss and FlowSampler, 100 steps of Euler, as in its README;
- ebmkit: its ConvEnergy, persistent contrastive divergence and Trainer, with IGEBM's settings that
  its documentation gives; samples are the buffer's, moved once more.
"""

import copy
import itertools
import math
import sys
import time
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]  # optional, in an environment of its own
import torch.nn.functional as functional  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

BATCH, RATE, DECAY, WIDTH = 64, 1e-3, 0.999, 32


class Block(nn.Module):
    """Twice (normalisation, SiLU, 3x3 convolution) with the time between, added to the input."""

    def __init__(self, inputs: int, features: int):
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(8, inputs), nn.GroupNorm(8, features)])
        self.first = nn.Conv2d(inputs, features, 3, padding=1)
        self.second = nn.Conv2d(features, features, 3, padding=1)
        self.time, self.skip = nn.Linear(128, features), nn.Conv2d(inputs, features, 1)

    def forward(self, x: Any, t: Any) -> Any:
        y = self.first(functional.silu(self.norms[0](x))) + self.time(t)[..., None, None]
        return self.skip(x) + self.second(functional.silu(self.norms[1](y)))


class UNet(nn.Module):
    """Three scales of images (N, C, H, W) of any sides; ``t`` (N,) lies in [0, 1]."""

    def __init__(self, channels: int):
        super().__init__()
        w = WIDTH
        self.embed = nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU())
        self.first = nn.Conv2d(channels, w, 3, padding=1)
        self.down = nn.ModuleList([Block(w, w), Block(w, 2 * w), Block(2 * w, 3 * w)])
        self.middle = Block(3 * w, 3 * w)
        self.up = nn.ModuleList([Block(6 * w, 2 * w), Block(4 * w, w), Block(2 * w, w)])
        self.last = nn.Sequential(nn.GroupNorm(8, w), nn.SiLU(), nn.Conv2d(w, channels, 3, 1, 1))

    def forward(self, x: Any, t: Any) -> Any:
        angles = 1000 * t[:, None] * torch.exp(-math.log(1e4) * torch.arange(32) / 32)
        t = self.embed(torch.cat([angles.sin(), angles.cos()], dim=1))
        x, kept = self.first(x), []
        for block in self.down:
            kept.append(block(x, t))
            x = functional.avg_pool2d(kept[-1], 2, ceil_mode=True)
        x = self.middle(x, t)
        for block in self.up:
            x = functional.interpolate(x, size=kept[-1].shape[2:])
            x = block(torch.cat([x, kept.pop()], dim=1), t)
        return self.last(x)


def train(x: Any, minutes: float, loss_fn: Any, network: nn.Module) -> nn.Module:
    """Returns the average of the network after training; ``loss_fn`` takes a batch."""
    average, begun, share, step = copy.deepcopy(network), time.monotonic(), 0.0, 0
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    while share < 1:
        optimizer.param_groups[0]["lr"] = RATE * math.cos(math.pi / 2 * share)
        optimizer.zero_grad()
        loss_fn(x[torch.randint(len(x), (BATCH,))]).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        step += 1
        for a, b in zip(average.parameters(), network.parameters(), strict=True):
            a.data.lerp_(b.data, 1 - min(DECAY, step / (step + 10)))
        share = (time.monotonic() - begun) / (60 * minutes)
    print(f"{step} steps", flush=True)
    return average.requires_grad_(False)


def ddpm(x: Any, minutes: float, num: int) -> Any:
    level = lambda t: torch.cos((t + 0.008) / 1.008 * math.pi / 2).square()  # noqa: E731
    network = UNet(x.shape[1])

    def loss_fn(batch: Any) -> Any:
        t, noise = torch.rand(len(batch)), torch.randn_like(batch)
        a = level(t)[:, None, None, None]
        return functional.mse_loss(network(a.sqrt() * batch + (1 - a).sqrt() * noise, t), noise)

    average, z = train(x, minutes, loss_fn, network), torch.randn(num, *x.shape[1:])
    times = torch.linspace(0.999, 0, 101)
    for t, after in itertools.pairwise(times):
        a, b = level(t), level(after).clamp(max=0.9999)
        noise = average(z, t.expand(num))
        clean = ((z - (1 - a).sqrt() * noise) / a.sqrt()).clamp(-1, 1)
        kept = a / b  # the posterior of the step, given the clean image
        mean = (b.sqrt() * (1 - kept) * clean + kept.sqrt() * (1 - b) * z) / (1 - a)
        z = mean + ((1 - kept) * (1 - b) / (1 - a)).sqrt() * torch.randn_like(z)
    return clean


def flow_matching(x: Any, minutes: float, num: int) -> Any:
    network = UNet(x.shape[1])

    def loss_fn(batch: Any) -> Any:
        t, noise = torch.rand(len(batch)), torch.randn_like(batch)
        s = t[:, None, None, None]
        return functional.mse_loss(network(s * batch + (1 - s) * noise, t), batch - noise)

    average, z = train(x, minutes, loss_fn, network), torch.randn(num, *x.shape[1:])
    for t in torch.arange(50) / 50:
        slope = average(z, t.expand(num))
        z = z + (slope + average(z + slope / 50, (t + 0.02).expand(num))) / 100
    return z


def torchebm(x: Any, minutes: float, num: int) -> Any:
    from torchebm.losses import EquilibriumMatchingLoss  # pyright: ignore[reportMissingImports]
    from torchebm.samplers import FlowSampler  # pyright: ignore[reportMissingImports]

    network = UNet(x.shape[1])
    average = train(x, minutes, EquilibriumMatchingLoss(model=network), network)
    sampler = FlowSampler(model=average, negate_velocity=True, integrator="euler")
    return sampler.sample(x=torch.randn(num, *x.shape[1:]), n_steps=100)


def ebmkit(x: Any, minutes: float, num: int) -> Any:
    import ebm  # pyright: ignore[reportMissingImports]

    chains = {"step_size": 10.0, "noise_scale": 0.005, "grad_clip": 0.01, "clamp": (-1, 1)}
    sampler = ebm.LangevinDynamics(steps=60, **chains)
    start = lambda shape: 2 * torch.rand(shape) - 1  # noqa: E731
    buffer = ebm.ReplayBuffer(10_000, x.shape[1:], init_fn=start)
    energy = ebm.nets.ConvEnergy(x.shape[1])
    loss_fn = ebm.ContrastiveDivergence(sampler, buffer, energy_reg=1.0)
    trainer, begun = ebm.Trainer(energy, loss_fn, lr=1e-4, ema_decay=0.999), time.monotonic()
    while time.monotonic() - begun < 60 * minutes:
        trainer.fit(x, steps=10, batch_size=BATCH, verbose=False)
    return sampler.sample(trainer.ema.module, buffer.sample(num))


def main() -> None:
    """Trains one method and writes its samples."""
    method, source, out, minutes, num, seed = sys.argv[1:]
    torch.manual_seed(int(seed))
    with np.load(source) as found:
        x = torch.from_numpy(found["images"]).permute(0, 3, 1, 2).float() / 127.5 - 1
    methods = {one.__name__: one for one in (ddpm, flow_matching, torchebm, ebmkit)}
    found = methods[method](x, float(minutes), int(num)).detach()
    images = (127.5 * (found.clamp(-1, 1) + 1)).round().byte().permute(0, 2, 3, 1)
    np.savez(out, images=images.numpy())


if __name__ == "__main__":
    main()
