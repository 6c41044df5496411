"""Says in words what judged a run's health (``ebmjax.training``)."""

from pathlib import Path
from typing import Any

from ebmjax import training


def about(health: dict[str, Any] | None) -> list[str]:
    """Returns a line that says what a checkpoint, or the end of a run, was judged by."""
    if not health or health["centre"] is None:
        return []
    name, value, centre, width = (health[key] for key in ("name", "value", "centre", "width"))
    how = "within" if health["is_healthy"] else "outside of"
    number = "not finite" if value is None else f"{value:.3g}"
    return [f"{name} {number} there, {how} {centre:.3g} +- {width:.3g}, where it has been."]


def about_end(path: Path, health: dict[str, Any] | None) -> list[str]:
    """Returns lines about a run in ``path`` that ended outside its band; none for a healthy one."""
    if not health or health["is_healthy"]:
        return []
    with training.Checkpoints(path / "checkpoints", is_read_only=True) as kept:
        steps = kept.kept_steps()
    newest = f"of step {steps[-1]}" if steps else "not kept any more"
    return [
        "The run ended in bad health. " + "".join(about(health)),
        f"The newest checkpoint before it is {newest}.",
    ]
