"""Gradient functions of the models: they draw samples and differentiate a loss, for one step."""

from ebmjax._dual_averaging import DualAveraging as DualAveraging
from ebmjax._numbers import numbers_of as numbers_of
from ebmjax.learning._chains import ANY_CLASS as ANY_CLASS
from ebmjax.learning._chains import Densities as Densities
from ebmjax.learning._chains import profile_chains as profile_chains
from ebmjax.learning._chains import run_chains as run_chains
from ebmjax.learning._chains import run_live_chains as run_live_chains
from ebmjax.learning._gradient import Density as Density
from ebmjax.learning._gradient import LiveSteps as LiveSteps
from ebmjax.learning._gradient import Objective as Objective
from ebmjax.learning._gradient import Samples as Samples
from ebmjax.learning._gradient import View as View
from ebmjax.learning._gradient import make_gradient_fn as make_gradient_fn
from ebmjax.learning._latent import init_latent_carry as init_latent_carry
from ebmjax.learning._latent import make_latent_gradient_fn as make_latent_gradient_fn
from ebmjax.learning._latent import make_through_chain_gradient_fn as make_through_chain_gradient_fn
from ebmjax.learning._models import EnergyNetwork as EnergyNetwork
from ebmjax.learning._models import JointNetwork as JointNetwork
from ebmjax.learning._plan import Carry as Carry
from ebmjax.learning._plan import Chain as Chain
from ebmjax.learning._plan import ChainKind as ChainKind
from ebmjax.learning._plan import ChainPlan as ChainPlan
from ebmjax.learning._plan import init_carry as init_carry
from ebmjax.learning._plan import positions_in as positions_in
