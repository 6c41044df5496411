"""The seeds of a study's runs: a run of R repeats trains R of them."""

import runpy
from collections.abc import Sequence
from pathlib import Path

HOME = Path(__file__).resolve().parent
FIELD = "--config.train.num_repeats="


def first_seed(run: int, config: str, arguments: Sequence[str]) -> int:
    """``config.seed`` of run number ``run`` of a row, so that no seed of the row counts twice.

    Repeat r of a run is the run of seed ``config.seed + r``.

    Args:
      run: from 0.
      config: ``FILE[:VARIANT]``, the file looked for from here and from experiments/.
      arguments: of the run; the last that names a field wins.
    """
    return run * num_repeats(config, arguments)


def num_repeats(config: str, arguments: Sequence[str]) -> int:
    """How many repeats a run trains: ``arguments`` say so, or else the configuration does.

    1 for a configuration that cannot be had: run.py will say why.
    """
    told = [one.removeprefix(FIELD) for one in arguments if one.startswith(FIELD)]
    if told:
        return int(told[-1])
    path, _, variant = config.partition(":")
    found = next((p for p in (Path(path), HOME / path) if p.is_file()), None)
    if found is None:
        return 1
    try:
        fields = runpy.run_path(str(found))["get_config"](variant)
    except ValueError:  # an unknown variant
        return 1
    return fields.train.get("num_repeats", 1)
