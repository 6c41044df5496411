"""Samplers by the names that configurations give them: one table for all families."""

from ebmjax.recipes.parts.samplers.chosen import Chosen as Chosen
from ebmjax.recipes.parts.samplers.chosen import bind_sampler as bind_sampler
from ebmjax.recipes.parts.samplers.chosen import chain_kind as chain_kind
from ebmjax.recipes.parts.samplers.chosen import check as check
from ebmjax.recipes.parts.samplers.chosen import noise_scale as noise_scale
from ebmjax.recipes.parts.samplers.chosen import of_section as of_section
from ebmjax.recipes.parts.samplers.chosen import temperature as temperature
from ebmjax.recipes.parts.samplers.table import PLAIN as PLAIN
from ebmjax.recipes.parts.samplers.table import SAMPLERS as SAMPLERS
from ebmjax.recipes.parts.samplers.table import SINGLE as SINGLE
from ebmjax.recipes.parts.samplers.table import TILTING as TILTING
from ebmjax.recipes.parts.samplers.table import defaults as defaults
from ebmjax.recipes.parts.samplers.table import sections as sections
