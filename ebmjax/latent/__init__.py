"""The latent EBM: model, chains on its power posteriors, log evidence and learning gradients."""

from ebmjax.evidence import log_evidence as log_evidence
from ebmjax.evidence import power_schedule as power_schedule
from ebmjax.latent._adaptive import adaptive_schedule as adaptive_schedule
from ebmjax.latent._annealing import ais_log_evidence as ais_log_evidence
from ebmjax.latent._annealing import ais_log_normalizer as ais_log_normalizer
from ebmjax.latent._annealing import path_to_posterior as path_to_posterior
from ebmjax.latent._annealing import path_to_prior as path_to_prior
from ebmjax.latent._covariance import covariance_loss as covariance_loss
from ebmjax.latent._divergences import adjacent_divergences as adjacent_divergences
from ebmjax.latent._divergences import fitted_divergences as fitted_divergences
from ebmjax.latent._estimators import frozen_prior_loss as frozen_prior_loss
from ebmjax.latent._estimators import telescoped_loss as telescoped_loss
from ebmjax.latent._estimators import tempered_loss as tempered_loss
from ebmjax.latent._estimators import vanilla_loss as vanilla_loss
from ebmjax.latent._gaussian import gaussian_kl as gaussian_kl
from ebmjax.latent._gaussian import gaussian_moments as gaussian_moments
from ebmjax.latent._ladder import LadderSamples as LadderSamples
from ebmjax.latent._ladder import LatentChains as LatentChains
from ebmjax.latent._ladder import principal_latents as principal_latents
from ebmjax.latent._ladder import sample_ladder as sample_ladder
from ebmjax.latent._linear_gaussian import GaussianMoments as GaussianMoments
from ebmjax.latent._linear_gaussian import LinearGenerator as LinearGenerator
from ebmjax.latent._linear_gaussian import QuadraticPrior as QuadraticPrior
from ebmjax.latent._linear_gaussian import ThermodynamicTerms as ThermodynamicTerms
from ebmjax.latent._linear_gaussian import (
    linear_gaussian_log_evidence as linear_gaussian_log_evidence,
)
from ebmjax.latent._linear_gaussian import (
    linear_gaussian_log_normalizer as linear_gaussian_log_normalizer,
)
from ebmjax.latent._linear_gaussian import (
    linear_gaussian_mean_log_likelihood as linear_gaussian_mean_log_likelihood,
)
from ebmjax.latent._linear_gaussian import linear_gaussian_model as linear_gaussian_model
from ebmjax.latent._linear_gaussian import (
    linear_gaussian_power_posterior as linear_gaussian_power_posterior,
)
from ebmjax.latent._linear_gaussian import linear_gaussian_terms as linear_gaussian_terms
from ebmjax.latent._literal import literal_log_evidence as literal_log_evidence
from ebmjax.latent._model import LatentModel as LatentModel
from ebmjax.latent._model import LatentParams as LatentParams
from ebmjax.latent._model import log_joint as log_joint
from ebmjax.latent._model import log_likelihood as log_likelihood
from ebmjax.latent._model import log_prior as log_prior
from ebmjax.latent._sampling import sample_power_posteriors as sample_power_posteriors
from ebmjax.latent._sampling import sample_prior as sample_prior
from ebmjax.latent._through_chain import through_chain_loss as through_chain_loss
