"""The one table of samplers: what makes each, its fields, and what it can and needs.

Configurations read it before JAX is loaded, so that a mistake in them is answered at once.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ml_collections import FieldReference

from ebmjax.recipes.samplers.blackjax_kernels import KERNELS

BLACKJAX, FIRST_LAYER = "blackjax", "first_layer"
"""Needs of samplers: the package BlackJAX; a density that is split after its first layer."""

SHARED = ("step_size", "noise_scale", "temperature")
"""Fields with one meaning for every sampler. Families with one section for all samplers have these
in it, and the others in a section of each sampler."""


class Field(NamedTuple):
    """One hyperparameter of a sampler in a configuration.

    Attributes:
      default: value in a family that sets none.
      text: what it is, in words.
      optional: type of the field where it may also be None; None where it must have a value.
    """

    default: Any
    text: str
    optional: type | None = None


class Entry(NamedTuple):
    """A sampler that configurations can name.

    Attributes:
      title: name in tables and pictures.
      made_by: "module:function" of ``function(log_density_fn, **hyperparameters) -> Sampler``.
      fields: hyperparameters by name, or sections of them. Where a sampler has both "noise_scale"
        and "temperature", one is set and makes the noise (see ``temperatures``).
      rejects: whether it takes moves back.
      interacting: whether it moves all chains as one system of particles.
      adaptable: whether its step size can adapt to an acceptance.
      needs: "", ``BLACKJAX`` or ``FIRST_LAYER``. The latter also means that box and clipping are
        arguments of the function, because they belong to its inner moves.
    """

    title: str
    made_by: str
    fields: Mapping[str, Any]
    rejects: bool = False
    interacting: bool = False
    adaptable: bool = False
    needs: str = ""

    @property
    def make(self) -> Callable[..., Any]:
        """The function that makes it, loaded now."""
        module, _, function = self.made_by.partition(":")
        return getattr(importlib.import_module(module), function)


STEP = {"step_size": Field(0.01, "step: the score is multiplied by it")}
TEMPERATURE = {"temperature": Field(1.0, "T of the density exp(-E / T) that the chains follow")}
LANGEVIN = {
    **STEP,
    "noise_scale": Field(
        None, "standard deviation of a step's noise; None: sqrt(2 step_size temperature)", float
    ),
    "temperature": Field(
        1.0,
        "T of the density exp(-E / T) that the chains follow; None: noise_scale^2 / (2 step_size)",
        float,
    ),
}
DECAY = Field(0.99, "share of the running second moment that is kept at a step")
DAMPING = Field(1e-5, "added to the root of the second moment before it divides")
BANDWIDTH = {
    "bandwidth": Field(
        None, "width of the kernel: a number, 'median', or None for median / sqrt(2 log n)", object
    )
}
LEAPFROGS = Field(3, "leapfrog steps of a move")
BLACKJAX_STEP = Field(0.01, "step, in BlackJAX's own units")

SAMPLERS: dict[str, Entry] = {
    "gradient_descent": Entry("gradient descent", "ebmjax.samplers:gradient_descent", STEP),
    "sgld": Entry("SGLD", "ebmjax.samplers:sgld", LANGEVIN),
    "proximal_sgld": Entry(
        "proximal SGLD",
        "ebmjax.recipes.samplers.adapted:proximal_sgld",
        {**LANGEVIN, "max_drift": Field(1.0, "largest drift of a coordinate at a step")},
    ),
    "psgld": Entry(
        "pSGLD",
        "ebmjax.samplers:psgld",
        {
            **LANGEVIN,
            "decay": DECAY,
            "damping": DAMPING,
            "curvature_drift": Field(False, "adds the drift from the slope of the metric"),
        },
    ),
    "literal_psgld": Entry(
        "pSGLD, as printed",
        "ebmjax.recipes.samplers.literal_psgld:literal_psgld",
        {**LANGEVIN, "decay": DECAY, "damping": DAMPING},
    ),
    "mala": Entry("MALA", "ebmjax.samplers:mala", LANGEVIN, rejects=True, adaptable=True),
    "literal_mala": Entry(
        "MALA, as printed",
        "ebmjax.recipes.samplers.literal_mala:literal_mala",
        {
            **LANGEVIN,
            "ratio": Field("energies", "accept ratio of 'energies', as printed, or 'exponentials'"),
            "proposal": Field(
                "twice_step", "variance in the ratio: 'twice_step', as printed, or 'noise'"
            ),
            "rejects": Field(True, "whether the ratio decides; if not, it is only reported"),
        },
        rejects=True,
    ),
    "tempered_mala": Entry(
        "tempered MALA",
        "ebmjax.recipes.samplers.adapted:tempered_mala",
        {
            **LANGEVIN,
            "acceptance_threshold": Field(0.5, "T rises while the acceptance is below this"),
            "temperature_growth": Field(10.0, "factor of a rise of T"),
            "acceptance_decay": Field(
                0.9, "share of the running acceptance that is kept; 0 judges each move alone"
            ),
        },
        rejects=True,
    ),
    "svgd": Entry("SVGD", "ebmjax.samplers:svgd", {**STEP, **BANDWIDTH}, interacting=True),
    "adaptive_svgd": Entry(
        "adaptive SVGD",
        "ebmjax.samplers:adaptive_svgd",
        {
            **STEP,
            "decay": DECAY._replace(default=0.9),
            "damping": DAMPING._replace(default=1e-6),
            **BANDWIDTH,
        },
        interacting=True,
    ),
    "stochastic_svgd": Entry(
        "stochastic SVGD",
        "ebmjax.samplers:stochastic_svgd",
        {
            **STEP,
            **TEMPERATURE,
            "langevin_weight": Field(1e-3, "weight of a particle's own Langevin move"),
            **BANDWIDTH,
        },
        interacting=True,
    ),
    "hmc": Entry(
        "HMC",
        "ebmjax.recipes.samplers.blackjax_kernels:hmc",
        {**STEP, **TEMPERATURE, "num_integration_steps": LEAPFROGS},
        rejects=True,
        adaptable=True,
        needs=BLACKJAX,
    ),
    "blackjax": Entry(
        "a kernel of BlackJAX",
        "ebmjax.recipes.samplers.blackjax_kernels:blackjax_kernel",
        {
            "kernel": Field("nuts", f"one of {', '.join(sorted(KERNELS))}"),
            **TEMPERATURE,
            "adjusted_mclmc": {
                "step_size": BLACKJAX_STEP._replace(default=0.08),
                "num_integration_steps": LEAPFROGS._replace(default=5),
            },
            "barker": {"step_size": BLACKJAX_STEP},
            "mala": {"step_size": BLACKJAX_STEP._replace(default=5e-5)},
            "multinomial_hmc": {
                "step_size": BLACKJAX_STEP,
                "num_integration_steps": LEAPFROGS._replace(default=5),
            },
            "normal_random_walk": {"sigma": Field(0.01, "standard deviation of a move")},
            "nuts": {
                "step_size": BLACKJAX_STEP,
                "max_num_doublings": Field(4, "doublings of a trajectory, at most"),
            },
        },
        rejects=True,
        needs=BLACKJAX,
    ),
    "pyld": Entry(
        "PYLD",
        "ebmjax.recipes.samplers.adapted:pyld",
        {
            **STEP,
            "num_inner": Field(5, "moves for each gradient of the whole network"),
            "noise_scale": Field(0.0, "standard deviation of an inner move's noise"),
            "outer_step_size": Field(0.0, "step of the move by the whole score before them"),
        },
        needs=FIRST_LAYER,
    ),
}

PLAIN: dict[str, Entry] = {
    name: entry
    for name, entry in SAMPLERS.items()
    if "step_size" in entry.fields and entry.needs != FIRST_LAYER
}
"""Samplers with a ``step_size``, on a density that is one function."""

SINGLE: dict[str, Entry] = {name: entry for name, entry in PLAIN.items() if not entry.interacting}
"""Those of them that move one chain at a time."""


def sections(
    names: Iterable[str],
    changes: Mapping[str, Any] | None = None,
    without: Iterable[str] = (),
) -> dict[str, Any]:
    """Returns a configuration's sections of samplers, by name.

    Args:
      names: of samplers in the table.
      changes: values in place of the table's defaults, by dotted name ("sgld.step_size").
      without: fields to leave out. A sampler with no other field has no section.

    Raises:
      KeyError: if ``changes`` names a field that no section has.
    """
    kept = {
        name: {k: v for k, v in SAMPLERS[name].fields.items() if k not in set(without)}
        for name in names
    }
    left = dict(changes or {})
    made = {name: _values(name, fields, left) for name, fields in kept.items() if fields}
    if left:
        raise KeyError(f"no sampler here has the fields {sorted(left)}")
    return made


def shared(name: str, step_size: float) -> dict[str, Any]:
    """Returns one section for any sampler: its name, and the fields that all have in common."""
    return {"name": name, **_values("", LANGEVIN, {".step_size": step_size})}


def _values(name: str, fields: Mapping[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Values of ``fields``, as a ``ConfigDict`` takes them; takes the used ``changes`` out."""
    values = {}
    for key, field in fields.items():
        dotted = f"{name}.{key}"
        if isinstance(field, Mapping):
            values[key] = _values(dotted, field, changes)
            continue
        value = changes.pop(dotted, field.default)
        optional = field.optional
        values[key] = value if optional is None else FieldReference(value, field_type=optional)
    return values


def defaults(name: str) -> dict[str, Any]:
    """Returns the table's values of the hyperparameters of a sampler."""

    def plain(fields: Mapping[str, Any]) -> dict[str, Any]:
        return {k: plain(f) if isinstance(f, Mapping) else f.default for k, f in fields.items()}

    return plain(SAMPLERS[name].fields)
