"""Prints every configuration and study with its first line and its variants.

For FILE it prints only that, and a study's rows and columns, too. FOLDER is where the files lie: by
default configs/ and studies/ of the current folder or of experiments/, or else the project's own.
"""

from pathlib import Path

from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.config import files, show_fields
from ebmjax.recipes.config.errors import ConfigError, count_nouns, did_you_mean, stop
from ebmjax.recipes.study import Study
from ebmjax.recipes.study.cells import read_file


def main() -> None:
    """Reads the command line and prints; ends with code 2 if there is nothing to print."""
    parser = make_parser(__doc__, "ebmjax list")
    parser.add_argument("name", nargs="?", default="", metavar="FOLDER|FILE[:VARIANT]")
    models = "print the cards of the trained models that ebmjax.load(NAME) returns"
    parser.add_argument("--models", action="store_true", help=models)
    options = parser.parse_args()
    name, (path, _, variant) = options.name, options.name.partition(":")
    if options.models:
        print(*files.models().values(), sep="\n")
    elif name and not Path(name).is_dir():
        found = [one for kind in ("configs", "studies") for one in files.places(path, kind)[:1]]
        found = found or [files.find(path, "*", "configuration or study")]  # which ends the command
        known = [name for file in dict.fromkeys(found) for name in show(file, variant)]
        if variant and variant not in known:
            stop(f"{path} has no variant {variant!r}.{did_you_mean(variant, known)}")
    else:
        folders = [Path(name)] if name else [_folder("configs"), _folder("studies")]
        every = [path for folder in folders for path in sorted(folder.glob("*.py"))]
        if not any([show(path) for path in every]):
            stop(f"no configuration or study in {name or 'configs/'}: name a folder.")


def _folder(kind: str) -> Path:
    places = [Path(kind), Path("experiments") / kind]
    return next((place for place in places if place.is_dir()), files.PROJECT / kind)


def show(path: Path, variant: str | None = None) -> list[str]:
    """Prints a file; returns its variants, "" among them, or none if it is neither kind.

    ``variant`` asks for the rows and columns of its studies: of this one, or of all if it has none.
    """
    text, names = show_fields.read_definitions(path)
    has_studies = bool(names & {"STUDY", "STUDIES"})
    if not has_studies and "get_config" not in names:
        return []
    is_ours = path.is_relative_to(files.PROJECT)
    print(path.relative_to(files.PROJECT) if is_ours else path, f"  {text}", sep="\n", flush=True)
    variants = show_fields.variants(path) if "get_config" in names else []
    if variants:
        print(f"  :{' :'.join(variants)}")
    try:
        studies = read_file(path) if has_studies else {}
    except ConfigError as error:
        if variant is not None:
            stop(error)
        print(f"  {error}")
        return ["", *variants]
    if variant is None and studies:
        print(f"  {'; '.join(_size(name, study) for name, study in studies.items())}")
    elif variant is not None:
        for name in [variant] if variant in studies else studies:
            print(f"  {_size(name, studies[name])}")
            for label, row in studies[name].rows.items():
                print(f"    {label!r}: {row if isinstance(row, str) else ' '.join(row)}")
            print(f"    columns: {', '.join(map(repr, studies[name].columns))}")
    return ["", *variants, *studies]


def _size(name: str, study: Study) -> str:
    rows, seeds = count_nouns(len(study.rows), "row"), count_nouns(study.num_seeds, "seed")
    return f":{name} {rows} x {seeds}".removeprefix(": ")
