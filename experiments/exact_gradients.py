"""Learning gradients and log evidence by schedule, against the exact ones of a linear model.

  python experiments/exact_gradients.py --seeds=5

A seed draws a ``latent.LinearGaussian`` of 4 latents and 8 outputs, and 16 observations of another.
Latents are exact draws of the power posteriors: no chain blurs what a schedule does. A gradient's
bias and variance are squared, summed over coordinates, and shares of the squared exact gradient;
"over coordinates" is the thesis's variance of one gradient, in shares of the exact gradient's.
"evidence" has errors in nats: of the trapezium rule, and of the identity as printed. 95 % intervals
are over seeds. ``covariance_loss`` has 4 chains an observation, the others 1.
"""

import argparse
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy import stats

from ebmjax import latent

MODEL = latent.LinearGaussian(likelihood_scale=0.6)
NUM_DRAWS = 1000


def draw_problem(key: jax.Array) -> tuple[latent.LatentParams, jax.Array]:
    """Returns parameters, and observations that they do not explain yet."""
    shift, *keys = jax.random.split(key, 5)
    weight, other = (jax.random.normal(key, (8, 4)) for key in keys[:2])
    z, noise = (jax.random.normal(key, (16, size)) for key, size in ((keys[2], 4), (keys[3], 8)))
    shift = 0.5 * jax.random.normal(shift, (4,))
    return MODEL.params(0.3 * jnp.eye(4), shift, 0.5 * weight, jnp.zeros(8)), z @ other.T + noise


@partial(jax.jit, static_argnames="name")
def draw_gradients(name: str, key: jax.Array, params: Any, x: jax.Array, powers: Any) -> jax.Array:
    """Returns independent learning gradients from exact draws, (NUM_DRAWS, parameters)."""
    options = {"num_chains": 4} if name == "covariance" else {}
    loss, x = getattr(latent, f"{name}_loss"), jnp.repeat(x, options.get("num_chains", 1), axis=0)
    moments = jax.vmap(jax.vmap(partial(MODEL.power_posterior, params), (0, None)), (None, 0))
    mean, covariance = moments(x, powers)

    def gradient(key: jax.Array) -> jax.Array:
        noise = jnp.linalg.cholesky(covariance) @ jax.random.normal(key, (2, *mean.shape, 1))
        along, prior = mean + noise[..., 0]
        loss_of = lambda p: loss(p, MODEL, x, along, prior[0], powers, **options)[0]  # noqa: E731
        return -ravel_pytree(jax.grad(loss_of)(params))[0]

    return jax.lax.map(gradient, jax.random.split(key, NUM_DRAWS), batch_size=100)


def measure(name: str, powers: jax.Array, seed: int) -> list[Any]:
    """Returns a row's numbers of one seed."""
    params, x = draw_problem(jax.random.key(seed))
    evidence = jax.vmap(MODEL.log_evidence, (None, 0))
    if name == "evidence":
        terms = jax.vmap(MODEL.terms, (None, 0, None))(params, x, powers)
        plus, plain = ({**terms, "kl_backward": s * terms["kl_backward"]} for s in (-1, 0))
        plain["kl_forward"] = plain["kl_backward"]
        made = jax.vmap(partial(latent.log_evidence, powers=powers))
        return [jnp.mean(made(**one) - evidence(params, x)) for one in (plain, plus)]
    exact = ravel_pytree(jax.grad(lambda p: jnp.mean(evidence(p, x)))(params))[0]
    found = np.asarray(draw_gradients(name, jax.random.key(seed + 1000), params, x, powers))
    variance, square = found.var(0, ddof=1).sum(), jnp.sum(jnp.square(exact))
    bias = np.square(found.mean(0) - exact).sum() - variance / NUM_DRAWS  # less the draws' part
    return [bias / square, variance / square, found.var(1).mean() / jnp.var(exact)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(parser.parse_args().seeds)
    for name in ("telescoped", "tempered", "covariance", "evidence"):
        for num, p in ((num, p) for num in (10, 30) for p in (0.1, 0.3, 1.0, 3.0, 6.0, 10.0)):
            rows = np.array([measure(name, latent.power_schedule(num, p), seed) for seed in seeds])
            half = stats.t.ppf(0.975, len(seeds) - 1) * stats.sem(rows)
            cells = [f"{m:.3g} ± {h:.2g}" for m, h in zip(rows.mean(0), half, strict=True)]
            print(f"| {name} N_t={num} p={p} | {' | '.join(cells)} |", flush=True)
