"""Models of runs in Python: trained there, loaded from a folder, or one that comes with ebmjax."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax import data
from ebmjax._checks import check_at_least, check_key, check_positive
from ebmjax._groups import over_devices
from ebmjax.recipes.config import command_line, declare, families, files
from ebmjax.recipes.config.errors import Config, ConfigError, WorkdirError, did_you_mean, flatten
from ebmjax.recipes.evaluators.inpainting import Given, find_mask
from ebmjax.recipes.folder import run_folder
from ebmjax.recipes.run.run import Run, launch
from ebmjax.training import TrainState
from ebmjax.types import Key


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """The model of a run.

    Attributes:
      config: its configuration, with what recoveries changed (``config.train.on_divergence``) and
        what its data decided.
      model: what evaluators take (``ebmjax.recipes.evaluators``): they give a run's numbers again,
        or those of other images. ``model.apply(params, batch)`` are logits, energies or images.
      input_shape: shape of one image or point.
      step: step of training that the parameters are of.
      is_finished: whether that is the outcome of a finished run.
      card: text about a model that comes with ebmjax (``ebmjax.load``); "" for other runs.
    """

    config: Config
    model: Any
    input_shape: tuple[int, ...]
    step: int
    is_finished: bool
    card: str = ""

    @property
    def params(self) -> Any:
        """PyTree of its parameters."""
        return self.model.params

    @over_devices()
    def sample(
        self,
        key: Key,
        num: int,
        num_steps: int | None = None,
        *,
        label: Any = None,
        given: Any = None,
        mask: Any = None,
        operator: Callable[[jax.Array], jax.Array] | None = None,
        noise: float | None = None,
    ) -> dict[str, np.ndarray]:
        """Returns arrays (num, ...) by name: "images" and "start_images" (uint8), or "points".

        Args:
          key: consumed.
          num: of samples; of each given image at least 2, which are (n, num, H, W, C).
          num_steps: of each chain; None takes those of the run's evaluation.
          label: class of all samples, its name or number.
          given: images (n, H, W, C) as ``score`` takes them; with ``operator`` its observations.
          mask: their free pixels: "left", "centre", an array (H, W), not 0 where free, or its file.
          operator: function of an image (H, W, C) in [-1, 1] that was observed instead.
          noise: standard deviation of the observations' Gaussian noise.
        """
        check_key("key", key)
        check_at_least("num", num, 1 if given is None else 2)
        check_at_least("num_steps", 1 if num_steps is None else num_steps, 1)
        if label is not None:
            has_classes = self.config.family == "joint" or self.config.model.get("is_conditional")
            known = {str(k): k for k in range(self.config.data.num_classes if has_classes else 0)}
            known |= dict(zip(self.model.class_names, known.values(), strict=False))
            if str(label) not in known:
                raise ConfigError(f"label must be a class of the model, {[*known]}; got {label!r}.")
            label = known[str(label)]
        if given is None:
            return self.model.sample(key, num, num_steps, *([] if label is None else [label]))
        if len(self.input_shape) == 1:
            raise ConfigError("given must be images, and the model is one of points.")
        if operator is not None:
            check_positive("noise", noise, is_scalar=True)
            images = jnp.zeros((len(given), *self.input_shape))
            free = np.full(self.input_shape[:2], True)
            found = Given(images, free, operator, jnp.asarray(given), noise)
        else:
            images = jnp.asarray(check_inputs(given, self.input_shape))
            images = data.to_signed_unit(images) if images.dtype == jnp.uint8 else images
            found = Given(images, find_mask(mask, images))
        return found.run(key, self.model, num, num_steps, label)

    @over_devices()
    def score(self, inputs: Any) -> dict[str, np.ndarray]:
        """Returns arrays (N, ...) by name, such as "log_density".

        Args:
          inputs: images (N, H, W, C), bytes from 0 to 255 or floats from -1 to 1, or points (N, d).
        """
        return self.model.score(check_inputs(inputs, self.input_shape))


def train(
    config: str,
    images: Any = None,
    labels: Any = None,
    *,
    folder: str | Path,
    test_images: Any = None,
    test_labels: Any = None,
    fields: Mapping[str, Any] | None = None,
    mode: Literal["train", "all"] = "train",
) -> TrainedRun:
    """Trains as ``ebmjax run`` does, in the same folder, and returns the model.

    The same call goes on with a run that was interrupted, and returns a finished one at once.

    Args:
      config: configuration file with :VARIANT, yours or the project's: "configs/joint.py".
      images: (N, H, W) or (N, H, W, channels), bytes or floating point, which are kept beside the
        folder, in FOLDER.npz; None for the configuration's own data.
      labels: (N,) classes from 0 on, for models that have classes.
      folder: the run's folder.
      test_images, test_labels: images held out. Without them some of ``images`` are.
      fields: dotted names of configuration fields to their values, ``{"train.num_epochs": 10}``.
      mode: "all" evaluates the model after training, too.

    Raises:
      ConfigError: if a field is wrong, or if FOLDER.npz holds other images.
      WorkdirError: if the folder cannot be written.
      KeyboardInterrupt: if a signal ended it early; what was trained is saved.

    Example:
      ``run = train("configs/joint.py", images, labels, folder="runs/mine")``
    """
    place, given = Path(folder).expanduser(), dict(fields or {})
    run_folder.check_writable(place, "folder")
    if images is not None:
        named = {"images": images, "labels": labels}
        named |= {"test_images": test_images, "test_labels": test_labels}
        arrays = {name: np.asarray(one) for name, one in named.items() if one is not None}
        path = place.with_name(f"{place.name}.npz")
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            run_folder.write_arrays(path, arrays)
        kept = run_folder.read_arrays(path)
        same = {*kept} == {*arrays} and all(np.array_equal(kept[k], arrays[k]) for k in kept)
        if not same:
            raise ConfigError(f"{path} holds other images: name another folder, or move that file.")
        given |= {"data.name": "npz", "data.path": path}
    try:
        read = command_line.read(config, [f"--config.{k}={v}" for k, v in given.items()])
    except SystemExit as error:
        raise ConfigError(str(error).removeprefix("error: ")) from error
    if launch(read, config, str(place), mode):
        raise KeyboardInterrupt(f"Interrupted and saved: the same call goes on with {place}.")
    return load(place, allow_code=True)  # it names what the caller named


def load(
    folder: str | Path, *, step: int | None = None, allow_code: bool = False, **fields: Any
) -> TrainedRun:
    """Returns the model of a run; the data that it was trained on must be there.

    The folder is data and stays as it is: no data set is fetched, and code from outside ebmjax that
    its configuration names is run only if you name it again, or allow it.

    Args:
      folder: the run's folder.
      step: a saved step; None for the newest. A state of a diverged run is used only if you name
        its step.
      allow_code: whether code is run that the folder names. Only for folders that you trust.
      **fields: fields of the configuration that may differ, with dots or underscores:
        ``data_path`` where the data have moved, ``evals_checkpoint="best"`` for the best state,
        ``data_placement="disk"`` to leave images in their files, and
        ``model_factory="net.py:make"`` or ``data_name="own.py:images"`` to name code again.

    Raises:
      WorkdirError: if the folder holds no such state, or names code that you have not.
      ConfigError: if a field may not differ, or the data cannot be read.

    Example:
      ``run = load("runs/jem"); images = run.sample(jax.random.key(0), 64)["images"]``
    """
    path = Path(folder).expanduser()
    config = run_folder.config_of(path)
    every = families.all_fields(config.family, flatten(config.to_dict()))
    named = {
        name: config[name]
        for name, one in families.fields_of(config).items()
        for entry in declare.entries_of(config.get(name))
        if isinstance(entry, str) and one.values.names_code(entry)
    }
    may_differ = (*run_folder.LOCATIONS, "evals.checkpoint", *named)
    allowed = {name.replace(".", "_"): name for name in may_differ}
    given = {allowed.get(name, name): value for name, value in fields.items()}
    if others := given.keys() - {*allowed.values()}:
        raise ConfigError(
            f"config.{min(others)} may not differ from the run's own configuration. Fields that "
            f"may: {', '.join(allowed.values())}."
        )
    if not allow_code and (unnamed := named.keys() - given.keys()):
        name = min(unnamed)
        raise WorkdirError(
            f"{path / 'config.json'} names code from outside ebmjax, config.{name}={named[name]!r}"
            f", and nothing of it was run. Name it again, --config.{name}=FILE.py:FUNCTION, or "
            "trust the folder with --allow_code. From Python, these are arguments of load."
        )
    for name, value in given.items():  # first: a check may run the named code
        is_text = isinstance(value, str | Path)
        read, value = (declare.from_text, str(value)) if is_text else (declare.from_json, value)
        declare.put(every[name], config, name, read(every[name], name, value))
    families.check(config)
    if not families.is_points(config) and data.is_tfds(config.data.name):
        with contextlib.suppress(ValueError):  # which building explains
            where = config.data.get("path")
            data.check_source(config.data.name, "train", path=where, needs_copy=True)
    run = Run(config, path)
    state, found = run.open(step)
    return _as_trained(run, state, is_finished=found.is_end)


def _as_trained(run: Run, state: TrainState, *, is_finished: bool, card: str = "") -> TrainedRun:
    """Returns the model of a run that is built, at ``state``."""
    made = run.experiment
    if made.use is None:
        raise WorkdirError(f"config.family={run.config.family!r} has no model to use.")
    shape = tuple(jax.tree.leaves(made.data)[0].shape[1:])
    used, config = made.use(jax.device_get(state)), made.config or run.now
    return TrainedRun(config, used, shape, int(state.step), is_finished, card)


def check_inputs(inputs: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Returns inputs that a model can score; raises ValueError for another shape or range."""
    inputs = np.asarray(inputs)
    if inputs.shape[1:] != shape or not inputs.size:
        wanted = f"(N, {', '.join(map(str, shape))}), at least one"
        raise ValueError(f"inputs must have shape {wanted}; got {inputs.shape}.")
    low, high = float(inputs.min()), float(inputs.max())
    # Up to half a pixel beyond 1, which rounds to the whitest.
    is_signed = inputs.dtype.kind == "f" and low < 0 and max(-low, high) <= 1.0 + 1.0 / 255.0
    is_image = inputs.dtype == np.uint8 or is_signed
    if not (is_image if len(shape) > 1 else np.isfinite([low, high]).all()):
        raise ValueError(
            "inputs must be bytes (uint8) from 0 to 255, or floats from -1 to 1 of which some are "
            f"below 0, or finite points; got {inputs.dtype} from {low:g} to {high:g}."
        )
    return inputs


def load_packaged(name: str) -> TrainedRun:
    """Returns a model of ``files.MODELS`` with its card, see ``ebmjax.load``."""
    known = files.models()
    if name not in known:
        raise ConfigError(
            f"no trained model is named {name!r}.{did_you_mean(str(name), known)} There are "
            f"{', '.join(known)}. ebmjax.recipes.load(FOLDER) reads a run of yours."
        )
    place = files.MODELS / name
    fields = run_folder.read_json(place / "fields.json")
    every = families.all_fields(fields["family"], fields)
    base = {key: declare.from_json(every[key], key, fields[key]) for key in fields}
    config = declare.configure(every, base=base)
    families.prune(config)
    run = Run(config, place)
    arrays = run_folder.read_arrays(place / "state.npz")

    def fill(path: Any, leaf: Any) -> Any:
        key = name_leaf(path)
        return jnp.asarray(arrays[key], leaf.dtype) if key in arrays else leaf

    state = jax.tree_util.tree_map_with_path(fill, run.experiment.state)
    return _as_trained(run, state, is_finished=True, card=known[name])


def name_leaf(path: Any) -> str:
    """Returns the name of a leaf of a state; the averaged parameters take the place of the last."""
    name = jax.tree_util.keystr(path)
    _, is_average, rest = name.partition(".parameter_average")
    return f".params{rest}" if is_average else name
