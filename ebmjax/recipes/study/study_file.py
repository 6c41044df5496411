"""Reads study files."""

import runpy
from collections.abc import Mapping
from pathlib import Path

from ebmjax.recipes.config import files
from ebmjax.recipes.config.errors import ConfigError
from ebmjax.recipes.study import Study


def load(name: str) -> Study:
    """Returns the study of ``FILE[:VARIANT]``; "jem_digits" stands for studies/jem_digits.py.

    Raises:
      ConfigError: as ``read``, or if there is no such variant.
      SystemExit: if there is no such file.
    """
    path, _, variant = name.partition(":")
    studies = read(files.find(path, "studies", "study"))
    if variant not in studies:
        choices = ", ".join(path + (f":{one}" if one else "") for one in studies)
        raise ConfigError(f"{path} has no variant {variant!r}. There are {choices}.")
    return studies[variant]


def read(path: Path) -> Mapping[str, Study]:
    """Returns the studies of a file by variant, "" for a single one.

    Raises:
      ConfigError: if the file cannot be run, or defines no studies.
    """
    try:
        namespace = runpy.run_path(str(path))
    except ConfigError as error:  # of a ``Study``
        raise ConfigError(f"{path}: {error}") from error
    except (Exception, SystemExit) as error:  # whatever the file does
        mistake = files.mistake_in(path, error) or f"{path}: {type(error).__name__}: {error}"
        raise ConfigError(mistake) from error
    studies = namespace.get("STUDIES", {"": namespace.get("STUDY")})
    is_right = isinstance(studies, Mapping) and len(studies) > 0
    if not is_right or not all(isinstance(study, Study) for study in studies.values()):
        raise ConfigError(
            f"{path} must define STUDY, a Study from ebmjax.recipes.study, or STUDIES, such "
            "studies by variant."
        )
    return studies


def default_folder(name: str, kind: str = "studies") -> Path:
    """Returns ``runs/<kind>/<file>[_<variant>]`` in the current folder."""
    path, _, variant = name.partition(":")
    return Path("runs") / kind / "_".join(filter(None, (Path(path).stem, variant)))
