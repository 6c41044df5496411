"""The scenarios and short runs of the robust objective say what its paper says."""

import pytest
from config_checks import fields

from ebmjax.recipes.study.study_file import load

# Appendix M of the robust-objective paper: step size alpha and output scale o.
SCENARIOS = {
    "unconfined": (1e-4, 2e4),
    "scale_2": (1e-4, 4e4),
    "scale_half": (1e-4, 1e4),
    "step_4": (4e-4, 5e3),
    "step_quarter": (2.5e-5, 2e4),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_of_the_robust_objective_is_that_of_its_alpha_and_scale(name):
    alpha, scale = SCENARIOS[name]
    found = fields(f"jem_digits:{name}")
    assert found["sampler.sgld.step_size"] == pytest.approx(alpha * scale / 2)
    assert found["sampler.sgld.noise_scale"] == pytest.approx(alpha**0.5)
    weighted = fields("jem_digits:beta_2" if name == "unconfined" else f"jem_digits:{name}_beta_2")
    assert weighted["loss.output_scale"] == scale
    assert weighted["loss.beta"] * scale == pytest.approx(2.0)
    slowed = 4 if name == "step_4" else 1
    base = fields("jem_digits")["optimizer.learning_rate"]
    for variant in (found, weighted):
        assert variant["optimizer.learning_rate"] == base / slowed


# Table 2 of the robust-objective paper: output scale; exponents best by accuracy, samples' two.
TABLE_2 = {
    "default": (2e4, {4.0, 0.5}),
    "5 steps": (2e4, {2.0, 0.5}),
    "8 negatives": (2e4, {2.0, 0.5}),
    "output scale x2": (4e4, {10.0, 0.5}),
    "output scale x0.5": (1e4, {2.0, 0.5}),
    "step x4": (5e3, {4.0, 0.5}),
    "step x0.25": (2e4, {1.0, 0.1}),
}


def test_the_rows_of_table_2_have_the_exponents_of_their_names():
    found = {name: set() for name in TABLE_2}
    for variant in ("table1", "scenarios"):
        for label, config in load(f"studies/jem_cifar10.py:{variant}").rows.items():
            scenario, _, exponent = label.partition(", exponent ")
            section = fields(config.removeprefix("configs/").replace(".py", ""))
            found[scenario].add(float(exponent))
            if float(exponent) == 0:
                assert section["loss.name"] == "contrastive_divergence"
                continue
            assert section["loss.output_scale"] == TABLE_2[scenario][0], label
            product = section["loss.beta"] * section["loss.output_scale"]
            assert product == pytest.approx(float(exponent)), label
    assert found.pop("default") == {0.0, 0.5, 1.0, 2.0, 4.0, 10.0}  # Table 1
    for scenario, exponents in found.items():
        assert exponents == {0.0, 2.0} | TABLE_2[scenario][1], scenario


def test_short_runs_are_of_the_published_code():
    """100 steps of f' and noise 0.01 from uniform starts, 64 of each, 100,000 updates of 1e-4."""
    found = fields("shortrun_cifar10")
    expected = {
        "sampler.num_steps": 100,
        "sampler.sgld.step_size": 1.0,
        "sampler.sgld.noise_scale": 0.01,
        "sampler.num_samples": 64,
        "train.batch_size": 64,
        "data.noise_scale": 0.03,
        "optimizer.learning_rate": 1e-4,
    }
    assert {name: found[name] for name in expected} == expected
    updates = found["train.num_epochs"] * (found["data.max_train"] // 64)
    assert abs(updates - 100_000) < 50_000 // 64 / 2  # to the nearest epoch
