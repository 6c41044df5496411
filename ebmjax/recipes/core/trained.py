"""Loads the model of a finished run: to sample, to score, to be called from your own code."""

from pathlib import Path
from typing import Any, NamedTuple

import jax

from ebmjax.recipes.core import declare, evaluate, families, recover, workdir
from ebmjax.recipes.core.explain import build_or_explain
from ebmjax.recipes.core.fields import Config, ConfigError, WorkdirError, flatten


class TrainedRun(NamedTuple):
    """A finished run.

    Attributes:
      config: its configuration, with what recoveries changed (``config.train.on_divergence``).
      params: PyTree of its parameters.
      apply: pure function of parameters and a batch: logits (joint), energies (image, plane), or
        the generator's images (latent).
      sample: see ``build.Use``.
      score: see ``build.Use``.
      input_shape: shape of one image or point.
    """

    config: Config
    params: Any
    apply: Any
    sample: Any
    score: Any
    input_shape: tuple[int, ...]


def load(folder: str | Path, **fields: Any) -> TrainedRun:
    """Returns the model of a finished run; the data that it was trained on must be there.

    Args:
      folder: the run's folder.
      **fields: fields of the configuration that may differ, with underscores for dots:
        ``data_path`` where the data have moved, ``eval_checkpoint="best"`` for the best state
        instead of the last. ``data_placement="disk"`` leaves the images in their files.

    Raises:
      WorkdirError: if the folder holds no finished run.
      ConfigError: if a field may not differ, or the data cannot be read.

    Example:
      ``run = load("runs/jem"); images = run.sample(jax.random.key(0), 64)["images"]``
    """
    path = Path(folder).expanduser()
    config = _config(path)
    for name, value in fields.items():
        dotted = name.replace("_", ".", 1)
        if dotted not in (*workdir.LOCATIONS, "eval.checkpoint"):
            raise ConfigError(
                f"{name} may not differ from the run's own configuration. Fields that may: "
                "data_path, data_placement, eval_checkpoint."
            )
        config.update_from_flattened_dict({dotted: value})
    evaluate.check_folder(path, config)
    config = recover.remedied(config, recover.read(path))
    experiment = build_or_explain(config, lambda: families.build(config, path))
    if experiment.use is None:
        raise WorkdirError(f"config.family={config.family!r} has no model to use.")
    used = experiment.use(jax.device_get(evaluate.restore(path, config, experiment)))
    first = jax.tree.leaves(experiment.data)[0]
    return TrainedRun(config, *used, input_shape=tuple(first.shape[1:]))


def _config(path: Path) -> Config:
    """Returns the configuration in config.json of a run's folder."""
    try:
        saved = workdir.read_config(path)
    except (OSError, ValueError) as error:
        raise WorkdirError(
            f"{path} is not the folder of a run: its config.json cannot be read ({error})."
        ) from error
    config = declare.defaults(families.fields_of(saved.get("family", "")))
    flat = {k: tuple(v) if isinstance(v, list) else v for k, v in flatten(saved).items()}
    with config.unlocked():
        config.update_from_flattened_dict(flat)
    return config
