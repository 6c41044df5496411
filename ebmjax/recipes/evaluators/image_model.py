"""A model of images as evaluators see it: what it follows, its chains, its buffer."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax._groups import on_devices
from ebmjax.evaluate import Chains, Distances, finite_images
from ebmjax.learning import ChainPlan
from ebmjax.recipes.config.errors import Config
from ebmjax.recipes.evaluators.chains import DensitiesOf, draw_buffer
from ebmjax.training import TrainState
from ebmjax.types import Key

LONG, FAR_PIXELS = 10, 32**2
"""Default length of an evaluation's chain, in lengths of a training step's, for images of at most
so many pixels. Chains of larger images are longer in proportion."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageModel:
    """A trained model of images, as evaluators see it.

    Attributes:
      plan: how training draws its negatives; None without chains.
      densities_of: what chains of ``trained`` follow; None where they move latents.
      train: the training images.
      held_out: images held out of training; None without any.
      distances: distances of samples from the training images; None for points.
      config: of the run.
      state: of training; None before ``at``.
      trained: the parts of the state that are used; None before ``at``.
      programs: compiled programs of evaluators, shared by the models of all states.
      known_sets: chains that an evaluator of this state has drawn, by name.
    """

    plan: ChainPlan | None
    densities_of: DensitiesOf
    train: data.ImageData
    distances: Distances | None
    config: Config
    held_out: data.ImageData | None = None
    state: TrainState | None = None
    trained: Any = None
    programs: dict[Any, Any] = field(default_factory=dict)
    known_sets: dict[str, Chains] = field(default_factory=dict)

    def extract_trained(self, state: TrainState) -> Any:
        """Returns the parts of a state that are used."""
        raise NotImplementedError

    def at(self, state: TrainState | None) -> Self:
        """Returns the model of a state; without one, the model as it is."""
        if state is None:
            return self
        trained = on_devices(self.extract_trained(state))
        return replace(self, state=state, trained=trained, known_sets={})

    def program(self, name: Any, make: Callable[[], Any]) -> Any:
        """Returns ``make()``, made once for all states."""
        if name not in self.programs:
            self.programs[name] = make()
        return self.programs[name]

    @property
    def params(self) -> Any:
        """PyTree of its parameters."""
        return self.trained.params

    @property
    def num_chain_steps(self) -> int:
        """Number of steps of an evaluation's own chain."""
        pixels = math.prod(self.train.images.shape[1:-1])
        default = round(LONG * self.config.sampler.num_steps * max(pixels / FAR_PIXELS, 1))
        return self.config.evals.num_chain_steps or default

    def buffer(self, key: Key, num: int) -> Chains | None:
        """Returns ``num`` slots of the buffer and draws of its start distribution; or None."""
        return None if self.state is None else draw_buffer(key, self.plan, self.state, num)

    def classes_of(self, chains: Chains) -> Any:
        """Returns the class (N,) of each sample, by which a picture sorts them; None without."""
        return None


def floats(images: np.ndarray) -> jax.Array:
    """Returns uint8 images as float32 in [-1, 1]."""
    return data.to_signed_unit(jnp.asarray(images))


def images_of(chains: Any) -> dict[str, np.ndarray]:
    """Returns "images" and "start_images", uint8, of the chains whose ends are finite."""
    is_finite = np.isfinite(chains.ends).all(axis=(1, 2, 3))
    starts = np.asarray(chains.starts)[is_finite]
    return {"images": finite_images(chains.ends), "start_images": finite_images(starts)}
