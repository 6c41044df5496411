"""Energy-based models in JAX: samplers, latent priors, networks, training and their metrics.

Rooms load when they are first used. ``import ebmjax`` loads none of them, and
``import ebmjax.samplers`` loads JAX and Optax but not Flax.

Functions check their arguments, the values of arrays where these are concrete. They raise TypeError
for a wrong type or dtype and ValueError for a wrong shape or value, with a message that names the
argument. Docstrings list only other errors, and limits that their arguments do not state.
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

from ebmjax._extras import needs_experiments

if TYPE_CHECKING:
    from ebmjax import data as data
    from ebmjax import densities as densities
    from ebmjax import evaluate as evaluate
    from ebmjax import evidence as evidence
    from ebmjax import latent as latent
    from ebmjax import learning as learning
    from ebmjax import losses as losses
    from ebmjax import metrics as metrics
    from ebmjax import networks as networks
    from ebmjax import optim as optim
    from ebmjax import recipes as recipes
    from ebmjax import samplers as samplers
    from ebmjax import training as training
    from ebmjax import types as types

__version__ = "0.1.0"

_ROOMS = frozenset(one.name for one in pkgutil.iter_modules(__path__) if one.name[0] != "_")


def load(name: str) -> "recipes.TrainedRun":
    """Returns a trained model that comes with ebmjax, as ``recipes.load`` returns that of a run.

    Its ``card`` says what it was trained on and by which command, its numbers with their
    references, and its limits. ``ebmjax list --models`` prints all cards. It needs the extra
    "experiments".

    Args:
      name: "digits" (a classifier that is a density), "digits_energy", "digits_latent" or "plane".

    Raises:
      ConfigError: for an unknown name.
      ImportError: without the extra.

    Example:
      ``model = ebmjax.load("digits"); images = model.sample(jax.random.key(0), 64)["images"]``
    """
    with needs_experiments("ebmjax.load", "packages"):
        from ebmjax.recipes.run import trained
    return trained.load_packaged(name)


def __getattr__(name: str) -> Any:
    """Imports a room when it is first used."""
    if name in _ROOMS:
        return importlib.import_module(f"ebmjax.{name}")
    raise AttributeError(f"module 'ebmjax' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Names of the module, with the rooms that are not loaded yet."""
    return sorted({*globals(), *_ROOMS})
