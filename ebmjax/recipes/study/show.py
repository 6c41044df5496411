"""Prints configurations and studies: ``ebmjax list``."""

import sys
from collections.abc import Iterator
from pathlib import Path

from ebmjax.recipes.config import files, show_configs
from ebmjax.recipes.config.errors import ConfigError, count_nouns, did_you_mean, stop
from ebmjax.recipes.study import Study, study_file

USAGE = """usage: ebmjax list [FOLDER | FILE[:VARIANT] | --models]

Prints every configuration and study with its first line and its variants. For FILE it prints only
that, and a study's rows and columns, too. FOLDER is where the files lie: by default configs/ and
studies/ of the current folder or of experiments/, or else the project's own. --models prints the
cards of the trained models that ebmjax.load(NAME) returns."""


def main() -> None:
    """Reads the command line and prints; ends with code 2 if there is nothing to print."""
    name, *more = sys.argv[1:] or [""]
    if name in ("--help", "-h"):
        print(USAGE)
        return
    if more:
        stop(f"ebmjax list takes one folder or file, got also {more[0]!r}.")
    if name == "--models":
        lines = iter(files.models().values())
    elif name and not Path(name).is_dir():
        lines = _file(name)
    else:
        folders = [Path(name)] if name else [_folder("configs"), _folder("studies")]
        lines = (line for folder in folders for line in _all_of(folder))
    is_empty = True
    for line in lines:
        print(line, flush=True)
        is_empty = False
    if is_empty:
        stop(f"no configuration or study in {name or 'configs/'}: name a folder.")


def _folder(kind: str) -> Path:
    places = [Path(kind), Path("experiments") / kind]
    return next((place for place in places if place.is_dir()), files.PROJECT / kind)


def _all_of(folder: Path) -> Iterator[str]:
    for path, text, variants in show_configs.configurations(folder):
        yield from _head(path, text)
        if variants:
            yield f"  :{' :'.join(variants)}"
    for path in sorted(folder.glob("*.py")):
        text, names = show_configs.read_definitions(path)
        if names & {"STUDY", "STUDIES"}:
            yield from _head(path, text)
            try:
                found = study_file.read(path).items()
            except ConfigError as error:
                yield f"  {error}"
            else:
                yield "  " + "; ".join(f"{_size(name, one)}" for name, one in found)


def _file(name: str) -> Iterator[str]:
    """Lines for a configuration, a study, or both if they share a name."""
    path, _, variant = name.partition(":")
    places = {kind: files.places(path, kind)[:1] for kind in ("configs", "studies")}
    if not any(places.values()):
        files.find(path, "*", "configuration or study")
    known: list[str] = []
    for file in dict.fromkeys(one for found in places.values() for one in found):
        text, names = show_configs.read_definitions(file)
        yield from _head(file, text)
        if "get_config" in names:
            known += (variants := show_configs.variants(file))
            yield f"  :{' :'.join(variants)}"
        if names & {"STUDY", "STUDIES"}:
            try:
                studies = study_file.read(file)
            except ConfigError as error:
                stop(error)
            known += studies
            for one in [variant] if variant in studies else studies:
                yield from _rows(one, studies[one])
    if variant and variant not in known:
        stop(f"{path} has no variant {variant!r}.{did_you_mean(variant, known)}")


def _head(path: Path, text: str) -> Iterator[str]:
    is_ours = path.is_relative_to(files.PROJECT)
    yield str(path.relative_to(files.PROJECT) if is_ours else path)
    yield f"  {text}"


def _size(name: str, study: Study) -> str:
    rows, seeds = count_nouns(len(study.rows), "row"), count_nouns(study.num_seeds, "seed")
    return f":{name} {rows} x {seeds}".removeprefix(": ")


def _rows(name: str, study: Study) -> Iterator[str]:
    yield f"  {_size(name, study)}"
    for label, row in study.rows.items():
        yield f"    {label!r}: {row if isinstance(row, str) else ' '.join(row)}"
    yield f"    columns: {', '.join(map(repr, study.columns))}"
