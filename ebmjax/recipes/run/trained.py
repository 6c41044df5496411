"""Loads the model of a run: to sample, to score, to be called from your own code."""

import contextlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from ebmjax import data
from ebmjax._checks import check_at_least, check_key
from ebmjax._groups import over_devices
from ebmjax._phases import phase
from ebmjax.recipes.config import declare, families
from ebmjax.recipes.config.checks import is_points
from ebmjax.recipes.config.errors import Config, ConfigError, WorkdirError
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.run.run import Run
from ebmjax.training import TrainState
from ebmjax.types import Key

DARK, END = 64, 1.0 + 1.0 / 255.0
"""Largest byte of images that are no longer nearly black; float that rounds to the whitest one."""
MAY_DIFFER = (*run_folder.LOCATIONS, "evals.checkpoint")
"""Fields that a caller may always give; others only where they name code."""


class TrainedRun(NamedTuple):
    """The model of a run.

    Attributes:
      config: its configuration, with what recoveries changed (``config.train.on_divergence``) and
        what its data decided.
      params: PyTree of its parameters.
      apply: pure function of parameters and a batch: logits (joint), energies (energy), or
        the generator's images (latent).
      sample: ``sample(key, num, num_steps=None) -> arrays`` by name, each (num, ...): "images" and
        "start_images" (uint8) or "points". None takes the steps of the run's evaluation.
      score: ``score(inputs) -> arrays`` by name, each (N, ...), of images (N, H, W, C), bytes from
        0 to 255 or floats from -1 to 1, or of points (N, 2). Others raise ValueError.
      model: what evaluators take (``ebmjax.recipes.evaluators``): they give a run's numbers again,
        or those of other images.
      input_shape: shape of one image or point.
      step: step of training that the parameters are of.
      is_finished: whether that is the outcome of a finished run.
      card: text about a model that comes with ebmjax (``ebmjax.load``); "" for other runs.
    """

    config: Config
    params: Any
    apply: Any
    sample: Any
    score: Any
    model: Any
    input_shape: tuple[int, ...]
    step: int
    is_finished: bool
    card: str = ""


def load(
    folder: str | Path, *, step: int | None = None, allow_code: bool = False, **fields: Any
) -> TrainedRun:
    """Returns the model of a run; the data that it was trained on must be there.

    It says on stderr which state that is. The folder is data and stays as it is, and a data set of
    tensorflow-datasets that is not there is not fetched. Code from outside
    ebmjax that its configuration names is run only if you name it again, or allow it.

    Args:
      folder: the run's folder.
      step: a saved step; None for the newest, or the best with ``eval_checkpoint="best"``. A state
        of a diverged run is used only if you name its step.
      allow_code: whether code is run that the folder names, such as your own network of
        ``model.factory``. Allow it only for folders that you trust.
      **fields: fields of the configuration that may differ, with dots or underscores:
        ``data_path`` where the data have moved, ``eval_checkpoint="best"`` for the best state
        instead of the last. ``data_placement="disk"`` leaves the images in their files.
        ``model_factory="net.py:make"`` and ``data_name="own.py:images"`` name the code of such a
        run again, wherever it lies now.

    Raises:
      WorkdirError: if the folder holds no such state, or names code that you have not.
      ConfigError: if a field may not differ, or the data cannot be read.

    Example:
      ``run = load("runs/jem"); images = run.sample(jax.random.key(0), 64)["images"]``
    """
    path = Path(folder).expanduser()
    config = run_folder.config_of(path)
    names = {name.replace(".", "_"): name for name in families.fields_of(config)}
    dotted = {names.get(name, name): value for name, value in fields.items()}
    _check_code(path / "config.json", config, dotted, allow_code)
    for name, value in dotted.items():
        is_many = isinstance(config[name], tuple)
        named = value.split(",") if isinstance(value, str) else value
        dotted[name] = tuple(named) if is_many else str(value)
    config.update_from_flattened_dict(dotted)  # first: a check may run the code that is named
    try:
        families.check(config)
    except ConfigError as error:
        if any(f"config.{name}" in str(error) for name in dotted):
            raise
        raise WorkdirError(f"{path}/config.json: {error}") from error
    run = Run(config, path)
    found = run.find(step)
    name = config.data.get("name")
    if name is not None and not is_points(config) and data.is_tfds(name):
        with contextlib.suppress(ValueError):  # which building explains
            data.check_source(name, "train", path=config.data.path or None, needs_copy=True)
    with phase(f"{path}: {found}; reading its data and making its model", default="stderr"):
        experiment = run.build()
    if experiment.use is None:
        raise WorkdirError(f"config.family={config.family!r} has no model to use.")
    with phase(f"reading the state of step {found.step:,}"):
        state, found = run.restore(found, step is not None)
    return as_trained(run, state, is_finished=found.is_end)


def as_trained(run: Run, state: TrainState, *, is_finished: bool) -> TrainedRun:
    """Returns the model of a run that is built, at ``state``."""
    experiment = run.experiment
    assert experiment.use is not None
    used = experiment.use(jax.device_get(state))
    shape = tuple(jax.tree.leaves(experiment.data)[0].shape[1:])

    @over_devices()
    def sample(key: Key, num: int, num_steps: int | None = None) -> dict[str, np.ndarray]:
        check_key("key", key)
        check_at_least("num", num, 1)
        if num_steps is not None:
            check_at_least("num_steps", num_steps, 1)
        return used.sample(key, num, num_steps)

    @over_devices()
    def score(inputs: Any) -> dict[str, np.ndarray]:
        return used.score(_check_inputs(inputs, shape))

    return TrainedRun(
        experiment.config or run.now,
        used.params,
        used.apply,
        sample,
        score,
        model=used,
        input_shape=shape,
        step=int(state.step),
        is_finished=is_finished,
    )


def _check_inputs(inputs: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Returns images or points that a model can score; warns of bytes that are nearly black.

    Raises:
      ValueError: if they have another shape, or pixels of another range.
    """
    inputs = np.asarray(inputs)
    if inputs.shape[1:] != shape or not inputs.size:
        raise ValueError(
            f"inputs must have shape (N, {', '.join(map(str, shape))}), at least one, as the "
            f"examples that the model was trained on; got {inputs.shape}."
        )
    low, high = float(inputs.min()), float(inputs.max())
    if not np.isfinite([low, high]).all():
        raise ValueError(f"inputs must be finite, got numbers from {low} to {high}.")
    if len(shape) == 1:
        return inputs
    if inputs.dtype == np.uint8:
        if 1 <= high < DARK:
            warnings.warn(
                f"The largest byte is {high:g} of 255: these images are nearly black. If {high:g} "
                f"is white, scale them: (images * (255 / {high:g})).astype(numpy.uint8).",
                stacklevel=3,
            )
        return inputs
    if inputs.dtype.kind != "f" or not -END <= low < 0 or high > END:
        raise ValueError(
            "inputs must be bytes (uint8) from 0 to 255, or floats from -1 to 1 of which some are "
            f"below 0; got {inputs.dtype} from {low:g} to {high:g}. Scale them, black to 0 and "
            "white to 255: (255 * images / white).round().astype(numpy.uint8)."
        )
    return inputs


def _check_code(path: Path, config: Config, given: Mapping[str, Any], allow_code: bool) -> None:
    """Raises ConfigError for fields that may not differ, WorkdirError for code not named again."""
    named = declare.find_code(families.fields_of(config), config)
    for name in given:
        if name not in (*MAY_DIFFER, *named):
            raise ConfigError(
                f"config.{name} may not differ from the run's own configuration. Fields that may: "
                f"{', '.join((*MAY_DIFFER, *named))}."
            )
    if allow_code:
        return
    for name, value in named.items():
        if name not in given:
            raise WorkdirError(
                f"{path} names code from outside ebmjax, config.{name}={value!r}, and nothing of "
                f"it was run. Name it again, --config.{name}=FILE.py:FUNCTION "
                f"(load({name.replace('.', '_')}=...)), or trust the folder with --allow_code "
                "(load(allow_code=True))."
            )
