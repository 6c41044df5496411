"""The site's tables of fields and configurations, made from what is declared.

docs/conf.py fills each in between two comments that name it.
"""

import re

from ebmjax.recipes.config import files, show_configs, show_fields

MARKED = re.compile(r"<!-- (fields of \w+|configurations) -->\n.*?<!-- end -->", re.DOTALL)


def fill_tables(page: str) -> str:
    """A page of Markdown with its marked tables written anew."""

    def made(found: re.Match[str]) -> str:
        name = found.group(1)
        if name == "configurations":
            table = show_configs.table(files.PROJECT / "configs")
        elif name == "fields of samplers":
            table = show_fields.table_of_samplers()
        else:
            table = show_fields.table(name.rpartition(" ")[2])
        return f"<!-- {name} -->\n\n{table}\n\n<!-- end -->"

    return MARKED.sub(made, page)
