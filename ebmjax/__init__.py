"""Energy-based models in JAX: samplers, latent priors, networks, training and their metrics."""

from ebmjax import data as data
from ebmjax import densities as densities
from ebmjax import latent as latent
from ebmjax import losses as losses
from ebmjax import metrics as metrics
from ebmjax import networks as networks
from ebmjax import optim as optim
from ebmjax import samplers as samplers
from ebmjax import training as training
from ebmjax import types as types
