"""Trains one configuration. The same as ``ebmjax run``; --help says more."""

import os

# Read when JAX is imported, which importing ebmjax does.
os.environ.setdefault("JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS", "true")

from ebmjax.recipes.core.run import main

if __name__ == "__main__":
    main()
