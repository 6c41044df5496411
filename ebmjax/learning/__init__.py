"""Gradient functions of the models: they draw samples and differentiate a loss, for one step."""

from ebmjax.learning._image_energy import Energy as Energy
from ebmjax.learning._image_energy import EnergyLoss as EnergyLoss
from ebmjax.learning._image_energy import EnergyOf as EnergyOf
from ebmjax.learning._image_energy import LiveSteps as LiveSteps
from ebmjax.learning._image_energy import class_densities as class_densities
from ebmjax.learning._image_energy import (
    make_image_energy_gradient_fn as make_image_energy_gradient_fn,
)
from ebmjax.learning._image_energy_chains import ChainKind as ChainKind
from ebmjax.learning._image_energy_chains import DualAveraging as DualAveraging
from ebmjax.learning._image_energy_chains import ImageNegatives as ImageNegatives
from ebmjax.learning._image_energy_chains import dual_averaging_init as dual_averaging_init
from ebmjax.learning._image_energy_chains import dual_averaging_update as dual_averaging_update
from ebmjax.learning._image_energy_chains import run_kinds as run_kinds
from ebmjax.learning._image_energy_shards import ImageEnergyShard as ImageEnergyShard
from ebmjax.learning._image_energy_shards import (
    init_image_energy_shards as init_image_energy_shards,
)
from ebmjax.learning._joint import View as View
from ebmjax.learning._joint import make_joint_gradient_fn as make_joint_gradient_fn
from ebmjax.learning._joint_network import ChainDensity as ChainDensity
from ebmjax.learning._joint_objective import GenerativeLoss as GenerativeLoss
from ebmjax.learning._joint_objective import JointObjective as JointObjective
from ebmjax.learning._joint_shards import JointShard as JointShard
from ebmjax.learning._joint_shards import init_joint_shards as init_joint_shards
from ebmjax.learning._latent import make_latent_gradient_fn as make_latent_gradient_fn
from ebmjax.learning._latent import (
    make_through_chain_gradient_fn as make_through_chain_gradient_fn,
)
from ebmjax.learning._latent_shards import LatentShard as LatentShard
from ebmjax.learning._latent_shards import init_latent_shards as init_latent_shards
from ebmjax.learning._live_chains import run_live_chains as run_live_chains
from ebmjax.learning._negatives import CHAIN_AXIS as CHAIN_AXIS
from ebmjax.learning._negatives import Negatives as Negatives
from ebmjax.learning._negatives import mean_squared_displacement as mean_squared_displacement
from ebmjax.learning._negatives import profile_chains as profile_chains
from ebmjax.learning._negatives import run_chains as run_chains
