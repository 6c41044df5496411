"""Puts the site of this version beside those of others: ``python docs/publish.py PUBLIC``.

PUBLIC gets VERSION/, the site; index.html, which leads to the newest; versions.html, which lists
all. Upload the folder as it is. An older version keeps its pages, which all link to the list.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from packaging.version import InvalidVersion, Version

import ebmjax

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">{head}
<title>ebmjax</title><body style="font-family: sans-serif; margin: 3em">{body}</body></html>
"""


def find_versions(public: Path) -> list[str]:
    """Returns the versions whose sites lie in a folder, the newest first."""
    found = {}
    for page in public.glob("*/index.html"):
        try:
            found[Version(page.parent.name)] = page.parent.name
        except InvalidVersion:
            continue  # a folder of something else
    return [found[version] for version in sorted(found, reverse=True)]


def write_lists(public: Path) -> None:
    """Writes index.html, which leads to the newest version, and versions.html."""
    versions = find_versions(public)
    newest = next((one for one in versions if not Version(one).is_prerelease), versions[0])
    head = f'<meta http-equiv="refresh" content="0; url={newest}/index.html">'
    link = f'<a href="{newest}/index.html">ebmjax {newest}</a>'
    (public / "index.html").write_text(PAGE.format(head=head, body=link))
    items = "".join(f'<li><a href="{one}/index.html">{one}</a></li>' for one in versions)
    body = f"<h1>Versions of ebmjax</h1><ul>{items}</ul>"
    (public / "versions.html").write_text(PAGE.format(head="", body=body))


def main() -> None:
    """Builds the site of this version, and writes both lists again."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("public", type=Path, help="folder that is uploaded")
    public = parser.parse_args().public
    docs = Path(__file__).parent
    # Sphinx leaves notebooks and a cache beside the folder that it builds; "site" is for that.
    built = docs.parent / "site"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", docs, built]
    subprocess.run(command, env=os.environ | {"EBMJAX_HAS_VERSIONS": "1"}, check=True)
    place = public / ebmjax.__version__
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(built, place, ignore=shutil.ignore_patterns(".doctrees"))
    write_lists(public)


if __name__ == "__main__":
    main()
