"""The robust-objective paper's scenarios for joint models (Table 2, appendix M), as variants."""

from typing import Any

Changes = dict[str, Any]

EXPONENTS = {"tenth": 0.1, "half": 0.5, "1": 1.0, "2": 2.0, "4": 4.0, "10": 10.0}
"""Exponents of the paper's weights exp(exponent f), by the names of variants."""

TABLE_1 = ("half", "1", "2", "4", "10")
"""Exponents of the default scenario: beta 2.5e-5 to 5e-4 at the output scale 2e4."""

TABLE_2 = {
    "steps_5": ("2", "half"),
    "negatives_8": ("2", "half"),
    "scale_2": ("2", "half", "10"),
    "scale_half": ("2", "half"),
    "step_4": ("2", "half", "4"),
    "step_quarter": ("2", "tenth", "1"),
}
"""Exponents of the other scenarios: 2; that of the best inception score and FID; and, if not 2,
that of the best accuracy."""


def robust(exponent: float, output_scale: float = 2e4) -> Changes:
    """Returns fields of the robust objective with weights exp(exponent f)."""
    return {
        "loss.name": "beta",
        "loss.beta": exponent / output_scale,
        "loss.output_scale": output_scale,
    }


def langevin(step_size: float, noise_scale: float) -> Changes:
    """Returns fields of JEM's SGLD: no box, and no penalty on the energies."""
    return {
        "loss.energy_l2": 0.0,
        "sampler.box": "none",
        "sampler.sgld.step_size": step_size,
        "sampler.sgld.noise_scale": noise_scale,
    }


DEFAULT = langevin(1.0, 0.01)
"""Returns the first scenario."""


def variants(learning_rate: float) -> dict[str, Changes]:
    """Returns beta_B, the default scenario at Table 1's exponents; the others at 0 and Table 2's.

    For step alpha and output scale o, the drift is alpha o / 2 and the noise sqrt(alpha). As in the
    paper, "step_4" also has a quarter of the output scale and of the learning rate. For
    "step_quarter" the text prints alpha 0.00025; Figure 25 and Table 2 have a quarter of 0.0001,
    used here.

    Args:
      learning_rate: learning rate of the base configuration.
    """
    scenarios = {
        "steps_5": (DEFAULT | {"sampler.num_steps": 5}, 2e4),
        "negatives_8": (DEFAULT | {"sampler.num_samples": 8}, 2e4),
        "scale_2": (langevin(2.0, 0.01), 4e4),
        "scale_half": (langevin(0.5, 0.01), 1e4),
        "step_4": (
            langevin(1.0, 0.02) | {"optimizer.learning_rate": learning_rate / 4},
            5e3,
        ),
        "step_quarter": (langevin(0.25, 0.005), 2e4),
    }
    made = {f"beta_{exponent}": DEFAULT | robust(EXPONENTS[exponent]) for exponent in TABLE_1}
    for name, (changes, output_scale) in scenarios.items():
        made[name] = changes
        for exponent in TABLE_2[name]:
            made[f"{name}_beta_{exponent}"] = changes | robust(EXPONENTS[exponent], output_scale)
    return made
