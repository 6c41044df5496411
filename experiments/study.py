"""Makes a study: a table of runs over seeds. The same as ``ebmjax study``; --help says more."""

from ebmjax.recipes.study.command import main

if __name__ == "__main__":
    main()
