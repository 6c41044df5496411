"""The damping lambda of preconditioned SGLD in JEM: the first epoch, and the loss afterwards.

After an epoch, the thesis (4.2.2) has accuracy 0.36 with lambda = 1e-4, where SGLD has 0.26. Then
the loss diverges to 1e8, with a 1 / G that grows without end (Fig. 4.16). Rows are JEM without box
or penalty. No step is skipped for the size of its loss, so that every seed has its numbers.
"""

from ebmjax.recipes.config.files import project
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.table import pick_columns

skip = project("settings.joint_rows").skip

JEM = "configs/jem_digits.py:unconfined"
PSGLD = (JEM, "--config.sampler.name=psgld")
DAMPINGS = (1.0, 1e-1, 1e-2, 1e-4)

STUDY = Study(
    rows={
        "SGLD": JEM,
        **{
            f"pSGLD, lambda {damping:g}": [*PSGLD, f"--config.sampler.psgld.damping={damping}"]
            for damping in DAMPINGS
        },
    },
    columns={
        "accuracy after an epoch, %": ("over_training.first_test_accuracy.test_accuracy", 100.0, 1),
        "highest": ("over_training.best_test_accuracy.test_accuracy", 100.0, 1),
        "at the end": ("classification.accuracy", 100.0, 1),
        **pick_columns("largest loss", "skipped steps"),
        "preconditioner G, end": ("chain_preconditioner", 1.0, 6),
        "distance travelled, end": ("chain_displacement", 1.0, 4),
        "lowest buffer FID ({extractor})": ("over_training.best_sample_fid.sample_fid", 1.0, 1),
        "FID of draws of its law": ("over_training.best_sample_fid.start_fid", 1.0, 1),
        **pick_columns("seconds of training"),
    },
    common=(
        "--config.evals.every_epochs=1",
        "--config.train.checkpoint_every_epochs=40",
        "--config.train.max_abs_loss=1e30",
        "--config.train.max_consecutive_skips=1000000",
        *skip(),
    ),
)
