"""Prints every configuration and study with its first line and its variants.

For FILE it prints only that, with a study's rows and columns. FOLDER is where the files lie: by
default configs/ and studies/ of the current folder or of experiments/, or else the project's own.
"""

from pathlib import Path

from ebmjax.recipes.__main__ import make_parser
from ebmjax.recipes.config import files, show_fields
from ebmjax.recipes.config.errors import ConfigError, count_nouns, stop
from ebmjax.recipes.study.cells import read_file


def main() -> None:
    """Reads the command line and prints; ends with code 2 if there is nothing to print."""
    parser = make_parser(__doc__, "ebmjax list")
    parser.add_argument("name", nargs="?", default="", metavar="FOLDER|FILE")
    models = "print the cards of the trained models that ebmjax.load(NAME) returns"
    parser.add_argument("--models", action="store_true", help=models)
    options = parser.parse_args()
    name = options.name.partition(":")[0]
    if options.models:
        print(*files.models().values(), sep="\n")
        return
    kinds, is_file = ("configs", "studies"), bool(name) and not Path(name).is_dir()
    if is_file:
        every = [one for kind in kinds for one in files.places(name, kind)[:1]]
        every = every or [files.find(name, "*", "configuration or study")]  # which ends the command
    else:
        roots = (Path(), Path("experiments"), files.PROJECT)
        places = (next(root / kind for root in roots if (root / kind).is_dir()) for kind in kinds)
        folders = [Path(name)] if name else places
        every = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    if not any([show(path, is_file) for path in dict.fromkeys(every)]):
        stop(f"no configuration or study in {name or 'configs/'}: name a folder.")


def show(path: Path, has_rows: bool) -> bool:
    """Prints a file, with a study's rows and columns if asked; returns False for other files."""
    text, names = show_fields.read_definitions(path)
    if not names & {"STUDY", "STUDIES", "get_config"}:
        return False
    is_ours = path.is_relative_to(files.PROJECT)
    print(path.relative_to(files.PROJECT) if is_ours else path, f"  {text}", sep="\n", flush=True)
    if "get_config" in names:
        if variants := show_fields.variants(path):
            print(f"  :{' :'.join(variants)}")
        return True
    try:
        studies = read_file(path)
    except ConfigError as error:
        print(f"  {error}")
        return True
    for variant, study in studies.items():
        rows, seeds = count_nouns(len(study.rows), "row"), count_nouns(study.num_seeds, "seed")
        print(f"  {f':{variant} ' * bool(variant)}{rows} x {seeds}")
        if has_rows:
            for label, row in study.rows.items():
                print(f"    {label!r}: {row if isinstance(row, str) else ' '.join(row)}")
            print(f"    columns: {', '.join(map(repr, study.columns))}")
    return True
