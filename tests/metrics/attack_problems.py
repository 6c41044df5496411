"""Classifiers whose worst case within a radius is known, and an attack on them as one program."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax.metrics import pgd_attack

EPS = float(np.finfo(np.float32).eps)
SHAPE = (3, 2, 1)
DUAL = {"linf": 1, "l2": 2}


def attack(logits_fn, images, labels, *, seed=0, **arguments):
    compiled = jax.jit(partial(pgd_attack, logits_fn=logits_fn, **arguments))
    return compiled(jax.random.key(seed), images=images, labels=labels)


def linear(weights):
    def logits_fn(key, images):
        return images.reshape(len(images), -1) @ weights

    return logits_fn


def problem(num=8, num_classes=2):
    """Weights (6, classes), images well inside the box, and the classes the weights give them."""
    rng = np.random.default_rng(0)
    weights = jnp.asarray(rng.normal(size=(6, num_classes)), jnp.float32)
    images = jnp.asarray(rng.uniform(-0.3, 0.3, (num, *SHAPE)), jnp.float32)
    return weights, images, jnp.argmax(linear(weights)(None, images), axis=1)


def exact_margins(weights, images, labels):
    """A linear classifier's margins over every class and their weights: (N, C), (N, C, 6)."""
    weights, images = np.asarray(weights, np.float64), np.asarray(images, np.float64)
    directions = weights.T[np.asarray(labels)][:, None] - weights.T[None]
    return np.einsum("ncd,nd->nc", directions, images.reshape(len(images), -1)), directions


def binary_margins(weights, images, labels, norm):
    """Margins of two classes (N,), and how fast they fall with the radius of a ball (N,)."""
    margins, directions = exact_margins(weights, images, labels)
    other = np.arange(len(images)), 1 - np.asarray(labels)
    return margins[other], np.linalg.norm(directions[other], ord=DUAL[norm], axis=-1)


def rounding(weights):
    """Float32 dot products of 6 terms with pixels below 1: 10 roundings of the terms' sizes."""
    return 10 * EPS * float(np.abs(weights).sum(axis=0).max())


def pixel(images):
    return images.reshape(len(images), -1)[:, 0]


def binary(margins):
    """Logits of two classes with these margins for class 0."""
    return jnp.stack([margins, jnp.zeros_like(margins)], axis=1)


def near(fraction, expected, num):
    """Within 5 standard errors of ``num`` tosses."""
    return abs(float(fraction) - expected) < 5 * np.sqrt(expected * (1 - expected) / num)
