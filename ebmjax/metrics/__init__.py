"""Numbers that judge a model or its chains: pure, jittable functions of arrays."""

from ebmjax.metrics._acceptance import acceptance_rate as acceptance_rate
from ebmjax.metrics._chains import effective_sample_size as effective_sample_size
from ebmjax.metrics._chains import potential_scale_reduction as potential_scale_reduction
from ebmjax.metrics._gradient_variance import GradientVariance as GradientVariance
from ebmjax.metrics._gradient_variance import (
    coordinate_gradient_variance as coordinate_gradient_variance,
)
from ebmjax.metrics._gradient_variance import gradient_variance as gradient_variance
