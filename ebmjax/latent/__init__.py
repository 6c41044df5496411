"""The latent EBM: model, chains on its power posteriors, log evidence and learning gradients."""

from ebmjax.evidence import log_evidence as log_evidence
from ebmjax.latent._chains import LatentChains as LatentChains
from ebmjax.latent._chains import sample_ladder as sample_ladder
from ebmjax.latent._chains import sample_power_posteriors as sample_power_posteriors
from ebmjax.latent._chains import sample_prior as sample_prior
from ebmjax.latent._divergences import fitted_divergences as fitted_divergences
from ebmjax.latent._divergences import gaussian_kl as gaussian_kl
from ebmjax.latent._exchange import place_powers as place_powers
from ebmjax.latent._linear_gaussian import LinearGaussian as LinearGaussian
from ebmjax.latent._losses import covariance_loss as covariance_loss
from ebmjax.latent._losses import frozen_prior_loss as frozen_prior_loss
from ebmjax.latent._losses import telescoped_loss as telescoped_loss
from ebmjax.latent._losses import tempered_loss as tempered_loss
from ebmjax.latent._losses import vanilla_loss as vanilla_loss
from ebmjax.latent._model import LatentModel as LatentModel
from ebmjax.latent._model import LatentParams as LatentParams
from ebmjax.latent._model import log_likelihood as log_likelihood
from ebmjax.latent._model import log_prior as log_prior
from ebmjax.latent._model import path_to_posterior as path_to_posterior
from ebmjax.latent._model import path_to_prior as path_to_prior
from ebmjax.latent._model import principal_latents as principal_latents
from ebmjax.latent._schedules import power_schedule as power_schedule
from ebmjax.latent._through_chain import through_chain_loss as through_chain_loss
