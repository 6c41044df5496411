"""Reads and writes the trained models that come with ebmjax (``ebmjax.load``).

A model's folder in ``files.MODELS`` has fields.json (its configuration, without the fields at their
defaults), state.npz and card.md. They are data: nothing in them is unpickled or run. This makes the
first two from a finished run:

  python -m ebmjax.recipes.run.at_hand RUN FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ebmjax._records import read_json
from ebmjax.recipes.config import declare, families, files
from ebmjax.recipes.config.errors import ConfigError, did_you_mean, flatten
from ebmjax.recipes.folder.run_folder import as_json, config_of
from ebmjax.recipes.run.outputs import write
from ebmjax.recipes.run.run import Run
from ebmjax.recipes.run.trained import TrainedRun, as_trained

KEPT = (".step", ".params", ".carry.statistics", ".carry.smoothing", ".carry.adaptation")
"""Leaves of a state that a model needs, by the beginnings of their names."""


def load(name: str) -> TrainedRun:
    """Returns a model of ``files.MODELS`` with its card, see ``ebmjax.load``."""
    known = files.models()
    if name not in known:
        raise ConfigError(
            f"no trained model is named {name!r}.{did_you_mean(str(name), known)} There are "
            f"{', '.join(known)}. ebmjax.recipes.load(FOLDER) reads a run of yours."
        )
    place = files.MODELS / name
    fields = read_json(place / "fields.json")
    every = families.all_fields(fields["family"], fields)
    config = declare.configure(
        every, base={key: declare.from_json(every[key], key, fields[key]) for key in fields}
    )
    families.prune(config)
    run = Run(config, place)
    experiment = run.build()
    with np.load(place / "state.npz", allow_pickle=False) as arrays:

        def fill(path: Any, leaf: Any) -> Any:
            key = _name(path)
            return jnp.asarray(arrays[key], leaf.dtype) if key in arrays else leaf

        state = jax.tree_util.tree_map_with_path(fill, experiment.state)
    return as_trained(run, state, is_finished=True)._replace(card=known[name])


def keep(folder: Path, place: Path) -> None:
    """Writes fields.json and state.npz of a finished run, for ``load``."""
    run = Run(config_of(folder), folder)
    every = families.all_fields(run.config.family)
    defaults = flatten(as_json(declare.defaults(every)))
    run.build()
    state, _ = run.restore(run.find(None))
    leaves = jax.tree_util.tree_leaves_with_path(jax.device_get(state))
    named = {_name(path): np.asarray(leaf) for path, leaf in leaves}
    place.mkdir(parents=True, exist_ok=True)
    write(place / "state.npz", {k: v for k, v in named.items() if k.startswith(KEPT)})
    fields = flatten(as_json(run.config)).items()
    fields = {k: v for k, v in fields if k == "family" or v != defaults.get(k, declare)}
    (place / "fields.json").write_text(json.dumps(fields, indent=1) + "\n")


def _name(path: Any) -> str:
    """Returns the name of a leaf of a state; the averaged parameters take the place of the last."""
    name = jax.tree_util.keystr(path)
    _, is_average, rest = name.partition(".parameter_average")
    return f".params{rest}" if is_average else name


if __name__ == "__main__":
    keep(*map(Path, sys.argv[1:]))
