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

from functools import partial

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study, make_flags
from ebmjax.recipes.study.figures import draw_each
from ebmjax.recipes.study.named_columns import fid_columns, pick_columns

figures = project("figures.image")

CONFIG = "configs/igebm_digits.py"
MALA, ADAPTED, PRINTED = (f"{CONFIG}:mala{end}" for end in ("", "_adapted", "_literal"))
OPTIONS = "--config.sampler.options="
MIRRORS, NO_BOX = "--config.sampler.box=reflect", "--config.sampler.box=none"
BESIDE = "--config.sampler.names=('sgld', 'mala')"
WARM, HOT = (f"--config.sampler.mala.temperature={T}" for T in ("1e-3", "1e-2"))


def robust(beta: float, output_scale: float) -> tuple[str, ...]:
    """The robust objective; ``output_scale`` is the inverse of the temperature."""
    fields = {"name": "beta", "beta": beta, "output_scale": output_scale}
    return make_flags({f"loss.{name}": value for name, value in fields.items()})


ROWS: dict[str, str | list[str]] = {
    "SGLD": CONFIG,
    "MALA, literal": PRINTED,
    "MALA, energies": [PRINTED, OPTIONS + '{"proposal": "noise"}'],
    "MALA, variance 2 step": [PRINTED, OPTIONS + '{"ratio": "exponentials", "temperature": 1.0}'],
    "MALA, T = 1": f"{CONFIG}:mala_decoupled",
    "MALA, implied T": MALA,
    "MALA, implied T, rejects the box's outside": [MALA, "--config.sampler.box=reject"],
    "MALA, implied T, mirrors": [MALA, MIRRORS],
    "SGLD, mirrors": [CONFIG, MIRRORS],
    "MALA, implied T, mirrors, beside SGLD": [MALA, MIRRORS, BESIDE],
    "MALA, implied T, no box": [MALA, NO_BOX],
    "MALA, implied T, beside SGLD": [MALA, BESIDE],
    "tempered MALA": f"{CONFIG}:tempered_mala",
    "tempered MALA, every move": f"{CONFIG}:tempered_mala_every_move",
    "MALA, annealed": f"{CONFIG}:mala_annealed",
    "SGLD, annealed": f"{CONFIG}:sgld_annealed",
    "MALA, adapted": ADAPTED,
    "MALA, adapted, T = 1e-3": [ADAPTED, WARM],
    "MALA, adapted, T = 1e-2": [ADAPTED, HOT],
    "MALA, adapted, T = 1e-2, energy L2 1": [ADAPTED, HOT, "--config.loss.energy_l2=1.0"],
    "MALA, adapted, T = 1e-3, beta 0.5": [ADAPTED, WARM, *robust(0.5, 1e3)],
    "MALA, adapted, no box": [ADAPTED, NO_BOX],
    "MALA, adapted, floor": [ADAPTED, "--config.sampler.min_step_size=0.1"],
    "MALA, adapted, beta 0.1": [ADAPTED, *robust(0.1, 2e4)],
    "HMC, adapted": f"{CONFIG}:hmc",
    "SGLD + MALA + HMC": f"{CONFIG}:mixed",
}
COLUMNS = {
    **pick_columns("implied T, 1e-6", "acceptance, end of training"),
    "lowest in training": ("over_training.lowest_acceptance", 1.0, 3),
    "of a move, literal": ("acceptance_literal", 1.0, 3),
    "of a move, T = 1": ("acceptance_decoupled", 1.0, 3),
    "of a move, implied T": ("acceptance_implied", 1.0, 3),
    **pick_columns("distance travelled", "energy of fresh - of data, nats", "R-hat of energies"),
    **fid_columns("buffer", "fresh"),
    **pick_columns("KID, buffer"),
    "KID, draws of its law": ("generation.buffer.starts.kid", 1.0, 1),
    **pick_columns("seconds of training"),
}
COMMON = (
    "--config.eval.every_epochs=2",
    "--config.train.checkpoint_every_epochs=40",
    figures.ACCEPT_RATIOS,
)

TEMPERED = ("tempered MALA, every move", "MALA, annealed", "SGLD, annealed")
SHOWN = (
    "SGLD",
    "MALA, implied T, beside SGLD",
    "MALA, implied T, no box",
    "MALA, adapted, T = 1e-3, beta 0.5",
    "MALA, implied T",
)

draw = draw_each(figures.acceptance, partial(figures.samples, SHOWN))
study = partial(Study, columns=COLUMNS, common=COMMON, draw=draw)
FEW = ("SGLD", "MALA, literal", "MALA, T = 1", "MALA, adapted")
STUDY = study(ROWS)
STUDIES = {
    "": STUDY,
    "tempered": study({name: ROWS[name] for name in TEMPERED}),
    "quick": STUDY.shorten(FEW, "--config.train.num_epochs=4", "--config.eval.every_epochs=1"),
}
