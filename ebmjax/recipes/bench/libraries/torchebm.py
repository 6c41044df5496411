"""Langevin dynamics and HMC of torchebm, in a Python that has it."""

PACKAGE = "torchebm"
TASKS = {"sample": {"langevin": "step", "hmc": "exact"}}
LENGTH = 10  # gradients of a move of HMC


def sample(target, method, starts, step_size, num_gradients, num_kept, seed):
    """Returns draws and gradients of a chain; Langevin takes a tenth of MALA's step."""
    import torch  # pyright: ignore[reportMissingImports]
    from torchebm import core, samplers  # pyright: ignore[reportAttributeAccessIssue]

    class TorchTarget(core.BaseModel):
        def forward(self, x):
            return -target.log_density(torch, x)

    torch.manual_seed(seed)
    if method == "langevin":
        chains, length = samplers.LangevinDynamics(TorchTarget(), step_size=0.1 * step_size), 1
    else:
        leap, length = (2.0 * step_size) ** 0.5, LENGTH
        chains = samplers.HamiltonianMonteCarlo(TorchTarget(), leap, n_leapfrog_steps=length)
    thinning = max(num_gradients // length // num_kept, 1)
    x = torch.as_tensor(starts, dtype=torch.float32).reshape(-1, target.dim)
    steps = num_kept * thinning
    draws = chains.sample(x=x, n_steps=steps, thin=thinning, return_trajectory=True).detach()
    return draws.reshape(*starts.shape[:2], num_kept, -1).numpy(), steps * length
