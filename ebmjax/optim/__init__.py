"""Gradients that optax does not take: sharpness-aware minimisation around any loss."""

from ebmjax.optim._sam import sam_gradients as sam_gradients
