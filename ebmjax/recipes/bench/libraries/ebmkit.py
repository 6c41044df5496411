"""Langevin dynamics, MALA, HMC and SVGD of ebmkit, in a Python that has it."""

PACKAGE = "ebm"
TASKS = {"sample": {"langevin": "step", "mala": "exact", "hmc": "exact", "svgd": "particles"}}
LENGTH = 10  # gradients of a move of HMC


def sample(target, method, starts, step_size, num_gradients, num_kept, seed):
    """Returns draws and gradients of a chain; Langevin takes a tenth of MALA's step."""
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
    draws = torch.empty(*groups.shape[:2], num_kept, target.dim)
    for group, kept in zip(groups, draws, strict=True):
        chains = make()
        for i in range(num_kept):
            group = chains.sample(lambda x: -target.log_density(torch, x), group, steps=thinning)
            kept[:, i] = group
    return draws.reshape(*starts.shape[:2], num_kept, -1).numpy(), num_kept * thinning * length
