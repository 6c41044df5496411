"""Configurations of runs made before fields were renamed, in today's fields."""

import copy
from typing import Any

FAMILIES = {"igebm": "image", "jem": "joint", "thermo": "latent"}
"""Names that families had."""

IN_SETTINGS = {
    "tempered_mala": {"acceptance_decay": 0.9},
    "literal_mala": {"ratio": "energies", "proposal": "twice_step", "rejects": True},
}
"""Options of a sampler in ``eval.settings`` that had no field, with the values they had."""


def today(saved: dict[str, Any]) -> dict[str, Any]:
    """Returns config.json of any run as a run of today would have written it."""
    saved = copy.deepcopy(saved)
    family = str(saved.get("family"))
    saved["family"] = family = FAMILIES.get(family, family)
    sampler = saved.get("sampler", {})
    if sampler.get("box") == "project":
        sampler["box"] = "clamp"
    if family == "joint":
        sampler.setdefault("allow_decoupled", False)
        _joint(sampler)
    if family == "latent":
        for name in ("prior", "posterior"):
            sampler.get(name, {}).setdefault("temperature", 1.0)
    if family in ("toy_beta", "toy_samplers"):
        sampler.setdefault("name", "sgld")
        sampler.setdefault("temperature", 1.0)
    for sections in saved.get("eval", {}).get("settings", {}).values():
        for name, options in IN_SETTINGS.items():
            if name in sections:
                sections[name] = options | sections[name]
    return saved


def _joint(sampler: dict[str, Any]) -> None:
    """Takes HMC out of BlackJAX's kernels, and a temperature that nothing read."""
    kernels = sampler.get("blackjax", {})
    hmc = kernels.pop("hmc", None)
    if hmc and sampler.get("name") == "blackjax" and kernels["kernel"] == "hmc":
        temperature = kernels["temperature"]
        step_size = hmc["step_size"] ** 2 / (2.0 * temperature)
        sampler["name"] = "hmc"
        sampler["hmc"] = {
            **hmc,
            "step_size": float(f"{step_size:.12g}"),
            "temperature": temperature,
        }
    if hmc and kernels["kernel"] == "hmc":
        kernels["kernel"] = "nuts"
    literal = sampler.get("literal_mala", {})
    if literal.get("ratio") == "energies" and literal.get("noise_scale") is not None:
        literal["temperature"] = None
