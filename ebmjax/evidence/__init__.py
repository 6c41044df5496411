"""Normalising constants: annealing, SMC, stepping stones, thermodynamic integration."""

from ebmjax.evidence._annealing import annealed_importance_sampling as annealed_importance_sampling
from ebmjax.evidence._annealing import smc_log_normalizer as smc_log_normalizer
from ebmjax.evidence._bases import Base as Base
from ebmjax.evidence._bases import gaussian_base as gaussian_base
from ebmjax.evidence._bases import unfold as unfold
from ebmjax.evidence._log_partition import log_partition as log_partition
from ebmjax.evidence._log_partition import tilted_log_partition as tilted_log_partition
from ebmjax.evidence._temperature import fit_temperature as fit_temperature
from ebmjax.evidence._thermodynamic import log_evidence as log_evidence
from ebmjax.evidence._thermodynamic import (
    stepping_stone_log_evidence as stepping_stone_log_evidence,
)
from ebmjax.evidence._thermodynamic import thermodynamic_log_evidence as thermodynamic_log_evidence
from ebmjax.evidence._thermodynamic import trapezium_weights as trapezium_weights
from ebmjax.evidence._weights import Estimate as Estimate
