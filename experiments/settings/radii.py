"""The radii of SAM and ASAM in SADA-JEM's Table 6, as variants."""

from typing import Any

RADII: dict[str, dict[str, Any]] = {
    **{
        f"sam_{name}": {"optimizer.rho": rho}
        for name, rho in {"005": 0.05, "01": 0.1, "02": 0.2, "04": 0.4, "08": 0.8}.items()
    },
    **{
        f"asam_{name}": {"optimizer.rho": rho, "optimizer.adaptive": True}
        for name, rho in {"05": 0.5, "1": 1.0, "2": 2.0, "4": 4.0, "8": 8.0}.items()
    },
}
"""Radii by name: 005 is 0.05. The published code's default is asam_2, the paper's sam_02."""
