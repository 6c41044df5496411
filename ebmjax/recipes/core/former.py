"""Configurations of runs made before fields were renamed or removed, in today's fields."""

import copy
from collections.abc import Iterator
from typing import Any

from ebmjax.recipes.core import families
from ebmjax.recipes.core.fields import flatten

FAMILIES = {
    "igebm": "image",
    "jem": "joint",
    "thermo": "latent",
    "toy_beta": "plane",
    "toy_samplers": "plane",
}
"""Names that families had."""

NAMES = {
    "joint": {"loss.generative": "loss.name", "data.data_dir": "data.path"},
    "image": {"loss.beta_end": "loss.beta", "data.data_dir": "data.path"},
    "latent": {"loss.estimator": "loss.name", "data.data_dir": "data.path"},
    "plane": {
        "sampler.chain_length": "sampler.num_steps",
        "sampler.law_mean": "sampler.start_mean",
        "sampler.law_scale": "sampler.start_scale",
        "sampler.buffer_size": "sampler.buffer.size",
        "sampler.reinit_prob": "sampler.buffer.reinit_prob",
        "eval.num_steps": "eval.num_chain_steps",
    },
}
"""Names that fields had, by family."""

CONSTANTS: dict[str, dict[str, tuple[Any, ...]]] = {
    "joint": {
        "data.dequantise": (False,),
        "model.lowering": ("auto",),
        "loss.classification_weight": (1.0,),
        "optimizer.b1": (0.9,),
        "optimizer.b2": (0.999,),
    },
    "image": {
        "model.lowering": ("auto",),
        "optimizer.warmup_steps": (0,),
        "sampler.augmentation.grey_prob": (0.2,),
        "sampler.augmentation.max_blur": (0.0,),
        "eval.num_diagnosed": (4, 16),  # in smoke runs, and in others
    },
    "latent": {
        "model.base_scale": (1.0,),
        "loss.pilot_exponent": (6.0,),
        "optimizer.b1": (0.5,),
        "optimizer.b2": (0.999,),
        "eval.evidence_exponent": (6.0,),
    },
    "plane": {
        "optimizer.final_learning_rate": (1e-4,),
        "optimizer.b1": (0.9,),
        "optimizer.b2": (0.999,),
        "eval.max_border_mass": (0.01,),
    },
}
"""Fields that are constants today, with the values at which they did what is done today."""

SLOPES = {
    "image": ("model.activation", "leaky_relu_0.2"),
    "latent": ("model.prior_activation", "leaky_relu_0.1"),
    "plane": ("model.activation", "leaky_relu_0.05"),
}
"""Meaning of "leaky_relu" by family, and the field that had it."""

OF_ALL = {"train.on_divergence": "stop", "train.prng_impl": "threefry2x32"}
OF_TRAINING: dict[str, dict[str, Any]] = {
    "joint": OF_ALL,
    "image": OF_ALL,
    "latent": OF_ALL | {"train.max_abs_loss": 1e7},
    "plane": OF_ALL,
}
"""Fields of the section ``train`` that runs did not have, with what these did."""

ADDED = {
    "toy_beta": {"loss.name": "beta"},
    "toy_samplers": {"loss.name": "contrastive_divergence", "data.name": "gaussians"},
}
"""Fields that tell the two models of the plane apart."""


def today(saved: dict[str, Any]) -> dict[str, Any]:
    """Returns a saved configuration, or sections of one, as a run of today would have written it.

    What has another family, or none, is returned as it is.
    """
    former = str(saved.get("family"))
    family = FAMILIES.get(former, former)
    if family not in NAMES:
        return saved
    saved = copy.deepcopy(saved)
    sampler = saved.get("sampler", {})
    images = saved.get("data", {}) if family != "plane" else {}
    if family == "plane" and "data" in saved:
        saved["data"].setdefault("path", "")
    if images and "test_split" not in images:
        images |= {"test_split": "test", "num_classes": images["num_classes"] or 0}
    model = saved.get("model", {}) if family != "plane" else {}
    if model and "factory" not in model:
        model |= {"factory": "", "options": ""}
        if model.get("generator_features") == [64]:  # of 8 pixels, as the data's side makes them
            model["generator_features"] = None
    if family == "latent" and model:
        model.setdefault("dtype", "float32")
    if family == "joint" and sampler:
        sampler.setdefault("allow_decoupled", False)
        _joint(sampler)
    for section in (sampler.get("prior", {}), sampler.get("posterior", {})):
        if section:
            section.setdefault("noise_scale", None)
            section.setdefault("temperature", 1.0)
    if family == "plane" and sampler:
        sampler.setdefault("name", "sgld")
        sampler.setdefault("noise_scale", None)
        sampler.setdefault("temperature", 1.0)
    flat = dict(_renamed(family, flatten(saved)))
    if flat.pop("sampler.buffer.is_used", None) is False or flat.get("sampler.buffer.size") == 0:
        flat["sampler.buffer.size"] = None
    if flat.get("sampler.box") == "project":
        flat["sampler.box"] = "clamp"
    name, activation = SLOPES.get(family, ("", ""))
    if flat.get(name) == "leaky_relu":
        flat[name] = activation
    if "train" in saved:
        flat = OF_TRAINING[family] | flat
    return _nested(flat | ADDED.get(former, {}) | {"family": family})


def _renamed(family: str, flat: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in flat.items():
        if name.startswith("eval.settings."):
            is_constant = _is_of_today(name, value)
        else:
            is_constant = value in CONSTANTS[family].get(name, ())
        if not is_constant:
            yield NAMES[family].get(name, name), value


def _is_of_today(name: str, value: Any) -> bool:
    """Returns whether the plane's evaluations have this value of ``eval.settings...``."""
    _, _, setting, sampler, field = name.split(".")
    plane = families.module("plane", "checks")
    return value == plane.chosen_for(setting, sampler).options.get(field)


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        place = tree
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return tree


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
