"""Draws the figures of the thermodynamic-integration thesis from a study; --help says more."""

from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.config.files import project

main = project("figures.latent").main

if __name__ == "__main__":
    quietly(main)
