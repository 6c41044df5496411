"""Why MALA's acceptance falls to 0 on images, and whether it trains once it does not.

The thesis (4.2.1) rejects by the ratio of energies, with a proposal density of variance 2 step.
Rows "literal" to "T = 1" correct these errors one at a time, with the thesis's kind of move: a
large drift and a small noise. With both corrected, the chain still aims at temperature 1, for which
its noise is 140 times too small. "implied T" aims at the temperature of its moves.

Other rows ask separate questions:
- the effect of a box (in a box of mirrors the accept step is exact);
- SGLD moves half of the chains in the same buffer, so that MALA meets chains that have arrived;
- tempering by a running acceptance or, as in the thesis's listing, by every move;
- "annealed": steps fall to a hundredth along a chain; "adapted": a step that accepts 57 %.
- training with chains that mix: other temperatures, a floor under the step, a larger penalty on
  energies, the robust objective, HMC, and a batch of three samplers.

Figures: acceptance.png has all rows' acceptance over training, samples.png some buffers of seed 0
at the end.

Variants:
- "": all rows.
- tempered: only the every-move and the annealed rows.
- quick: a few rows of a few epochs.
"""

from pathlib import Path

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.fid_columns import fid_columns

figures = project("figures.image")

CONFIG = "configs/igebm_digits.py"
LITERAL = "--config.sampler.literal_mala"
MIRRORS = "--config.sampler.box=reflect"


def robust(beta: float, output_scale: float) -> list[str]:
    """The robust objective; ``output_scale`` is the inverse of the temperature."""
    fields = {"name": "beta", "beta": beta, "output_scale": output_scale}
    return [f"--config.loss.{name}={value}" for name, value in fields.items()]


ROWS: dict[str, str | list[str]] = {
    "SGLD": CONFIG,
    "MALA, literal": f"{CONFIG}:mala_literal",
    "MALA, energies": [f"{CONFIG}:mala_literal", f"{LITERAL}.proposal=noise"],
    "MALA, variance 2 step": [
        f"{CONFIG}:mala_literal",
        f"{LITERAL}.ratio=exponentials",
        f"{LITERAL}.temperature=1.0",
    ],
    "MALA, T = 1": f"{CONFIG}:mala_decoupled",
    "MALA, implied T": f"{CONFIG}:mala",
    "MALA, implied T, rejects the box's outside": [f"{CONFIG}:mala", "--config.sampler.box=reject"],
    "MALA, implied T, mirrors": [f"{CONFIG}:mala", MIRRORS],
    "SGLD, mirrors": [CONFIG, MIRRORS],
    "MALA, implied T, mirrors, beside SGLD": [
        f"{CONFIG}:mala",
        MIRRORS,
        "--config.sampler.names=('sgld', 'mala')",
    ],
    "MALA, implied T, no box": [f"{CONFIG}:mala", "--config.sampler.box=none"],
    "MALA, implied T, beside SGLD": [f"{CONFIG}:mala", "--config.sampler.names=('sgld', 'mala')"],
    "tempered MALA": f"{CONFIG}:tempered_mala",
    "tempered MALA, every move": f"{CONFIG}:tempered_mala_every_move",
    "MALA, annealed": f"{CONFIG}:mala_annealed",
    "SGLD, annealed": f"{CONFIG}:sgld_annealed",
    "MALA, adapted": f"{CONFIG}:mala_adapted",
    "MALA, adapted, T = 1e-3": [
        f"{CONFIG}:mala_adapted",
        "--config.sampler.mala.temperature=1e-3",
    ],
    "MALA, adapted, T = 1e-2": [
        f"{CONFIG}:mala_adapted",
        "--config.sampler.mala.temperature=1e-2",
    ],
    "MALA, adapted, T = 1e-2, energy L2 1": [
        f"{CONFIG}:mala_adapted",
        "--config.sampler.mala.temperature=1e-2",
        "--config.loss.energy_l2=1.0",
    ],
    "MALA, adapted, T = 1e-3, beta 0.5": [
        f"{CONFIG}:mala_adapted",
        "--config.sampler.mala.temperature=1e-3",
        *robust(0.5, 1e3),
    ],
    "MALA, adapted, no box": [f"{CONFIG}:mala_adapted", "--config.sampler.box=none"],
    "MALA, adapted, floor": [f"{CONFIG}:mala_adapted", "--config.sampler.min_step_size=0.1"],
    "MALA, adapted, beta 0.1": [f"{CONFIG}:mala_adapted", *robust(0.1, 2e4)],
    "HMC, adapted": f"{CONFIG}:hmc",
    "SGLD + MALA + HMC": f"{CONFIG}:mixed",
}
COLUMNS = {
    "implied T, 1e-6": ("implied_temperature", 1e6, 3),
    "acceptance, end of training": ("chain_acceptance_prob", 1.0, 3),
    "lowest in training": ("over_training.lowest_acceptance", 1.0, 3),
    "of a move, literal": ("acceptance_literal", 1.0, 3),
    "of a move, T = 1": ("acceptance_decoupled", 1.0, 3),
    "of a move, implied T": ("acceptance_implied", 1.0, 3),
    "distance travelled": ("chain_displacement", 1.0, 5),
    "energy of fresh - of data, nats": ("energies.gap", 1.0, 2),
    "R-hat of energies": ("mixing.rhat_energy", 1.0, 2),
    **fid_columns("buffer", "fresh"),
    "RMS displacement of fresh chains": ("generation.fresh.rms_displacement", 1.0, 3),
    "KID, buffer": ("generation.buffer.kid", 1.0, 1),
    "KID, draws of its law": ("generation.buffer.starts.kid", 1.0, 1),
    "seconds of training": ("run_seconds", 1.0, 0),
}
COMMON = ("--config.eval.every_epochs=2", "--config.train.checkpoint_every_epochs=40")

ANNEALED = ("MALA, annealed", "SGLD, annealed")
SHOWN = (
    "SGLD",
    "MALA, implied T, beside SGLD",
    "MALA, implied T, no box",
    "MALA, adapted, T = 1e-3, beta 0.5",
    "MALA, implied T",
)


def draw(folder: Path) -> None:
    """The figures of a study's folder."""
    figures.acceptance(folder)
    figures.samples(SHOWN, folder)


STUDIES = {
    "": Study(rows=ROWS, columns=COLUMNS, common=COMMON, draw=draw),
    "tempered": Study(
        rows={name: ROWS[name] for name in ("tempered MALA, every move", *ANNEALED)},
        columns=COLUMNS,
        common=COMMON,
        draw=draw,
    ),
    "quick": Study(
        rows={
            name: ROWS[name] for name in ("SGLD", "MALA, literal", "MALA, T = 1", "MALA, adapted")
        },
        columns=COLUMNS,
        num_seeds=1,
        common=("--config.train.num_epochs=4", "--config.eval.every_epochs=1"),
        draw=draw,
    ),
}
