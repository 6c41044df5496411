"""Steps and temperatures of every sampler on images in [-1, 1], for configurations of images."""

from typing import Any


def set_fields(names: tuple[str, ...], **values: Any) -> dict[str, Any]:
    """Returns the same fields of several samplers, by dotted name."""
    return {f"sampler.{name}.{key}": value for name in names for key, value in values.items()}


LANGEVIN = ("sgld", "proximal_sgld", "psgld")
REJECTING = ("mala", "tempered_mala")
COLD = (*REJECTING, "underdamped_langevin", "stochastic_svgd", "hmc")

IMAGES: dict[str, Any] = {
    "sampler.gradient_descent.step_size": 1.0,
    # The noise of these is chosen, and implies the temperature 5e-5, that of the others.
    **set_fields(LANGEVIN, step_size=1.0, noise_scale=0.01),
    **set_fields(COLD, step_size=1.0, temperature=5e-5),
    "sampler.psgld.decay": 0.9,
    "sampler.psgld.damping": 1.0,
    "sampler.svgd.step_size": 8.0,
    "sampler.adaptive_svgd.step_size": 0.02,
    "sampler.stochastic_svgd.step_size": 8.0,
    "sampler.hmc.step_size": 0.1,
}
JOINT: dict[str, Any] = {
    **IMAGES,
    # Samplers that reject follow the temperature 5e-4, at a step that they accept.
    **set_fields(REJECTING, step_size=0.1, temperature=5e-4),
    "sampler.hmc.temperature": 5e-4,
    "sampler.hmc.num_integration_steps": 5,
    "sampler.proximal_sgld.noise_scale": 0.0,
    "sampler.pyld.step_size": 0.2,
}
