"""Training: one step, one loop, checkpoints that resume bit for bit, any number of devices."""

from ebmjax.training._access import CheckpointAccessError as CheckpointAccessError
from ebmjax.training._checkpoints import CheckpointDamagedError as CheckpointDamagedError
from ebmjax.training._checkpoints import CheckpointMismatchError as CheckpointMismatchError
from ebmjax.training._checkpoints import Checkpoints as Checkpoints
from ebmjax.training._data import check_same_data as check_same_data
from ebmjax.training._data import digest_data as digest_data
from ebmjax.training._digest import tree_digest as tree_digest
from ebmjax.training._fit import FitResult as FitResult
from ebmjax.training._fit import check_fits as check_fits
from ebmjax.training._fit import fit as fit
from ebmjax.training._image_energy import Energy as Energy
from ebmjax.training._image_energy import EnergyLoss as EnergyLoss
from ebmjax.training._image_energy import EnergyOf as EnergyOf
from ebmjax.training._image_energy import LiveSteps as LiveSteps
from ebmjax.training._image_energy import class_densities as class_densities
from ebmjax.training._image_energy import (
    make_image_energy_gradient_fn as make_image_energy_gradient_fn,
)
from ebmjax.training._image_energy_chains import ChainKind as ChainKind
from ebmjax.training._image_energy_chains import DualAveraging as DualAveraging
from ebmjax.training._image_energy_chains import ImageNegatives as ImageNegatives
from ebmjax.training._image_energy_chains import dual_averaging_init as dual_averaging_init
from ebmjax.training._image_energy_chains import dual_averaging_update as dual_averaging_update
from ebmjax.training._image_energy_chains import run_kinds as run_kinds
from ebmjax.training._image_energy_shards import ImageEnergyShard as ImageEnergyShard
from ebmjax.training._image_energy_shards import (
    init_image_energy_shards as init_image_energy_shards,
)
from ebmjax.training._joint import View as View
from ebmjax.training._joint import make_joint_gradient_fn as make_joint_gradient_fn
from ebmjax.training._joint_network import ChainDensity as ChainDensity
from ebmjax.training._joint_objective import GenerativeLoss as GenerativeLoss
from ebmjax.training._joint_objective import JointObjective as JointObjective
from ebmjax.training._joint_shards import JointShard as JointShard
from ebmjax.training._joint_shards import init_joint_shards as init_joint_shards
from ebmjax.training._latent import make_latent_gradient_fn as make_latent_gradient_fn
from ebmjax.training._latent import (
    make_through_chain_gradient_fn as make_through_chain_gradient_fn,
)
from ebmjax.training._latent_shards import LatentShard as LatentShard
from ebmjax.training._latent_shards import init_latent_shards as init_latent_shards
from ebmjax.training._live_chains import run_live_chains as run_live_chains
from ebmjax.training._negatives import CHAIN_AXIS as CHAIN_AXIS
from ebmjax.training._negatives import Negatives as Negatives
from ebmjax.training._negatives import mean_squared_displacement as mean_squared_displacement
from ebmjax.training._negatives import profile_chains as profile_chains
from ebmjax.training._negatives import run_chains as run_chains
from ebmjax.training._plan import Plan as Plan
from ebmjax.training._repeats import repeat_step as repeat_step
from ebmjax.training._repeats import repeats_take_turns as repeats_take_turns
from ebmjax.training._repeats import select_repeat as select_repeat
from ebmjax.training._repeats import stack_states as stack_states
from ebmjax.training._sharding import make_mesh as make_mesh
from ebmjax.training._skips import DivergenceError as DivergenceError
from ebmjax.training._slot_write import SlotWrite as SlotWrite
from ebmjax.training._slot_write import apply_writes as apply_writes
from ebmjax.training._slot_write import write_slots as write_slots
from ebmjax.training._state import TrainState as TrainState
from ebmjax.training._state import init_state as init_state
from ebmjax.training._state import state_axes as state_axes
from ebmjax.training._step import make_train_step as make_train_step
from ebmjax.training._warm_start import WarmStart as WarmStart
from ebmjax.training._warm_start import warm_start as warm_start
from ebmjax.training._writers import JsonlWriter as JsonlWriter
from ebmjax.training._writers import Writer as Writer
from ebmjax.training._writers import read_rows as read_rows
