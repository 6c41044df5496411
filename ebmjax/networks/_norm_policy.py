"""Choice of the batches that normalise themselves in training and update the averages."""

import dataclasses
from typing import Any, Literal, get_args

Statistics = Literal["running", "batch"]
"""Statistics that a normalisation uses."""
Role = Literal["classified", "positives", "negatives", "chains"]
"""Part of a batch in a step of training."""


def check_statistics(name: str, value: Any) -> None:
    """Raises ValueError unless ``value`` is ``"running"`` or ``"batch"``."""
    if value not in get_args(Statistics):
        raise ValueError(f"{name} must be 'running' or 'batch', got {name}={value!r}.")


@dataclasses.dataclass(frozen=True)
class NormPolicy:
    """Statistics that batch normalisation uses in each pass of a training step.

    A step passes images in four roles through the network. ``"classified"`` are the labelled images
    of the cross-entropy, which always use their batch. ``"positives"`` and ``"negatives"`` are the
    two phases of the energy term; ``"chains"`` are the sampler's. If normalised by its ``"batch"``,
    an image's energy depends on the images beside it; by the ``"running"`` averages it does not.

    By default every pass normalises by its batch, so that chains follow the trained energy, and
    only real images update the averages. Chains then interact: a Metropolis test of a single chain
    is not valid. Other choices: docs/networks.md.

    A batch is that of one shard, or of all shards if ``Objective.batch_axis`` names their axes.

    Attributes:
      positives, negatives, chains: ``"batch"`` or ``"running"``.
      updated_by: roles whose first pass updates the running averages; they must not use them. If
        several do, the later pass outweighs the earlier one, nine to one with ``WideResNet``'s
        momentum. The second pass of SAM never updates them.
    """

    positives: Statistics = "batch"
    negatives: Statistics = "batch"
    chains: Statistics = "batch"
    updated_by: tuple[Role, ...] = ("classified", "positives")

    def __post_init__(self) -> None:
        for name in ("positives", "negatives", "chains"):
            check_statistics(name, getattr(self, name))
        for role in self.updated_by:
            if self.use(role) == "running":
                raise ValueError(
                    f"updated_by names {role!r}, which uses the running averages and has no batch "
                    f"statistics to update them with; set {role}='batch' or leave it out."
                )

    def use(self, role: Role) -> Statistics:
        """Returns the statistics that a pass of ``role`` uses, for ``Network.apply``."""
        if role not in get_args(Role):
            raise ValueError(f"role must be one of {get_args(Role)}, got role={role!r}.")
        return "batch" if role == "classified" else getattr(self, role)

    def updates(self, role: Role, *, second_pass: bool = False) -> bool:
        """Returns whether to keep the statistics that a pass of ``role`` returns."""
        return not second_pass and self.use(role) == "batch" and role in self.updated_by


SADA_JEM_POLICY = NormPolicy(updated_by=("positives", "chains", "negatives", "classified"))
"""SADA-JEM's published code: every first pass, chains included, updates the averages, in this order
of the passes. So the labelled images weigh most."""
