"""The latent EBMs at the thesis's size say what its tables say."""

import importlib
from itertools import pairwise

import jax
import pytest
from config_checks import chosen

from ebmjax.recipes.config.errors import flatten
from ebmjax.recipes.evaluators.evaluations import make_evaluators
from ebmjax.recipes.models.build import ACTIVATIONS
from ebmjax.recipes.models.latent.parts import model_of
from ebmjax.recipes.study.cells import cells
from ebmjax.recipes.study.study_file import load

# Tables 3 and 4 of the thermodynamic-integration thesis. It varies p and the batch size; its 5
# repeats are those of studies/thermo_images.py. Its batch of 75 is 72 here, for 8 devices.
THERMO = {
    "data.max_train": 12_000,
    "data.max_test": 4_500,
    "model.prior_hidden": (100, 100),
    "model.prior_activation": "leaky_relu_0.1",
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
    "optimizer.decay_per_epoch": 0.975,
    "optimizer.prior.learning_rate": 2e-5,
    "optimizer.prior.final_learning_rate": 1e-5,
    "optimizer.generator.learning_rate": 1e-4,
    "optimizer.generator.final_learning_rate": 5e-5,
    "train.num_epochs": 50,
    "train.batch_size": 72,
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


@pytest.mark.parametrize("name", THERMO_DATA)
def test_thermodynamic_integration_is_set_as_in_the_thesis(name):
    expected = THERMO | THERMO_DATA[name]
    assert chosen(name, expected) == expected


# Figures 6 and 11, of CelebA alone: what changes from p = 0.1.
CHANGES = {
    "frozen_prior p=0.1 N_t=30": {"loss.num_intervals": 30},
    "frozen_prior p=0.1 K=40": {"sampler.posterior.num_steps": 40},
}


@pytest.mark.parametrize("label", CHANGES)
def test_the_study_of_celeba_has_the_thesiss_three_changes(label, tmp_path):
    made = cells(load("studies/thermo_images.py:celeba"), tmp_path, 1)
    found = {cell.label: flatten(cell.config.to_dict()) for cell in made}
    assert found[label] == found["frozen_prior p=0.1"] | CHANGES[label]


@pytest.mark.parametrize("name", ["celeba", "cifar10"])
def test_the_study_of_the_thesiss_images_has_its_rows(name, tmp_path):
    """Section 4: five repeats, vanilla learning at four batch sizes, p at one batch size."""
    study = cells(load(f"studies/thermo_images.py:{name}"), tmp_path, 1)
    made = [cell for cell in study if cell.label not in CHANGES and "through" not in cell.label]
    assert {cell.repeats for cell in made} == {5}
    rows = [(c.config.loss.name, c.config.train.batch_size, c.config.loss.exponent) for c in made]
    sweep = [(72, p) for p in (0.1, 0.3, 1.0, 3.0, 6.0, 10.0)]
    expected = [("vanilla", batch, 6.0) for batch in (24, 48, 72, 152)]
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
    assert ACTIVATIONS["leaky_relu_0.1"](-1.0) == pytest.approx(-0.1)


def kernels(params):
    return sorted(leaf.shape for leaf in jax.tree.leaves(params) if len(leaf.shape) > 1)


@pytest.mark.parametrize("name", GENERATORS)
def test_images_are_compared_at_the_sizes_of_the_thesis(name):
    """Appendix 7.6.3."""
    config = importlib.import_module(f"experiments.configs.{name}").get_config()
    assert make_evaluators(config)["generation"].sizes == [
        1000,
        1389,
        1778,
        2167,
        2556,
        2944,
        3333,
        3722,
        4111,
        4500,
    ]
