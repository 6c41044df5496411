"""Langevin dynamics and HMC of torchebm, in a Python that has it."""

from typing import Any

PACKAGE = "torchebm"
TASKS = {"sample": {"langevin": "step", "hmc": "exact"}}
LENGTH = 10
"""Gradients of a move of HMC."""


def sample(target: Any, method: str, starts: Any, *numbers: Any) -> tuple[Any, float]:
    """Returns draws and gradients of a chain; Langevin takes a tenth of MALA's step."""
    step_size, num_gradients, num_kept, seed = numbers
    import torch  # pyright: ignore[reportMissingImports]
    from torchebm import core, samplers  # pyright: ignore[reportAttributeAccessIssue]

    class TorchTarget(core.BaseModel):
        def forward(self, x: Any) -> Any:
            return -target.log_density(torch, x)

    torch.manual_seed(seed)
    if method == "langevin":
        chains, length = samplers.LangevinDynamics(TorchTarget(), step_size=0.1 * step_size), 1
    else:
        leap, length = (2.0 * step_size) ** 0.5, LENGTH
        chains = samplers.HamiltonianMonteCarlo(TorchTarget(), leap, n_leapfrog_steps=length)
    thinning = max(num_gradients // length // num_kept, 1)
    x = torch.as_tensor(starts, dtype=torch.float32).reshape(-1, target.dim)
    num_steps = num_kept * thinning
    draws = chains.sample(x=x, n_steps=num_steps, thin=thinning, return_trajectory=True)
    shape = *starts.shape[:2], num_kept, target.dim
    return draws.reshape(shape).detach().numpy(), num_steps * length
