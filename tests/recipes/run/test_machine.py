"""What a run tells JAX before it starts."""

import os

from ebmjax.recipes.run import machine
from ebmjax.recipes.run.machine import LEVEL, QUICK


def test_a_cpu_is_a_device_for_each_processor_unless_something_else_is_said(monkeypatch):
    for name in ("JAX_NUM_CPU_DEVICES", "XLA_FLAGS"):
        monkeypatch.delenv(name, raising=False)
    name, found = "JAX_NUM_CPU_DEVICES", str(len(os.sched_getaffinity(0)))
    assert machine.variables()[name] == found
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    assert name not in machine.variables()
    monkeypatch.delenv("XLA_FLAGS")
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "4")
    assert name not in machine.variables()


def test_a_level_of_optimisation_that_is_given_counts(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    for given, is_quick, expected in (
        ("--xla_a=1", True, " ".join(["--xla_a=1", *QUICK])),
        ("--xla_a=1", False, f"--xla_a=1 {LEVEL}"),
        ("--xla_backend_optimization_level=3", True, None),
    ):
        monkeypatch.setenv("XLA_FLAGS", given)
        assert machine.variables(is_quick).get("XLA_FLAGS") == expected
    monkeypatch.setenv("XLA_FLAGS", "--xla_a=1")
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    assert machine.variables()["XLA_FLAGS"] == "--xla_a=1"
