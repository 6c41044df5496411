"""Changes that several configurations of a latent model share."""

from typing import Any

from ebmjax.recipes.models.latent.fields import SMOKE

# Of the thermodynamic-integration thesis for CelebA and CIFAR-10 alike (Tables 3-5). A batch of 75
# cannot be split, hence one shard.
THESIS: dict[str, Any] = {
    "data.max_train": 12_000,
    "data.max_test": 4_500,
    "data.num_classes": 0,
    "sampler.posterior.step_size": 0.01,
    "optimizer.decay_per_epoch": 0.975,
    "optimizer.prior.learning_rate": 2e-5,
    "optimizer.prior.final_learning_rate": 1e-5,
    "optimizer.generator.learning_rate": 1e-4,
    "optimizer.generator.final_learning_rate": 5e-5,
    "train.num_epochs": 50,
    "train.batch_size": 72,
    "train.steps_per_dispatch": 10,
    "train.log_every": 10,
    "train.checkpoint_every_epochs": 1,
    "evals.every_epochs": 5,
    "evals.num_test": 300,
    "evals.evidence.num_images": 4,
    "evals.generation.num_images": 4_500,
    "evals.generation.smallest_num": 1_000,
}


# A model 64 times smaller, to try the path of a large configuration on a CPU.
SMALL_SMOKE: dict[str, Any] = {
    **SMOKE,
    "data.max_train": 48,
    "data.max_test": 16,
    "model.latent_dim": 8,
    "loss.num_intervals": 2,
    "sampler.prior.num_steps": 4,
    "sampler.posterior.num_steps": 4,
    "train.num_epochs": 1,
    "train.batch_size": 12,
    "mesh.num_shards": 1,
    "evals.samples.num_images": 10,
    "evals.num_test": None,
    "evals.evidence.num_chains": 24,
}


def widths(width: int, *multiples: int) -> dict[str, tuple[int, ...]]:
    """Features of a generator, as multiples of ``width``."""
    return {"model.generator_features": tuple(width * multiple for multiple in multiples)}
