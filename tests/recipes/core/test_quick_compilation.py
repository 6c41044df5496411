import subprocess
import sys

from experiment_runs import REPOSITORY

from ebmjax.recipes.core.quick_compilation import QUICK, quick_flags


def test_flags_are_added_to_those_given():
    assert quick_flags("") == " ".join(QUICK)
    assert quick_flags("--xla_dump_to=here").startswith("--xla_dump_to=here --xla_backend")


def test_a_level_that_the_user_sets_stays():
    given = "--xla_backend_optimization_level=2"
    assert quick_flags(given) == given


def test_it_does_not_start_jax():
    """A flag that is set after JAX has started has no effect."""
    code = "import sys, ebmjax.recipes.core.run; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)
