"""Samplers: pure steps over PyTree states, the drivers that run them and the wrappers around them.

Every sampler comes as ``<name>_init``, ``<name>_step`` and the bound form ``<name>``. A step takes
a key, which it consumes, the state from init or an earlier step, a log density of one position (or
particle), and options by name; the bound form takes density and options.
"""

from ebmjax.samplers._adaptive_svgd import adaptive_svgd as adaptive_svgd
from ebmjax.samplers._adaptive_svgd import adaptive_svgd_init as adaptive_svgd_init
from ebmjax.samplers._adaptive_svgd import adaptive_svgd_step as adaptive_svgd_step
from ebmjax.samplers._autoregressive import FIT_BATCH as FIT_BATCH
from ebmjax.samplers._autoregressive import Autoregressive as Autoregressive
from ebmjax.samplers._autoregressive import fit_autoregressive as fit_autoregressive
from ebmjax.samplers._chains import batch_step as batch_step
from ebmjax.samplers._chains import run_chain as run_chain
from ebmjax.samplers._chains import start_chain as start_chain
from ebmjax.samplers._chains import start_chains as start_chains
from ebmjax.samplers._chains import start_key as start_key
from ebmjax.samplers._chains import trace_chain as trace_chain
from ebmjax.samplers._conditional_gaussian import condition_gaussian as condition_gaussian
from ebmjax.samplers._gradient_descent import gradient_descent as gradient_descent
from ebmjax.samplers._gradient_descent import gradient_descent_init as gradient_descent_init
from ebmjax.samplers._gradient_descent import gradient_descent_step as gradient_descent_step
from ebmjax.samplers._hmc import hmc as hmc
from ebmjax.samplers._hmc import hmc_init as hmc_init
from ebmjax.samplers._hmc import hmc_step as hmc_step
from ebmjax.samplers._langevin import LangevinInfo as LangevinInfo
from ebmjax.samplers._langevin import LangevinState as LangevinState
from ebmjax.samplers._mala import mala as mala
from ebmjax.samplers._mala import mala_init as mala_init
from ebmjax.samplers._mala import mala_step as mala_step
from ebmjax.samplers._margins import Margins as Margins
from ebmjax.samplers._margins import fit_margins as fit_margins
from ebmjax.samplers._parallel_tempering import parallel_tempering as parallel_tempering
from ebmjax.samplers._parallel_tempering import parallel_tempering_init as parallel_tempering_init
from ebmjax.samplers._parallel_tempering import parallel_tempering_step as parallel_tempering_step
from ebmjax.samplers._psgld import PSGLDInfo as PSGLDInfo
from ebmjax.samplers._psgld import PSGLDState as PSGLDState
from ebmjax.samplers._psgld import psgld as psgld
from ebmjax.samplers._psgld import psgld_init as psgld_init
from ebmjax.samplers._psgld import psgld_step as psgld_step
from ebmjax.samplers._pyld import pyld as pyld
from ebmjax.samplers._pyld import pyld_init as pyld_init
from ebmjax.samplers._pyld import pyld_step as pyld_step
from ebmjax.samplers._replay_buffer import Draw as Draw
from ebmjax.samplers._replay_buffer import ReplayBuffer as ReplayBuffer
from ebmjax.samplers._replay_buffer import replay_buffer_draw as replay_buffer_draw
from ebmjax.samplers._replay_buffer import replay_buffer_init as replay_buffer_init
from ebmjax.samplers._replay_buffer import replay_buffer_write as replay_buffer_write
from ebmjax.samplers._replay_buffer import select_particles as select_particles
from ebmjax.samplers._sgld import sgld as sgld
from ebmjax.samplers._sgld import sgld_init as sgld_init
from ebmjax.samplers._sgld import sgld_step as sgld_step
from ebmjax.samplers._starts import StartFn as StartFn
from ebmjax.samplers._starts import check_start_fn as check_start_fn
from ebmjax.samplers._starts import gaussian_start as gaussian_start
from ebmjax.samplers._starts import informative_start as informative_start
from ebmjax.samplers._starts import uniform_start as uniform_start
from ebmjax.samplers._states import acceptance_of as acceptance_of
from ebmjax.samplers._states import memory_of as memory_of
from ebmjax.samplers._states import position_of as position_of
from ebmjax.samplers._states import with_memory as with_memory
from ebmjax.samplers._stochastic_svgd import stochastic_svgd as stochastic_svgd
from ebmjax.samplers._stochastic_svgd import stochastic_svgd_init as stochastic_svgd_init
from ebmjax.samplers._stochastic_svgd import stochastic_svgd_step as stochastic_svgd_step
from ebmjax.samplers._svgd import svgd as svgd
from ebmjax.samplers._svgd import svgd_direction as svgd_direction
from ebmjax.samplers._svgd import svgd_init as svgd_init
from ebmjax.samplers._svgd import svgd_step as svgd_step
from ebmjax.samplers._tempered_mala import tempered_mala as tempered_mala
from ebmjax.samplers._tempered_mala import tempered_mala_init as tempered_mala_init
from ebmjax.samplers._tempered_mala import tempered_mala_step as tempered_mala_step
from ebmjax.samplers._tilted_langevin import FactorGaussian as FactorGaussian
from ebmjax.samplers._tilted_langevin import fit_factor_gaussian as fit_factor_gaussian
from ebmjax.samplers._tilted_langevin import tilted_langevin as tilted_langevin
from ebmjax.samplers._tilted_langevin import tilted_langevin_init as tilted_langevin_init
from ebmjax.samplers._tilted_langevin import tilted_langevin_step as tilted_langevin_step
from ebmjax.samplers._tilted_metropolis import tilted_metropolis as tilted_metropolis
from ebmjax.samplers._tilted_metropolis import tilted_metropolis_init as tilted_metropolis_init
from ebmjax.samplers._tilted_metropolis import tilted_metropolis_step as tilted_metropolis_step
from ebmjax.samplers._underdamped_langevin import underdamped_langevin as underdamped_langevin
from ebmjax.samplers._underdamped_langevin import (
    underdamped_langevin_init as underdamped_langevin_init,
)
from ebmjax.samplers._underdamped_langevin import (
    underdamped_langevin_step as underdamped_langevin_step,
)
from ebmjax.samplers._warm_up import warm_up as warm_up
from ebmjax.samplers._wrappers import clamp as clamp
from ebmjax.samplers._wrappers import clip_drift as clip_drift
from ebmjax.samplers._wrappers import clip_score as clip_score
from ebmjax.samplers._wrappers import fold_into_box as fold_into_box
from ebmjax.samplers._wrappers import reflect as reflect
from ebmjax.samplers._wrappers import schedule as schedule
from ebmjax.types import Sampler as Sampler
