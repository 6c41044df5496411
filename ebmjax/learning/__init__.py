"""Gradient functions of the models: they draw samples and differentiate a loss, for one step."""

from ebmjax._dual_averaging import DualAveraging as DualAveraging
from ebmjax._dual_averaging import dual_averaging_init as dual_averaging_init
from ebmjax._dual_averaging import dual_averaging_update as dual_averaging_update
from ebmjax.learning._chainless import ChainlessLoss as ChainlessLoss
from ebmjax.learning._chainless import LossWithMemory as LossWithMemory
from ebmjax.learning._chainless import draw_for_loss as draw_for_loss
from ebmjax.learning._chainless import make_chainless_gradient_fn as make_chainless_gradient_fn
from ebmjax.learning._chains import ANY_CLASS as ANY_CLASS
from ebmjax.learning._chains import CHAIN_AXIS as CHAIN_AXIS
from ebmjax.learning._chains import Densities as Densities
from ebmjax.learning._chains import mean_squared_displacement as mean_squared_displacement
from ebmjax.learning._chains import profile_chains as profile_chains
from ebmjax.learning._chains import run_chains as run_chains
from ebmjax.learning._contrastive import Carry as Carry
from ebmjax.learning._contrastive import Starts as Starts
from ebmjax.learning._contrastive import View as View
from ebmjax.learning._contrastive import draw_starts as draw_starts
from ebmjax.learning._contrastive import init_carry as init_carry
from ebmjax.learning._contrastive import put_back as put_back
from ebmjax.learning._image import Energy as Energy
from ebmjax.learning._image import EnergyLoss as EnergyLoss
from ebmjax.learning._image import EnergyOf as EnergyOf
from ebmjax.learning._image import LiveSteps as LiveSteps
from ebmjax.learning._image import class_densities as class_densities
from ebmjax.learning._image import make_image_gradient_fn as make_image_gradient_fn
from ebmjax.learning._joint import make_joint_gradient_fn as make_joint_gradient_fn
from ebmjax.learning._joint_network import ChainDensity as ChainDensity
from ebmjax.learning._joint_network import JointNetwork as JointNetwork
from ebmjax.learning._joint_objective import GenerativeLoss as GenerativeLoss
from ebmjax.learning._joint_objective import JointObjective as JointObjective
from ebmjax.learning._latent import make_latent_gradient_fn as make_latent_gradient_fn
from ebmjax.learning._latent import make_through_chain_gradient_fn as make_through_chain_gradient_fn
from ebmjax.learning._latent_carry import LatentCarry as LatentCarry
from ebmjax.learning._latent_carry import init_latent_carry as init_latent_carry
from ebmjax.learning._live_chains import run_live_chains as run_live_chains
from ebmjax.learning._memory import Chain as Chain
from ebmjax.learning._memory import positions_in as positions_in
from ebmjax.learning._noise_levels import NoiseLevels as NoiseLevels
from ebmjax.learning._noise_levels import (
    condition_classifier_on_noise as condition_classifier_on_noise,
)
from ebmjax.learning._noise_levels import condition_on_noise as condition_on_noise
from ebmjax.learning._noise_levels import widen as widen
from ebmjax.learning._plan import ChainKind as ChainKind
from ebmjax.learning._plan import ChainPlan as ChainPlan
from ebmjax.learning._plan import step_size as step_size
