"""Programs that compile sooner compute the same."""

import subprocess
import sys

PROGRAM = """
import jax
from ebmjax.recipes.core import quick_compilation

draw = lambda key: jax.random.bits(jax.random.split(key)[0], (7,))
looped = jax.jit(draw).lower(jax.random.key(3))
bits = looped.compile()(jax.random.key(3))
quick_compilation.unroll_random_numbers()
jax.clear_caches()
written_out = jax.jit(lambda key: draw(key)).lower(jax.random.key(3))
assert (bits == written_out.compile()(jax.random.key(3))).all()
print("while" in looped.as_text(), "while" in written_out.as_text(), jax.__version__)
"""


def test_random_numbers_written_out_are_those_of_the_loop():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    was_loop, is_loop, version = done.stdout.split()
    assert was_loop == "True"
    assert is_loop == str(not version.startswith("0.10."))
