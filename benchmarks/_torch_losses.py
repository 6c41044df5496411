"""Losses of ebmkit and torchebm at given weights, in their Python, for losses.py.

A FILE.npz has parameters of the energy, points and all draws. Returns, by the name of a loss and a
library, the loss and its gradient, in the order of the parameters.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]  # optional, in an environment of its own
from torch import nn  # pyright: ignore[reportMissingImports]


class Energy(nn.Module):
    """An MLP of swish, points (N, d) to energies (N,)."""

    def __init__(self, arrays: dict[str, Any]):
        super().__init__()
        self.parts = nn.ParameterList([arrays[name].clone() for name in ("w0", "b0", "w1", "w2")])

    def forward(self, x: Any, *_: Any, **__: Any) -> Any:
        w0, b0, w1, w2 = self.parts
        silu = nn.functional.silu
        return silu(silu(x @ w0 + b0) @ w1) @ w2


def give(levels: Any, *draws: Any) -> None:
    """Makes PyTorch's next normal draws be ``draws``, in this order, and integers ``levels``."""
    left = list(draws)

    def pop(*_: Any, **__: Any) -> Any:
        return left.pop(0)

    torch.randn = torch.randn_like = pop
    torch.randint = lambda *_, **__: levels


class Given:
    """A sampler and a noise whose draws are given."""

    def __init__(self, x: Any):
        self.x = x

    def sample(self, *_: Any, **__: Any) -> Any:
        return self.x

    def log_prob(self, x: Any) -> Any:
        return -0.5 * (x**2).sum(1) - 0.5 * x.shape[1] * np.log(2 * np.pi)


def peers(a: dict[str, Any], energy: Energy, core: Any) -> dict[str, Callable[[], Any]]:
    """Returns what computes each loss, by its name and the library's."""
    kit = import_module("ebm.losses")
    torchebm = import_module("torchebm.losses")

    class Model(core.BaseModel):
        def __init__(self) -> None:
            super().__init__(dtype=torch.float64)
            self.energy = energy

        def forward(self, x: Any) -> Any:
            return self.energy(x)

    model, options = Model(), {"dtype": torch.float64}
    sigma, l2 = float(a["sigma"]), float(a["l2"])
    noise_ratio = len(a["negatives"]) // len(a["x"])
    contrastive = kit.NoiseContrastiveEstimation(Given(a["negatives"]), noise_ratio)
    contrastive.log_z.data = a["log_z"]
    discrepancy = kit.EnergyDiscrepancy(sigma, a["copies"].shape[1], float(a["stabiliser"]))
    divergence = kit.ContrastiveDivergence(Given(a["negatives"]), None, l2)
    theirs = torchebm.ContrastiveDivergence(
        model, Given(a["negatives"]), energy_reg_weight=l2, **options
    )
    denoising = torchebm.DenoisingScoreMatching(model, sigma, **options)
    sliced = torchebm.SlicedScoreMatching(model, 1, **options)
    exact = torchebm.ScoreMatching(model, "exact", **options)
    levels = kit.MultiSigmaDenoisingScoreMatching(a["sigmas"])
    x = a["x"]
    return {
        "contrastive divergence, ebmkit": lambda: divergence(energy, x).loss,
        "contrastive divergence, torchebm": lambda: theirs(x)[0],
        "denoising, ebmkit": lambda: kit.DenoisingScoreMatching(sigma)(energy, x).loss,
        "denoising, torchebm": lambda: denoising(x),
        "denoising of many levels, ebmkit": lambda: levels(energy, x).loss,
        "score matching, ebmkit": lambda: kit.ExactScoreMatching()(energy, x).loss,
        "score matching, torchebm": lambda: exact(x),
        "sliced, ebmkit": lambda: kit.SlicedScoreMatching(1)(energy, x).loss,
        "sliced, torchebm": lambda: sliced(x),
        "energy discrepancy, ebmkit": lambda: discrepancy(energy, x).loss,
        "noise-contrastive, ebmkit": lambda: contrastive(energy, x).loss,
    }


def losses(file: str) -> dict[str, Any]:
    """Returns all losses and gradients for the arrays of FILE.npz."""
    with np.load(file) as opened:
        arrays = {name: torch.from_numpy(np.asarray(array)) for name, array in opened.items()}
    energy = Energy(arrays)
    unit, found = arrays["noise"], {}
    draws = {"denoising": [unit], "sliced": [arrays["signs"]], "energy": [unit, arrays["copies"]]}
    for name, loss_fn in peers(arrays, energy, import_module("torchebm.core")).items():
        give(arrays["levels"], *draws.get(name.split(",")[0].split()[0], []))
        energy.zero_grad()
        loss = loss_fn()
        loss.backward()
        gradient = torch.cat([p.grad.flatten() for p in energy.parts])
        found[name] = {"loss": loss.item(), "gradient": gradient.tolist()}
    return found
