"""Ranges of configuration fields, checked before anything is built or written."""

import math
from typing import Any

import numpy as np

from ebmjax._checks import shown
from ebmjax.recipes.core.fields import Config, ConfigError, flatten

# By the last part of a field's name: a name means the same in every family.
POSITIVE = {
    "attack_step_size",
    "step_factor",
    "step_size",
    "temperature",
    "base_scale",
    "likelihood_scale",
    "exponent",
    "learning_rate",
    "final_learning_rate",
    "damping",
    "max_drift",
    "max_score",
    "langevin_weight",
    "law_scale",
    "output_scale",
    "smoothing",
    "smoothing_ratio",
    "rho",
    "max_abs_loss",
    "half_width",
    "evidence_step_size",
    "evidence_exponent",
    "pilot_exponent",
    "target_acceptance",
    "spectral_norm",
    "max_norm",
    "min_area",
    "temperature_growth",
    "radius",
    "start_scale",
    "every_epochs",
    "sigma",
}
NOT_NEGATIVE = {
    "kl_weight",
    "noise_scale",
    "outer_step_size",
    "classification_weight",
    "generative_weight",
    "energy_l2",
    "min_step_size",
    "entropy_weight",
    "max_blur",
    "weight_decay",
    "decay_epochs",
}
FRACTION = {"b1", "b2", "decay", "momentum", "beta", "sampling_beta", "average_decay"}
UP_TO_ONE = {"decay_per_epoch", "decay_factor", "smoothing_rate", "final_step_fraction"}
PROBABILITY = {
    "reinit_prob",
    "max_positive_weight",
    "max_border_mass",
    "jitter_prob",
    "grey_prob",
    "acceptance_threshold",
    "acceptance_decay",
}
FINITE = {"low", "high", "law_mean"}
BELOW_ONE = {"betas", "beta_start", "beta_end"}
AT_LEAST_ZERO = {
    "crop_padding",
    "positive_crop_padding",
    "warmup_steps",
    "num_attacked",
    "refine_steps",
    "chain_length",
    "buffer_size",
    "burn_in",
    "num_frames",
    "num_validation",
    "num_profiled",
}
AT_LEAST_ONE = {
    "image_size",
    "max_train",
    "max_test",
    "num_per_class",
    "latent_dim",
    "prior_hidden",
    "generator_features",
    "num_steps",
    "num_intervals",
    "num_epochs",
    "batch_size",
    "steps_per_dispatch",
    "log_every",
    "checkpoint_every_epochs",
    "max_consecutive_skips",
    "num_shards",
    "num_samples",
    "num_test",
    "evidence_images",
    "attack_steps",
    "attack_restarts",
    "num_eot",
    "num_chain_steps",
    "num_classes",
    "depth",
    "widen_factor",
    "size",
    "num_kept",
    "num_inner",
    "num_integration_steps",
    "max_num_doublings",
    "positive_batch_size",
    "num_points",
    "hidden",
    "num_repeats",
    "pilot_epochs",
    "pilot_intervals",
    "chains_per_observation",
    "smallest_generated",
    "evidence_intervals",
    "evidence_steps",
    "features",
    "num_scales",
    "live_steps",
    "num_references",
}
AT_LEAST_TWO = {"num_gradients", "evidence_chains", "num_diagnosed", "num_chains"}
ZERO_OR_TWO = {"num_generated", "num_ood", "landscape_points"}
NAMES = {"ood_tfds", "names", "evidence_methods", "samplers"}
BANDWIDTH = {"bandwidth"}
# JAX's keys are made of 32 bits: a larger seed has the key of a smaller one.
SEED = {"seed"}
MAX_SEED = 2**32 - 1
# Programs count in 32 bits, and their floating-point numbers have as many.
MAX_INTEGER = 2**31 - 1
MAX_FLOAT, MIN_FLOAT = (float(getattr(np.finfo(np.float32), name)) for name in ("max", "tiny"))
# Its square is how often a density is evaluated.
GRID = {"grid_points"}
LEVELS = {"attack_linf", "attack_l2"}

RULES = (
    (POSITIVE, lambda v: math.isfinite(v) and v > 0, "positive and finite"),
    # A tuple's entries come from the command line unchecked, of any type.
    (
        NOT_NEGATIVE,
        lambda v: isinstance(v, int | float) and 0 <= v < math.inf,
        "finite and at least 0",
    ),
    (FRACTION, lambda v: 0 <= v < 1, "in [0, 1)"),
    (PROBABILITY, lambda v: 0 <= v <= 1, "in [0, 1]"),
    (FINITE, lambda v: isinstance(v, int | float) and math.isfinite(v), "finite"),
    (BELOW_ONE, lambda v: isinstance(v, int | float) and -math.inf < v < 1, "finite and below 1"),
    (UP_TO_ONE, lambda v: 0 < v <= 1, "in (0, 1]"),
    (AT_LEAST_ZERO, lambda v: isinstance(v, int) and v >= 0, "an integer of at least 0"),
    (AT_LEAST_ONE, lambda v: isinstance(v, int) and v >= 1, "an integer of at least 1"),
    (AT_LEAST_TWO, lambda v: isinstance(v, int) and v >= 2, "an integer of at least 2"),
    (ZERO_OR_TWO, lambda v: isinstance(v, int) and (v == 0 or v >= 2), "0, or at least 2"),
    (NAMES, lambda v: isinstance(v, str) and v, "a name"),
    (BANDWIDTH, lambda v: _is_bandwidth(v), "positive (of SVGD, also 'median')"),
    (SEED, lambda v: isinstance(v, int) and 0 <= v <= MAX_SEED, f"an integer from 0 to {MAX_SEED}"),
    (GRID, lambda v: isinstance(v, int) and 10 <= v <= 5000, "an integer from 10 to 5000"),
    (LEVELS, lambda v: isinstance(v, int | float) and 0 <= v <= 1e4, "from 0 to 10000"),
)


# For every number, whatever its name.
SIZES = (
    (
        lambda v: not isinstance(v, int) or abs(v) <= MAX_INTEGER,
        f"an integer of 32 bits, at most {MAX_INTEGER}",
    ),
    (
        lambda v: not isinstance(v, float) or v == 0 or MIN_FLOAT <= abs(v) <= MAX_FLOAT,
        f"0 or of a size from {MIN_FLOAT:.1e} to {MAX_FLOAT:.1e}, what 32 bits hold",
    ),
)


def check_ranges(config: Config) -> None:
    """Raises ConfigError at the first field out of range, naming it, its value and the range."""
    for name, value in flatten(config.to_dict()).items():
        last, entries = name.rsplit(".", 1)[-1], _entries(value)
        rules = [rule[1:] for rule in RULES if last in rule[0]]
        for is_valid, expected in (*rules, *(() if last in SEED else SIZES)):
            # A bool is an integer in Python, and no number here.
            is_flag = last not in NAMES and any(isinstance(entry, bool) for entry in entries)
            if (rules and is_flag) or not all(map(is_valid, entries)):
                where = " in every entry" if isinstance(value, list | tuple) else ""
                raise ConfigError(
                    f"config.{name} must be {expected}{where}, got {shown(repr(value))}. "
                    f"Set it with --config.{name}=..."
                )
    num_repeats = config.get("train", {}).get("num_repeats", 1)
    if config.seed + num_repeats - 1 > MAX_SEED:
        raise ConfigError(
            f"config.seed={config.seed} is that of the first of config.train.num_repeats="
            f"{num_repeats}, and the last one's would be above {MAX_SEED}: take a smaller one."
        )


def _is_bandwidth(value: Any) -> bool:
    """Checks a value of any type, because the field takes numbers and a name."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value == "median" or (is_number and 0 < value < math.inf)


def _entries(value: Any) -> list[Any]:
    if value is None:  # an unset placeholder
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
