"""Numbers that judge a model or its chains: pure functions, jittable unless marked host code."""

from ebmjax.metrics._attacks import apgd_attack as apgd_attack
from ebmjax.metrics._attacks import epsilon_from_levels as epsilon_from_levels
from ebmjax.metrics._attacks import pgd_attack as pgd_attack
from ebmjax.metrics._attacks import straight_through as straight_through
from ebmjax.metrics._calibration import accuracy as accuracy
from ebmjax.metrics._calibration import brier_score as brier_score
from ebmjax.metrics._calibration import calibration_gaps as calibration_gaps
from ebmjax.metrics._calibration import expected_calibration_error as expected_calibration_error
from ebmjax.metrics._calibration import negative_log_likelihood as negative_log_likelihood
from ebmjax.metrics._calibration import reliability_bins as reliability_bins
from ebmjax.metrics._chains import effective_sample_size as effective_sample_size
from ebmjax.metrics._chains import potential_scale_reduction as potential_scale_reduction
from ebmjax.metrics._errors import half_sample_error as half_sample_error
from ebmjax.metrics._errors import paired_difference as paired_difference
from ebmjax.metrics._errors import sampling_error as sampling_error
from ebmjax.metrics._errors import split_in_halves as split_in_halves
from ebmjax.metrics._flops import compiled_flops as compiled_flops
from ebmjax.metrics._generation import FeatureMoments as FeatureMoments
from ebmjax.metrics._generation import extract_in_batches as extract_in_batches
from ebmjax.metrics._generation import extrapolate_to_infinity as extrapolate_to_infinity
from ebmjax.metrics._generation import feature_moments as feature_moments
from ebmjax.metrics._generation import frechet_distance as frechet_distance
from ebmjax.metrics._generation import frechet_distances as frechet_distances
from ebmjax.metrics._generation import inception_score as inception_score
from ebmjax.metrics._gradient_variance import (
    coordinate_gradient_variance as coordinate_gradient_variance,
)
from ebmjax.metrics._gradient_variance import gradient_variance as gradient_variance
from ebmjax.metrics._landscape import energy_landscape as energy_landscape
from ebmjax.metrics._landscape import filter_normalised_direction as filter_normalised_direction
from ebmjax.metrics._out_of_distribution import auroc as auroc
from ebmjax.metrics._out_of_distribution import auroc_parts as auroc_parts
from ebmjax.metrics._out_of_distribution import ood_scores as ood_scores
from ebmjax.metrics._pairs import energy_distance as energy_distance
from ebmjax.metrics._pairs import kernel_distance as kernel_distance
from ebmjax.metrics._pairs import kernel_distances as kernel_distances
from ebmjax.metrics._pairs import mean_kernel as mean_kernel
