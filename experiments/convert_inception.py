"""Turns PyTorch's FID Inception-v3 into a file that ebmjax.networks reads; --help says more."""

from ebmjax.recipes.__main__ import quietly
from ebmjax.recipes.images.convert_inception import main

if __name__ == "__main__":
    quietly(main)
