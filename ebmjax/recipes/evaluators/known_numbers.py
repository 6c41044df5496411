"""Names of the numbers in a run's reports, so that a mistyped one and one of the user's are seen.

In a pattern ``(a|b)`` stands for some words, and ``*`` for any.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

OF_EVERY_RUN = """
    step steps seed loss skipped consecutive_skipped skip_cause gradient_norm diverged_repeats
    (wall|compile|run|pilot|evaluation)_seconds
    over_training.((first|best)_(sample_fid|test_accuracy|density_tv)|best_sample_is)
    over_training.(first|best)_(step|accuracy_step|density_step)
    over_training.((sample|start)_fid_error|(start|gaussian|test_images)_fid)
    over_training.(fid_minus_starts(|_low|_high)|start_is|lowest_acceptance|largest_loss)
"""
"""Numbers of the last row of metrics.jsonl, and of summary.json."""

OF_CHAINS = """
    chain_* (positive|negative)_(energy|log_density|entropy|weight) energy_gap log_density_gap
    energy_l2 beta smoothing objective effective_(sample|positive)_fraction implied_temperature
    score_norm divergence perturbed_energy noise_accuracy transport_error
"""
OF_SAMPLES = """
    (sample|start)_((fid|kid)(|_error)|fid_num_images|fid_infinity|is)
    (test_images|gaussian)_fid(|_error|_num_images)
    fid_minus_starts(|_low|_high) num_diverged_samples sample_rms_displacement
"""

SCORES = """
    (fid|kid)(|_error) fid_num_images fid_infinity num_images is precision recall density coverage
    at_sizes.*.infinity
"""
CHAINS = f"""
    {SCORES} num_diverged rms_displacement mean_class_probability mean_log_density
    (|kid_)minus_starts.(difference|low|high)
"""


def below(places: str, names: str) -> str:
    """Returns ``names`` below each of ``places``."""
    return " ".join(f"{place}.{name}" for place in places.split() for name in names.split())


def of_generation(sets: str) -> str:
    """Returns the scores of ``sets``, such as "fresh", and of what stands beside them."""
    return f"""
        {below(f"generation.{sets}", CHAINS)} {below(f"generation.{sets}.starts", SCORES)}
        {below("generation.(test_images|gaussian)", SCORES)} generation.extractor.*
        generation.(num_reference|num_images|num_compared|num_chain_steps|implied_temperature)
    """


OF_FIT = """
    fit.(ksd|mmd).*.(statistic|p_value) fit.c2st.*.(accuracy|p_value)
    fit.(num_samples|num_diverged|temperature)
"""
OF_DENSITY = """
    density_(tv|kl|share_tv) sample_(tv|kl|share_tv) border_mass is_normalisable outside
"""

OF_NATS = "nats.* test_nats test_nats_(low|high)"

PATTERNS = {
    "joint": f"""
        {OF_CHAINS} {OF_SAMPLES} {OF_NATS}
        accuracy cross_entropy test_(accuracy|ece|nll|brier|log_density) buffer_log_density
        {below("classification", "accuracy ece nll brier num_images scaled.*")}
        classification.(classwise_ece|adaptive_ece|debiased_squared_ece)
        {below("ood.sets.*", "(log_density|max_probability|negative_score_norm).*")}
        ood.num_images ood.sets.*.num_images ood.threshold.(num_images|rate)
        ood.threshold.*.(threshold|low|high|rate|rate_low|rate_high) ood.threshold.*.below.*
        robustness.(|refined.)(|by_gradient.*.)(|usable_gradient.)(linf|l2).*
        robustness.(|refined.)protocol.*
        {of_generation("(buffer|fresh|conditional|buffer_selected)")} landscape.*
        {OF_FIT}
    """,
    "energy": f"""
        {OF_CHAINS} {OF_SAMPLES} {OF_NATS}
        (sample|test)_energy temperature acceptance_(literal|energies|twice_step|decoupled|implied)
        log_ratio_(energy|proposal) squared_drift_to_noise score_change step_factor kl_terms
        live_(energy|entropy) negative_weight_* num_chain_steps
        {of_generation("(short|fresh|buffer)")} energies.gap
        {below("energies.(short|fresh|buffer|test)", "mean deviation num_not_finite")}
        mixing.(acceptance|rhat_energy|rhat_pixel) mixing.by_sampler.*.* samplers.*.*
        {OF_DENSITY} {below("density", OF_DENSITY)} density.perfect_sampler.*
        (thesis|tuned|references).*.*
        {OF_FIT} bias_(slope|correlation) (negative|reweighted|long|exact)_tv gradient_evaluations
    """,
    "latent": f"""
        {OF_SAMPLES} (prior|posterior)_energy prior_acceptance reconstruction_error
        test_(log_evidence|trapezium_log_evidence|reconstruction_error) quadrature_discrepancy
        (|test_)mean_log_likelihoods posterior_acceptance powers
        (|prior_|generator_)gradient_variance gradient_(mean_norm|signal_to_noise)
        (|mean_)(|prior_|generator_)coordinate_gradient_variance
        {of_generation("fresh")}
        {below("evidence.(ais|stepping_stone|thermodynamic|trapezium)", "mean")}
        {below("cost", "flops_per_step steps (pilot|train)_seconds seconds_per_step")}
    """,
}


def is_known(name: str, family: str) -> bool:
    """Returns whether reports of ``family`` are known to hold a number called ``name``."""
    return any(re.fullmatch(_expression(pattern), name) for pattern in patterns(family))


NOT_NUMBERS = ("step", "recovery", "extractor")


def own_numbers(row: Mapping[str, Any], family: Any) -> list[str]:
    """Returns the names in a row that are of the user's parts; none of an unknown family."""
    names = [name for name in row if name not in NOT_NUMBERS and "." not in name]
    return [name for name in names if not is_known(name, family)] if family in PATTERNS else []


SHARES = """
    (|*_)(accuracy|ece|tv|auroc|precision|recall|coverage|acceptance|acceptance_prob)
    p_value mean_class_probability border_mass outside is_normalisable
"""
"""Numbers from 0 to 1, by the last parts of their names."""


def range_of(name: str) -> tuple[float, float]:
    """Returns the least and the largest value that a number can have.

    Example:
      >>> range_of("density.density_tv"), range_of("generation.fresh.kid")
      ((0.0, 1.0), (-inf, inf))
    """
    last = name.rpartition(".")[2]
    is_share = any(re.fullmatch(_expression(pattern), last) for pattern in SHARES.split())
    return (0.0, 1.0) if is_share else (-math.inf, math.inf)


def expand(pattern: str) -> Iterator[str]:
    """Returns the names that a pattern stands for; ``*`` stays."""
    inner = re.search(r"\(([^()]*)\)", pattern)
    if inner is None:
        yield pattern
        return
    for word in inner[1].split("|"):
        yield from expand(pattern[: inner.start()] + word + pattern[inner.end() :])


def patterns(family: str) -> Iterator[str]:
    for pattern in f"{OF_EVERY_RUN} {PATTERNS.get(family, '')}".split():
        yield pattern
        yield f"test_set_error.{pattern}"
        if "." not in pattern:
            yield f"over_training.last.{pattern}"


def _expression(pattern: str) -> str:
    for written, expression in ((".", r"\."), ("*", r"[^.]+")):
        pattern = pattern.replace(written, expression)
    return pattern
