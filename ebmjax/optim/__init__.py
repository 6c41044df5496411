"""Additions to optax: sharpness-aware gradients around any loss, and averaged parameters."""

from ebmjax.optim._average import average_parameters as average_parameters
from ebmjax.optim._average import averaged_parameters as averaged_parameters
from ebmjax.optim._sam import sam_gradients as sam_gradients
