"""Energy-based models in JAX: samplers, latent priors, networks, training and their metrics."""

from ebmjax import types as types
