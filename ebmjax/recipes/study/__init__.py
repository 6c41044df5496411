"""Studies: a table of runs over seeds. A study file imports ``Study`` from here."""

from ebmjax.recipes.study.cells import Study as Study
from ebmjax.recipes.study.cells import make_flags as make_flags
