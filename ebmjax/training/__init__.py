"""Training: one step, one loop, checkpoints that resume bit for bit, any number of devices."""

from ebmjax._phases import tell_phases as tell_phases
from ebmjax._records import read_rows as read_rows
from ebmjax.training._checkpoints import CheckpointAccessError as CheckpointAccessError
from ebmjax.training._checkpoints import CheckpointDamagedError as CheckpointDamagedError
from ebmjax.training._checkpoints import CheckpointMismatchError as CheckpointMismatchError
from ebmjax.training._checkpoints import Checkpoints as Checkpoints
from ebmjax.training._fit import FitResult as FitResult
from ebmjax.training._fit import Monitor as Monitor
from ebmjax.training._fit import check_fits as check_fits
from ebmjax.training._fit import fit as fit
from ebmjax.training._plan import Plan as Plan
from ebmjax.training._sharding import make_mesh as make_mesh
from ebmjax.training._start import WarmStart as WarmStart
from ebmjax.training._start import check_same_data as check_same_data
from ebmjax.training._start import digest_data as digest_data
from ebmjax.training._start import warm_start as warm_start
from ebmjax.training._state import TrainState as TrainState
from ebmjax.training._state import init_state as init_state
from ebmjax.training._state import tree_digest as tree_digest
from ebmjax.training._state import write_slots as write_slots
from ebmjax.training._step import GradientFn as GradientFn
from ebmjax.training._step import TrainStep as TrainStep
from ebmjax.training._step import make_train_step as make_train_step
from ebmjax.training._stops import DivergenceError as DivergenceError
from ebmjax.training._writers import JsonlWriter as JsonlWriter
from ebmjax.training._writers import Writer as Writer
