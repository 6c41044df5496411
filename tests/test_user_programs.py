"""Type checkers find mistakes in a user's program, and nothing where there is none."""

import importlib.util
import json
import subprocess
import sys

import pytest

PROGRAM = """\
import jax
import jax.numpy as jnp

from ebmjax import losses, recipes, samplers, training


def log_density(x: jax.Array) -> jax.Array:
    return -0.5 * jnp.sum(x**2)


mala = samplers.mala(log_density, step_size=0.1)
state, info = mala.step(jax.random.key(0), mala.init(jnp.zeros(2)))
info.acceptance_prob
info.aceptance_prob  # wrong
state.position
state.particles  # wrong
samplers.sgld(log_density, stepsize=0.1)  # wrong
svgd = samplers.svgd(log_density, step_size=0.1)
svgd.init(jnp.zeros((8, 2))).particles
svgd.init(jnp.zeros((8, 2))).position  # wrong
loss, found = losses.contrastive_divergence_loss(jnp.zeros(2), jnp.zeros(2))
losses.contrastive_divergence_loss(jnp.zeros(2))  # wrong
run = recipes.load("runs/mine")
run.aply  # wrong
recipes.load("runs/mine", step="last")  # wrong
training.make_mesh("two")  # wrong
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="pyright is in [dev]")
def test_pyright_finds_the_mistakes_of_a_users_program(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([*command, str(program)], capture_output=True, text=True, cwd=tmp_path)
    told = json.loads(done.stdout)["generalDiagnostics"]
    found = {one["range"]["start"]["line"] for one in told if one["severity"] == "error"}
    lines = PROGRAM.splitlines()
    assert found == {i for i, line in enumerate(lines) if line.endswith("# wrong")}, told
