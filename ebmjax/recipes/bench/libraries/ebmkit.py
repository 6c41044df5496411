"""Langevin dynamics, MALA, HMC and SVGD of ebmkit, in a Python that has it."""

from typing import Any

PACKAGE = "ebm"
TASKS = {
    "sample": {"langevin": "step", "mala": "exact", "hmc": "exact", "svgd": "particles"},
}
LENGTH = 10
"""Gradients of a move of HMC."""


def sample(target: Any, method: str, starts: Any, *numbers: Any) -> tuple[Any, float]:
    """Returns draws and gradients of a chain; Langevin takes a tenth of MALA's step."""
    step_size, num_gradients, num_kept, seed = numbers
    import torch  # pyright: ignore[reportMissingImports]
    from ebm import samplers  # pyright: ignore[reportMissingImports]

    torch.manual_seed(seed)
    length = LENGTH if method == "hmc" else 1
    thinning = max(num_gradients // length // num_kept, 1)
    make = {
        "langevin": lambda: samplers.LangevinDynamics(0.1 * step_size),
        "mala": lambda: samplers.MALA(step_size),
        "hmc": lambda: samplers.HMC((2.0 * step_size) ** 0.5, length),
        "svgd": lambda: samplers.SVGD(step_size),
    }[method]
    x = torch.as_tensor(starts, dtype=torch.float32)
    groups = x if method == "svgd" else x.reshape(1, -1, target.dim)
    kept = []
    for group in groups:
        chains, draws = make(), []
        for _ in range(num_kept):
            group = chains.sample(lambda x: -target.log_density(torch, x), group, steps=thinning)
            draws.append(group)
        kept.append(torch.stack(draws, 1))
    draws = torch.stack(kept).reshape(*starts.shape[:2], num_kept, target.dim)
    return draws.numpy(), num_kept * thinning * length
