"""Trains one configuration. The same as ``ebmjax run``; --help says more."""

from ebmjax.recipes.__main__ import command, quietly

main = command("run").main

if __name__ == "__main__":
    quietly(main)
