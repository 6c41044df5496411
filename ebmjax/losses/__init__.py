"""Losses: arrays of energies or log densities in, (scalar, metrics) out; they never sample."""

from ebmjax._precision import energy_penalty as energy_penalty
from ebmjax.losses._beta import beta_objective_loss as beta_objective_loss
from ebmjax.losses._contrastive_divergence import (
    contrastive_divergence_loss as contrastive_divergence_loss,
)
from ebmjax.losses._denoising import (
    denoising_score_matching_loss as denoising_score_matching_loss,
)
from ebmjax.losses._energy_discrepancy import energy_discrepancy_loss as energy_discrepancy_loss
from ebmjax.losses._energy_matching import energy_matching_loss as energy_matching_loss
from ebmjax.losses._energy_matching import match_pairs as match_pairs
from ebmjax.losses._entropy import nearest_neighbour_entropy as nearest_neighbour_entropy
from ebmjax.losses._equilibrium_matching import (
    equilibrium_matching_loss as equilibrium_matching_loss,
)
from ebmjax.losses._improved_contrastive_divergence import (
    improved_contrastive_divergence_loss as improved_contrastive_divergence_loss,
)
from ebmjax.losses._joint import class_log_density as class_log_density
from ebmjax.losses._joint import cross_entropy_loss as cross_entropy_loss
from ebmjax.losses._joint import joint_energy as joint_energy
from ebmjax.losses._joint import joint_log_density as joint_log_density
from ebmjax.losses._noise_contrastive import noise_contrastive_loss as noise_contrastive_loss
from ebmjax.losses._score_matching import score_matching_loss as score_matching_loss
from ebmjax.losses._svgd import svgd_generative_loss as svgd_generative_loss
