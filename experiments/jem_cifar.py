"""What the joint energy models on CIFAR share: WRN-28-10 on 32x32 images, 50,000 of them."""

CIFAR = {
    "data.image_size": 32,
    "data.max_train": 50_000,
    "data.max_test": 10_000,
    "data.crop_padding": 4,
    "data.flip": True,
    "model.depth": 28,
    "model.widen_factor": 10,
    "train.num_epochs": 200,
    "train.steps_per_dispatch": 10,
    "train.log_every": 50,
    "train.checkpoint_every_epochs": 5,
    "eval.every_epochs": 5,
    "eval.batch_size": 500,
}

CPU = {
    "data.max_train": 2000,
    "data.max_test": 1000,
    "model.depth": 10,
    "model.widen_factor": 1,
    "model.dtype": "float32",
    "sampler.dtype": "float32",
    "sampler.num_steps": 5,
    "sampler.num_samples": 32,
    "sampler.buffer.size": 1000,
    "optimizer.warmup_steps": 0,
    "optimizer.decay_epochs": (),
    "train.batch_size": 50,
    "train.positive_batch_size": 50,
    "train.num_epochs": 20,
    "train.steps_per_dispatch": 10,
    "train.log_every": 10,
    "eval.every_epochs": 5,
}
"""Minutes on two cores: WRN-10-1, 2,000 images, five steps a chain."""
