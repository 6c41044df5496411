"""The configurations at the papers' sizes say what the papers' tables say."""

import importlib
from itertools import pairwise

import jax
import numpy as np
import pytest

from experiments.configs import sadajem_cifar10
from experiments.jem_ood import ood_sets
from experiments.study import load
from experiments.study_cells import cells
from experiments.thermo_assessment import ThermoAssessment
from experiments.thermo_parts import ACTIVATIONS, model_of
from experiments.workdir import flatten

JEM = {
    "sampler.name": "sgld",
    "sampler.sgld.step_size": 1.0,
    "sampler.sgld.noise_scale": 0.01,
    "sampler.num_steps": 20,
    "sampler.box": "none",
    "sampler.buffer.law": "uniform",
    "data.augment_positives": True,
    "data.noise_scale": 0.03,
    "model.norm": "none",
    "optimizer.name": "adam",
    "optimizer.learning_rate": 1e-4,
    "optimizer.decay_epochs": (160, 180),
    "train.num_epochs": 200,
    "train.batch_size": 64,
}
JEMPP = {
    "sampler.name": "pyld",
    "sampler.pyld.step_size": 0.2,
    "sampler.pyld.noise_scale": 0.0,
    "sampler.pyld.num_inner": 5,
    "sampler.num_steps": 10,
    "sampler.box": "clamp",
    "sampler.max_score": 1.0,
    "sampler.buffer.law": "informative",
    "model.norm": "batch",
    "optimizer.learning_rate": 0.1,
    "train.num_epochs": 150,
}
SADAJEM = {
    "sampler.name": "proximal_sgld",
    "sampler.proximal_sgld.step_size": 1.0,
    "sampler.proximal_sgld.noise_scale": 0.0,
    "sampler.proximal_sgld.max_drift": 1.0,
    "sampler.num_steps": 10,
    "sampler.box": "clamp",
    "sampler.buffer.law": "informative",
    "data.augment_positives": False,
    "model.norm": "batch",
    "optimizer.rho": 0.2,
    "optimizer.decay_epochs": (60, 120, 180),
    "train.num_epochs": 200,
    "train.batch_size": 128,
    "train.positive_batch_size": 64,
}
SVGD_THESIS = {
    "sampler.name": "svgd",
    "sampler.svgd.step_size": 0.09,
    "sampler.num_samples": 30,
    "sampler.num_steps": 10,
    "loss.generative": "svgd",
    "loss.svgd_variant": "literal",
    "loss.smoothing": 50.0,
    "optimizer.learning_rate": 0.1,
    "optimizer.decay_epochs": (60, 120, 180),
    "train.batch_size": 10,
    "train.num_epochs": 100,
}
SHARED = {"sampler.buffer.size": 10_000, "sampler.buffer.reinit_prob": 0.05}
# spec/samplers.md's table; Table 7 of SADA-JEM; Table 4.1 of the SVGD thesis.
PUBLISHED = {
    "jem_cifar10": JEM,
    # Alg. 9 of the sampling-approaches thesis.
    "jem_cifar10:psgld": {"sampler.psgld.decay": 0.9, "sampler.psgld.damping": 1.0},
    "jem_cifar10:svgd": {"sampler.num_samples": 10, "sampler.num_steps": 10},
    "jempp_cifar10": JEMPP,
    "jempp_cifar10:m5": {"sampler.num_steps": 5},
    "sadajem_cifar10": SADAJEM | {"optimizer.learning_rate": 0.1},
    # SADA-JEM's Table 2 has them by their codes' default settings.
    "jem_cifar100": JEM,
    "jempp_cifar100": JEMPP,
    "jempp_cifar100:m20": JEMPP | {"sampler.num_steps": 20},
    "sadajem_cifar100": SADAJEM | {"optimizer.learning_rate": 0.01, "data.num_classes": 100},
    "svgdjem_cifar10:literal": SVGD_THESIS,
    "svgdjem_cifar10:sgld": {"sampler.num_steps": 10, "train.batch_size": 64},
}


def fields(file):
    name, _, variant = file.partition(":")
    module = importlib.import_module(f"experiments.configs.{name}")
    return flatten(module.get_config(variant).to_dict())


def chosen(file, names):
    found = fields(file)
    return {name: found[name] for name in names}


@pytest.mark.parametrize("file", PUBLISHED)
def test_a_configuration_is_the_published_one(file):
    expected = SHARED | PUBLISHED[file]
    assert chosen(file, expected) == expected


# Tables 3 and 4 of the thermodynamic-integration thesis. It varies p and the batch size; its 5
# repeats are those of studies/thermo_images.py.
THERMO = {
    "data.max_train": 12_000,
    "data.max_test": 4_500,
    "model.prior_hidden": (100, 100),
    "model.prior_activation": "leaky_relu",
    "model.base_scale": 1.0,
    "model.likelihood_scale": 0.3,
    "sampler.prior.name": "sgld",
    "sampler.prior.step_size": 0.16,
    "sampler.prior.num_steps": 60,
    "sampler.posterior.name": "sgld",
    "sampler.posterior.step_size": 0.01,
    "sampler.warm_start": False,
    "sampler.persistent": False,
    "loss.schedule": "power",
    "loss.num_intervals": 10,
    "loss.chains_per_observation": 1,
    "loss.energy_l2": 0.0,
    "loss.kl_weight": 1.0,
    "optimizer.b1": 0.5,
    "optimizer.b2": 0.999,
    "optimizer.decay_per_epoch": 0.975,
    "optimizer.prior.learning_rate": 2e-5,
    "optimizer.prior.final_learning_rate": 1e-5,
    "optimizer.generator.learning_rate": 1e-4,
    "optimizer.generator.final_learning_rate": 5e-5,
    "train.num_epochs": 50,
    "train.batch_size": 75,
}
THERMO_DATA = {
    "thermo_celeba": {
        "data.name": "celeb_a",
        "data.image_size": 64,
        "model.latent_dim": 80,
        "sampler.posterior.num_steps": 20,
    },
    "thermo_cifar10": {
        "data.name": "cifar10",
        "data.image_size": 32,
        "model.latent_dim": 100,
        "sampler.posterior.num_steps": 40,
    },
}


@pytest.mark.parametrize("variant", ["", ":vanilla", ":frozen_prior"])
@pytest.mark.parametrize("name", THERMO_DATA)
def test_thermodynamic_integration_is_set_as_in_the_thesis(name, variant):
    expected = THERMO | THERMO_DATA[name]
    assert chosen(name + variant, expected) == expected
    estimator = variant.removeprefix(":") or "tempered"
    assert fields(name + variant)["loss.estimator"] == estimator


@pytest.mark.parametrize("name", ["celeba", "cifar10"])
def test_the_study_of_the_thesiss_images_has_its_rows(name, tmp_path):
    """Section 4: five repeats, vanilla learning at four batch sizes, p at a batch of 75."""
    made = cells(load(f"studies/thermo_images.py:{name}"), tmp_path, 1)
    assert {cell.repeats for cell in made} == {5}
    rows = [
        (c.config.loss.estimator, c.config.train.batch_size, c.config.loss.exponent) for c in made
    ]
    sweep = [(75, p) for p in (0.1, 0.3, 1.0, 3.0, 6.0, 10.0)]
    expected = [("vanilla", batch, 6.0) for batch in (25, 50, 75, 150)]
    expected += [(estimator, *one) for estimator in ("frozen_prior", "tempered") for one in sweep]
    assert sorted(rows) == sorted(expected)
    published = THERMO | THERMO_DATA[f"thermo_{name}"]
    varied = {"train.batch_size"}
    for cell in made:
        found = flatten(cell.config.to_dict())
        assert all(found[field] == published[field] for field in published.keys() - varied)


# Table 5 less the layer that it prints too many: with it the images would be twice as large.
GENERATORS = {
    "thermo_celeba": (80, 1024, 512, 256, 128, 3),
    "thermo_cifar10": (100, 1024, 512, 256, 3),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_the_networks_are_those_of_the_thesis(name):
    config = importlib.import_module(f"experiments.configs.{name}").get_config()
    side = config.data.image_size
    _, init = model_of(config, (side, side, 3))  # refuses another size of image
    params = jax.eval_shape(init, jax.random.key(0))
    widths = GENERATORS[name]
    expected = [(4, 4, wide, narrow) for wide, narrow in pairwise(widths)]
    assert kernels(params.generator) == sorted(expected)
    assert kernels(params.prior) == sorted([(widths[0], 100), (100, 100), (100, 1)])
    assert ACTIVATIONS["leaky_relu"](-1.0) == pytest.approx(-0.1)


def kernels(params):
    return sorted(leaf.shape for leaf in jax.tree.leaves(params) if len(leaf.shape) > 1)


@pytest.mark.parametrize("name", GENERATORS)
def test_images_are_compared_at_the_sizes_of_the_thesis(name):
    """Appendix 7.6.3."""
    config = importlib.import_module(f"experiments.configs.{name}").get_config()
    made = ThermoAssessment(evaluation=None, test=None, config=config)  # pyright: ignore
    assert made.sizes == [1000, 1389, 1778, 2167, 2556, 2944, 3333, 3722, 4111, 4500]


def changes(file, base):
    """Field to its value in ``file``, of those that ``base`` has otherwise."""
    theirs = fields(base)
    return {name: value for name, value in fields(file).items() if value != theirs[name]}


@pytest.mark.parametrize("name", ["jem_cifar10", "sadajem_cifar10", "sadajem_cifar100"])
def test_a_classifier_alone_is_trained_as_the_joint_model(name):
    alone = {"loss.generative_weight": 0.0}
    if name == "jem_cifar10":
        assert changes(f"{name}:softmax", name) == alone
    else:
        assert changes(f"{name}:softmax", name) == alone | {"optimizer.rho": None}
        assert changes(f"{name}:softmax_sam", name) == alone
        assert fields(f"{name}:softmax_sam")["optimizer.rho"] == 0.2


RADII = (0, 1, 2, 4, 8, 12, 16, 22, 30)  # 0 beside SADA-JEM's
PROTOCOL = {
    "eval.attack_steps": 50,
    "eval.attack_step_size": 2.0,
    "eval.attack_linf": RADII,
    "eval.attack_l2": RADII,
    "eval.num_generated": 10_000,
}
SMALL = {
    "eval.attack_steps": 20,
    "eval.attack_step_size": None,
    "eval.num_generated": 256,
    "eval.num_attacked": 128,
}


@pytest.mark.parametrize("name", ["jem", "jempp", "sadajem", "svgdjem"])
def test_cifar_is_judged_by_the_published_protocol(name):
    assert chosen(f"{name}_cifar10", PROTOCOL) == PROTOCOL
    assert fields(f"{name}_cifar10")["eval.ood_tfds"] == ("svhn_cropped", "cifar100", "celeb_a")
    assert chosen(f"{name}_cifar10:cpu", SMALL) == SMALL
    for variant in ("cpu", "smoke"):
        assert fields(f"{name}_cifar10:{variant}")["eval.ood_tfds"] == ()


@pytest.mark.parametrize("name", ["jem", "jempp", "sadajem"])
def test_a_data_set_is_not_its_own_outside(name):
    expected = {
        "data.name": "cifar100",
        "data.num_classes": 100,
        "eval.ood_tfds": ("svhn_cropped", "cifar10", "celeb_a"),
    }
    assert chosen(f"{name}_cifar100", expected) == expected


@pytest.mark.parametrize("is_there", [True, False])
def test_published_sets_that_were_not_prepared_are_skipped_with_a_reason(is_there, tmp_path):
    config = sadajem_cifar10.get_config()
    config.data.data_dir = str(tmp_path if is_there else tmp_path / "nowhere")
    sets, skipped = ood_sets(config, np.zeros((4, 32, 32, 3), np.uint8))
    assert sets.keys() == {"natural_patches", "interp", "noise", "constant"}
    assert skipped.keys() == set(config.eval.ood_tfds)
    reason = "is not prepared" if is_there else "data_dir does not exist"
    assert all(reason in text for text in skipped.values())


def test_the_measured_row_of_psgld_keeps_its_decay():
    """docs/results/jem_digits.md."""
    assert fields("jem_digits:psgld")["sampler.psgld.decay"] == 0.99


@pytest.mark.parametrize("name", ["jem", "jempp", "sadajem", "svgdjem"])
def test_the_runs_of_two_cores_are_those_that_were_measured(name):
    expected = {"sampler.num_steps": 10, "data.max_train": 5000, "train.num_epochs": 12}
    assert chosen(f"{name}_cifar10:cpu", expected) == expected


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
                assert section["loss.generative"] == "contrastive_divergence"
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


# Table 5 of SADA-JEM: augmented p(x), SAM, penalty on squared energies.
ABLATION = {
    "jem": (True, False, False),
    "jem_sam": (True, True, False),
    "jempp": (True, False, False),
    "jempp_sam": (True, True, False),
    "jempp_unaugmented": (False, False, False),
    "jempp_unaugmented_l2": (False, False, True),
    "sadajem": (False, True, False),
}


@pytest.mark.parametrize("row", ABLATION)
def test_a_row_of_the_ablation_has_what_its_name_says(row):
    found = fields(f"sadajem_digits:{row}")
    has = (
        found["data.augment_positives"],
        found["optimizer.rho"] is not None,
        found["loss.energy_l2"] > 0,
    )
    assert has == ABLATION[row]
    is_jem = row.startswith("jem") and not row.startswith("jempp")
    assert found["sampler.name"] == ("sgld" if is_jem else "proximal_sgld")


ADDED = {
    ("JEM", "JEM, SAM"): "optimizer.rho",
    ("JEM++", "JEM++, SAM"): "optimizer.rho",
    ("JEM++", "JEM++, p(x) unaugmented"): "data.augment_positives",
    ("JEM++, p(x) unaugmented", "JEM++, p(x) unaugmented, energy L2"): "loss.energy_l2",
    ("JEM++, p(x) unaugmented", "SADA-JEM"): "optimizer.rho",
    ("JEM++, SAM", "SADA-JEM"): "data.augment_positives",
}


@pytest.mark.parametrize(("data", "rho"), [("digits", 0.05), ("cifar10", 0.2)])
@pytest.mark.parametrize(("before", "after"), ADDED)
def test_a_row_of_the_ablation_adds_one_thing(before, after, data, rho):
    values = {"optimizer.rho": rho, "data.augment_positives": False, "loss.energy_l2": 0.01}
    rows = load(f"studies/jem_{data}.py:ablation").rows
    was, now = (
        rows[label].removeprefix("configs/").replace(".py", "") for label in (before, after)
    )
    field = ADDED[before, after]
    assert changes(now, was) == {field: values[field]}


@pytest.mark.parametrize(("file", "penalty"), [("", 0.01), (":k5", 0.01), (":literal", 0.0)])
def test_the_measured_rows_of_sadajem_keep_their_penalty(file, penalty):
    """docs/results/jem_digits.md."""
    assert fields(f"sadajem_digits{file}")["loss.energy_l2"] == penalty
