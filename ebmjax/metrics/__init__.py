"""Numbers that judge a model or its chains: pure functions, jittable unless marked host code."""

from ebmjax.metrics._acceptance import acceptance_rate as acceptance_rate
from ebmjax.metrics._attacks import PGDResult as PGDResult
from ebmjax.metrics._attacks import apgd_attack as apgd_attack
from ebmjax.metrics._attacks import epsilon_from_levels as epsilon_from_levels
from ebmjax.metrics._attacks import pgd_attack as pgd_attack
from ebmjax.metrics._attacks import straight_through as straight_through
from ebmjax.metrics._calibration import ReliabilityBins as ReliabilityBins
from ebmjax.metrics._calibration import accuracy as accuracy
from ebmjax.metrics._calibration import brier_score as brier_score
from ebmjax.metrics._calibration import calibration_gaps as calibration_gaps
from ebmjax.metrics._calibration import expected_calibration_error as expected_calibration_error
from ebmjax.metrics._calibration import negative_log_likelihood as negative_log_likelihood
from ebmjax.metrics._calibration import reliability_bins as reliability_bins
from ebmjax.metrics._chains import effective_sample_size as effective_sample_size
from ebmjax.metrics._chains import potential_scale_reduction as potential_scale_reduction
from ebmjax.metrics._energy_distance import energy_distance as energy_distance
from ebmjax.metrics._extrapolation import LineFit as LineFit
from ebmjax.metrics._extrapolation import extrapolate_to_infinity as extrapolate_to_infinity
from ebmjax.metrics._extrapolation import fit_in_inverse_size as fit_in_inverse_size
from ebmjax.metrics._extrapolation import metric_at_sizes as metric_at_sizes
from ebmjax.metrics._flops import compiled_flops as compiled_flops
from ebmjax.metrics._generation import FeatureMoments as FeatureMoments
from ebmjax.metrics._generation import InceptionScore as InceptionScore
from ebmjax.metrics._generation import extract_in_batches as extract_in_batches
from ebmjax.metrics._generation import feature_moments as feature_moments
from ebmjax.metrics._generation import frechet_distance as frechet_distance
from ebmjax.metrics._generation import inception_score as inception_score
from ebmjax.metrics._gradient_variance import GradientVariance as GradientVariance
from ebmjax.metrics._gradient_variance import (
    coordinate_gradient_variance as coordinate_gradient_variance,
)
from ebmjax.metrics._gradient_variance import gradient_variance as gradient_variance
from ebmjax.metrics._half_samples import frechet_distances as frechet_distances
from ebmjax.metrics._half_samples import half_sample_error as half_sample_error
from ebmjax.metrics._half_samples import kernel_distances as kernel_distances
from ebmjax.metrics._half_samples import mean_kernel as mean_kernel
from ebmjax.metrics._half_samples import split_in_halves as split_in_halves
from ebmjax.metrics._kernel_distance import Kernel as Kernel
from ebmjax.metrics._kernel_distance import KernelDistance as KernelDistance
from ebmjax.metrics._kernel_distance import kernel_distance as kernel_distance
from ebmjax.metrics._kernel_distance import kernel_distance_subsets as kernel_distance_subsets
from ebmjax.metrics._landscape import energy_landscape as energy_landscape
from ebmjax.metrics._landscape import filter_normalised_direction as filter_normalised_direction
from ebmjax.metrics._manifold import ManifoldScores as ManifoldScores
from ebmjax.metrics._manifold import manifold_scores as manifold_scores
from ebmjax.metrics._nested_chains import (
    nested_potential_scale_reduction as nested_potential_scale_reduction,
)
from ebmjax.metrics._novelty import NoveltyThreshold as NoveltyThreshold
from ebmjax.metrics._novelty import novelty_threshold as novelty_threshold
from ebmjax.metrics._out_of_distribution import auroc as auroc
from ebmjax.metrics._out_of_distribution import auroc_parts as auroc_parts
from ebmjax.metrics._out_of_distribution import average_precision as average_precision
from ebmjax.metrics._out_of_distribution import fpr_at_tpr as fpr_at_tpr
from ebmjax.metrics._out_of_distribution import ood_scores as ood_scores
from ebmjax.metrics._paired import PairedDifference as PairedDifference
from ebmjax.metrics._paired import paired_difference as paired_difference
from ebmjax.metrics._paired import sampling_error as sampling_error
from ebmjax.metrics._recalibration import TemperatureFit as TemperatureFit
from ebmjax.metrics._recalibration import adaptive_calibration_error as adaptive_calibration_error
from ebmjax.metrics._recalibration import (
    calibration_error_without_bias as calibration_error_without_bias,
)
from ebmjax.metrics._recalibration import classwise_calibration_error as classwise_calibration_error
from ebmjax.metrics._recalibration import fit_temperature as fit_temperature
from ebmjax.metrics._stein import KernelTest as KernelTest
from ebmjax.metrics._stein import SteinKernel as SteinKernel
from ebmjax.metrics._stein import kernel_stein_discrepancy as kernel_stein_discrepancy
from ebmjax.metrics._two_sample import ClassifierTest as ClassifierTest
from ebmjax.metrics._two_sample import classifier_two_sample_test as classifier_two_sample_test
from ebmjax.metrics._two_sample import kernel_two_sample_test as kernel_two_sample_test
