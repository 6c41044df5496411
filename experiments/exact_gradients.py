"""Learning gradients and log evidence by schedule, against the exact ones of a linear model.

  python experiments/exact_gradients.py

A seed draws a ``latent.LinearGaussian`` of 4 latents, and 16 observations of another. Latents are
exact draws of the power posteriors. Bias and variance are squared, summed over coordinates, and
shares of the squared exact gradient; then the thesis's variance over coordinates, a share of the
exact gradient's. "evidence": errors in nats of the trapezium rule and of the identity as printed.
95 % intervals are over five seeds. ``covariance_loss`` has 4 chains an observation.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy import stats

from ebmjax import latent

MODEL, NUM_DRAWS, SEEDS = latent.LinearGaussian(likelihood_scale=0.6), 1000, 5


def draw_problem(key: jax.Array) -> tuple[latent.LatentParams, jax.Array]:
    """Returns parameters, and observations that they do not explain yet."""
    keys = jax.random.split(key, 5)
    shift = 0.5 * jax.random.normal(keys[0], (4,))
    weight, other = (jax.random.normal(key, (8, 4)) for key in keys[1:3])
    z, noise = (jax.random.normal(key, (16, size)) for key, size in ((keys[3], 4), (keys[4], 8)))
    return MODEL.params(0.3 * jnp.eye(4), shift, 0.5 * weight, jnp.zeros(8)), z @ other.T + noise


@partial(jax.jit, static_argnames="name")
def draw_gradients(name: str, key: jax.Array, x: jax.Array, params: Any, powers: Any) -> Any:
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


def measure(name: str, num: int, p: float, seed: int) -> list[jax.Array]:
    """Returns a row's numbers of one seed."""
    params, x, powers = *draw_problem(jax.random.key(seed)), latent.power_schedule(num, p)
    evidence = jax.vmap(MODEL.log_evidence, (None, 0))
    if name == "evidence":
        terms = jax.vmap(MODEL.terms, (None, 0, None))(params, x, powers)
        made = jax.vmap(partial(latent.log_evidence, powers=powers))
        plus = terms | {"kl_backward": -terms["kl_backward"]}
        plain = {name: one * (name[:2] != "kl") for name, one in terms.items()}
        return [jnp.mean(made(**one) - evidence(params, x)) for one in (plain, plus)]
    exact = ravel_pytree(jax.grad(lambda p: jnp.mean(evidence(p, x)))(params))[0]
    found = np.asarray(draw_gradients(name, jax.random.key(seed + 1000), x, params, powers))
    variance, square = found.var(0, ddof=1).sum(), jnp.sum(jnp.square(exact))
    bias = np.square(found.mean(0) - exact).sum() - variance / NUM_DRAWS  # less the draws' part
    return [bias / square, variance / square, found.var(1).mean() / jnp.var(exact)]


def main() -> None:
    """Prints a row for each estimator, N_t and p."""
    for name in ("telescoped", "tempered", "covariance", "evidence"):
        for num, p in ((num, p) for num in (10, 30) for p in (0.1, 0.3, 1.0, 3.0, 6.0, 10.0)):
            rows = np.array([measure(name, num, p, seed) for seed in range(SEEDS)])
            pairs = zip(rows.mean(0), stats.t.ppf(0.975, SEEDS - 1) * stats.sem(rows), strict=True)
            cells = [f"{mean:.3g} ± {half:.2g}" for mean, half in pairs]
            print(f"| {name} N_t={num} p={p} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
