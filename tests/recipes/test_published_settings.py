"""The configurations at the papers' sizes say what the papers' tables say."""

import pytest
from config_checks import chosen, fields

from ebmjax.recipes.study.study_file import load

JEM = {
    "sampler.name": "sgld",
    "sampler.sgld.step_size": 1.0,
    "sampler.sgld.noise_scale": 0.01,
    "sampler.num_steps": 20,
    "sampler.box": "none",
    "sampler.buffer.start": "uniform",
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
    "sampler.buffer.start": "informative",
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
    "sampler.buffer.start": "informative",
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
    "loss.name": "svgd",
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
    "jempp_cifar10": JEMPP,
    "sadajem_cifar10": SADAJEM | {"optimizer.learning_rate": 0.1},
    "svgdjem_cifar10:literal": SVGD_THESIS,
}


@pytest.mark.parametrize("file", PUBLISHED)
def test_a_configuration_is_the_published_one(file):
    expected = SHARED | PUBLISHED[file]
    assert chosen(file, expected) == expected


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
    "eval.robustness.num_steps": 50,
    "eval.robustness.step_size": 2.0,
    "eval.robustness.linf": RADII,
    "eval.robustness.l2": RADII,
    "eval.generation.num_images": 10_000,
}


@pytest.mark.parametrize("name", ["jem", "jempp", "sadajem", "svgdjem"])
def test_cifar_is_judged_by_the_published_protocol(name):
    assert chosen(f"{name}_cifar10", PROTOCOL) == PROTOCOL
    assert fields(f"{name}_cifar10")["eval.ood.tfds"] == ("svhn_cropped", "cifar100", "celeb_a")
    for variant in ("cpu", "smoke"):
        assert fields(f"{name}_cifar10:{variant}")["eval.ood.tfds"] == ()


# Table 5 of SADA-JEM: what a row has beyond another.
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
