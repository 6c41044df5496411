"""Makes a study: a table of runs over seeds. The same as ``ebmjax study``; --help says more."""

from ebmjax.recipes.__main__ import command, quietly

main = command("study").main

if __name__ == "__main__":
    quietly(main)
