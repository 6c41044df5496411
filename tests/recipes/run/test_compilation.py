"""Flags for quick compilation are added to those that are there, unless these say otherwise."""

from ebmjax.recipes.run.compilation import LEVEL, QUICK, cpu_flags, quick_flags


def test_flags_that_are_there_stay_and_a_level_that_is_given_counts():
    assert quick_flags("") == " ".join(QUICK)
    assert quick_flags("--xla_a=1").split() == ["--xla_a=1", *QUICK]
    assert "--xla_backend_optimization_level=0" in QUICK
    given = "--xla_backend_optimization_level=2"
    assert quick_flags(given) == given


def test_a_long_run_compiles_at_a_lower_level_on_a_cpu_alone():
    assert cpu_flags({"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_a=1"}) == f"--xla_a=1 {LEVEL}"
    assert cpu_flags({"JAX_PLATFORMS": "cuda", "XLA_FLAGS": "--xla_a=1"}) == "--xla_a=1"
    given = "--xla_backend_optimization_level=3"
    assert cpu_flags({"JAX_PLATFORMS": "cpu", "XLA_FLAGS": given}) == given
