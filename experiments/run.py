"""Trains one configuration. The same as ``ebmjax run``; --help says more."""

from ebmjax.recipes.core.run import main

if __name__ == "__main__":
    main()
