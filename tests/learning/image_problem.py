"""The energy of images whose chains are known in closed form, and a step of its learning."""

import jax
import jax.numpy as jnp
import numpy as np
from joint_problems import NOISELESS, SHAPE, plain_view
from training_problems import settled

from ebmjax.data import ImageData
from ebmjax.learning import (
    ChainKind,
    ChainPlan,
    EnergyNetwork,
    LiveSteps,
    Objective,
    init_carry,
    make_gradient_fn,
)
from ebmjax.losses import contrastive_divergence_loss, improved_contrastive_divergence_loss

KEY = jax.random.key(3)


def energy_of(params):
    """precision |x - mean_y|^2 / 2, the mean of a class all along one direction."""
    return lambda x, y: (
        0.5 * params["precision"] * jnp.sum((x - mean_of(params, y)) ** 2, axis=(-3, -2, -1))
    )


def mean_of(params, label):
    return jnp.reshape(params["means"][label], (*jnp.shape(label), 1, 1, 1))


PARAMS = {"precision": jnp.float32(0.8), "means": jnp.array([0.3, -0.5])}


def cd_loss(positive, negative, beta):
    del beta
    return contrastive_divergence_loss(positive, negative, energy_l2=0.1)


def uniform(key, label):
    del label
    return jax.random.uniform(key, SHAPE, minval=-1.0)


def negatives(**options):
    given = {
        "kinds": {"sgld": ChainKind(sampler=NOISELESS, num_steps=3)},
        "num_samples": 6,
        "start_fn": uniform,
        "reinit_prob": 0.0,
        "num_classes": 2,
    }
    return ChainPlan(**(given | options))


def shard_of(draw, buffer_size=12):
    shards = init_carry(jax.random.key(1), draw, num_shards=1, buffer_size=buffer_size)
    return jax.tree.map(lambda leaf: leaf[0], shards)


def batch(num=5):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(num, *SHAPE)).astype(np.uint8)
    return ImageData(jnp.asarray(images), jnp.asarray(rng.integers(0, 2, size=num), jnp.int32))


def image_gradient_fn(plan, loss_fn=cd_loss, *, beta_fn=lambda step: 0.0, **options):
    """The gradient function, by a loss of energies and beta."""

    def loss(key, model, batch, negatives, numbers):
        del key, model
        live = () if negatives.live is None else (-negatives.live, negatives.entropy)
        energies = -batch.log_density, -negatives.log_density
        return loss_fn(*energies, beta_fn(numbers["step"]), *live)

    density_scale = lambda numbers: 1.0 - beta_fn(numbers["step"])  # noqa: E731
    objective = Objective(loss=loss, density_scale=density_scale, **options)
    model = EnergyNetwork(energy_of, plan.num_classes)
    return make_gradient_fn(model, objective, view=plain_view, plan=plan)


def learner(draw, **options):
    """One program for several training steps of a carry."""
    step = jax.jit(settled(image_gradient_fn(draw, **options)))
    return lambda carry, key=KEY, params=PARAMS: (*step(key, params, carry, batch()), carry)


def learn(draw=None, carry=None, *, params=PARAMS, key=KEY, **options):
    draw = draw or negatives()
    return learner(draw, **options)(carry or shard_of(draw), key, params)


def moved(before, after):
    """(slots that changed, what they hold now) of two buffers."""
    old, new = (np.asarray(carry.buffer.positions) for carry in (before, after))
    slots = np.flatnonzero(np.any(old != new, axis=(1, 2, 3)))
    return slots, old[slots], new[slots]


def live_loss(positive, negative, beta, live_energy, live_entropy):
    """Contrastive divergence, of what live chains report nothing."""
    del beta
    return improved_contrastive_divergence_loss(
        positive,
        negative,
        live_energy,
        live_entropy,
        kl_weight=0.0,
        entropy_weight=0.0,
        energy_l2=0.1,
    )


def live(**options):
    return LiveSteps(**({"step_size": 0.2, "noise_scale": 0.0, "num_references": 4} | options))
