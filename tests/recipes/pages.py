"""The pages of the documentation, and the blocks of code in them."""

import re
from functools import cache

from experiment_runs import REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
TEXTS = {str(path.relative_to(REPOSITORY)): path.read_text() for path in PAGES}


def blocks(text: str, language: str) -> list[str]:
    """Contents of a page's code blocks in a language, "" for none, without their indentation."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [
        re.sub(rf"^{indent}", "", block, flags=re.MULTILINE)
        for indent, its_language, block in found
        if its_language == language
    ]


@cache
def files() -> dict[str, str]:
    """Files that pages show: each is a block that begins with a comment of its name."""
    shown = [block for text in TEXTS.values() for block in blocks(text, "python")]
    named = [(re.match(r"# (\S+\.py)\n", block), block) for block in shown]
    return {name[1]: block for name, block in named if name}
