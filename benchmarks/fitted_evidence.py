"""The error of a log evidence whose divergences are fitted to chains, by covariance and chains.

A linear-Gaussian model with 80 latents and 192 outputs, a power law of exponent 6 over 10 intervals
and exact draws of every power posterior, as the configurations at published size have them but for
the draws. Nats: errors are means over independent repeats, with their standard errors.
"""

import argparse
from collections.abc import Iterator
from functools import partial

import _harness as harness
import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import evidence, latent

D, OUTPUTS, SCALE, REPEATS = 80, 192, 0.3, 64
POWERS = latent.power_schedule(10, 6.0)
SPECTRA = {"falling": 3.0 * np.exp(-np.arange(D) / 15.0), "flat": np.ones(D)}
FULL = [("full", num_chains) for num_chains in (D + 5, D + 20, 2 * D, 3 * D, 4 * D)]
FITS = [("shrunk", 64), ("diagonal", 64), *FULL]


def problem(spectrum: np.ndarray) -> tuple[latent.LatentParams, latent.LatentModel, jax.Array]:
    """Returns a generator with these singular values, in random directions, and one observation."""
    rng = np.random.default_rng(0)
    outward, inward = (np.linalg.qr(rng.normal(size=(n, D)))[0] for n in (OUTPUTS, D))
    weight = jnp.asarray(outward * spectrum @ inward.T, jnp.float32)
    params = latent.LatentParams(
        latent.QuadraticPrior(jnp.zeros((D, D)), jnp.zeros(D)),
        latent.LinearGenerator(weight, jnp.zeros(OUTPUTS)),
    )
    x = weight @ rng.normal(size=D) + SCALE * rng.normal(size=OUTPUTS)
    return params, latent.linear_gaussian_model(likelihood_scale=SCALE), x


def rows_of(name: str) -> Iterator[harness.Row]:
    """Yields the exact correction, and a row of each of ``FITS``."""
    params, model, x = problem(SPECTRA[name])
    exact = latent.linear_gaussian_log_evidence(params, model, x)
    terms = latent.linear_gaussian_terms(params, model, x, POWERS)
    correction = 0.5 * jnp.sum(terms.kl_forward - terms.kl_backward)
    yield {"singular values": name, "fit": "exact", "correction": f"{correction:.2f}"}
    posterior = partial(latent.linear_gaussian_power_posterior, params, model, x)
    mean, covariance = jax.vmap(posterior)(POWERS)
    factor = jnp.linalg.cholesky(covariance)
    log_likelihoods = jax.vmap(jax.vmap(lambda z: latent.log_likelihood(params, model, z, x)))

    def one(key: jax.Array, kind: str, num_chains: int) -> tuple[jax.Array, evidence.Estimate]:
        noise = jax.random.normal(key, (len(POWERS), num_chains, D))
        z = mean[:, None] + jnp.einsum("pij,pnj->pni", factor, noise)
        forward, backward = latent.fitted_divergences(z, covariance=kind)
        estimate = evidence.thermodynamic_log_evidence(
            log_likelihoods(z), POWERS, kl_forward=forward, kl_backward=backward
        )
        return 0.5 * jnp.sum(forward - backward), estimate

    keys = jax.random.split(jax.random.key(0), REPEATS)
    for kind, num_chains in FITS:
        run = jax.jit(partial(jax.lax.map, partial(one, kind=kind, num_chains=num_chains)))
        correction, estimate = run(keys)
        errors = estimate.value - exact
        yield {
            "singular values": name,
            "fit": kind,
            "chains": num_chains,
            "correction": _with_error(correction),
            "error of the sum": _with_error(errors),
            "its spread": float(errors.std(ddof=1)),
            "standard error reported": float(estimate.standard_error.mean()),
        }


def _with_error(values: jax.Array) -> str:
    return f"{values.mean():.2f} +- {values.std(ddof=1) / REPEATS**0.5:.2f}"


def rows(name: str, options: argparse.Namespace) -> Iterator[harness.Row]:
    """Yields the rows of both generators."""
    del name, options
    for spectrum in SPECTRA:
        yield from rows_of(spectrum)
