"""Samplers by the names that configurations give them, and samplers as the papers print them."""

from ebmjax.recipes.samplers.table import SAMPLERS as SAMPLERS
from ebmjax.recipes.samplers.table import sampler as sampler
from ebmjax.recipes.samplers.table import tempered_mala as tempered_mala
